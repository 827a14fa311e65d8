// Sum, mean and max over axes: which cells make a cell of the result, and where its cotangent goes.

import {
  Board,
  Grid,
  check,
  choice,
  format,
  html,
  listed,
  operand,
  placeOf,
  positionOf,
  range,
  shapeText,
  size,
} from "./draw.js";

export function draw(root, data) {
  const board = new Board(root);
  const state = { input: data.inputs[0], kind: "sum", axes: new Set([1]), keepdims: false };
  const boxes = html("fieldset", { class: "learn-axis-boxes" });

  function axisBoxes() {
    const boxOf = (axis) =>
      check(String(axis), state.axes.has(axis), (isChosen) => {
        if (isChosen) state.axes.add(axis);
        else state.axes.delete(axis);
        update();
      });
    boxes.replaceChildren(html("legend", {}, "Axes"), ...range(state.input.shape.length).map(boxOf));
  }

  function update() {
    const { shape, x, cases } = state.input;
    const chosen = range(shape.length).filter((axis) => state.axes.has(axis));
    const axes = chosen.length ? chosen : range(shape.length);
    const made = cases[`${state.kind} ${axes.join(",")}`];
    const outShape = state.keepdims ? made.kept : made.shape;
    const target = (position) => {
      const place = placeOf(position, shape);
      return positionOf(
        place.filter((_, axis) => !axes.includes(axis)),
        made.shape,
      );
    };
    const cells = range(size(shape));
    const members = range(size(made.shape)).map((out) => cells.filter((position) => target(position) === out));
    show({ shape, x, axes, made, outShape, target, members });
  }

  function show({ shape, x, axes, made, outShape, target, members }) {
    const X = new Grid("x", shape, x);
    const Y = new Grid("y", outShape, made.result);
    const dY = new Grid("dy", outShape, made.cotangent, { note: "a cotangent, given" });
    const dX = new Grid("dx", shape, made.gradient);
    const isMax = state.kind === "max";
    const ties = members.map((cells, out) => cells.filter((position) => x[position] === made.result[out]));
    const count = members[0].length;
    const mask = new Grid(
      "mask",
      shape,
      x.map((value, i) => Number(value === made.result[target(i)])),
      { note: "x equals its maximum" },
    );
    const readers = (out) => (isMax ? ties[out] : members[out]);

    function value(out) {
      const terms = members[out].map((i) => operand(x[i]));
      const rules = {
        sum: () => listed(terms),
        mean: () => `(${listed(terms)}) / ${count}`,
        max: () =>
          `max(${listed(
            members[out].map((i) => format(x[i])),
            ", ",
          )})`,
      };
      const marks = [
        [X, members[out], "from"],
        [dX, readers(out), "to"],
      ];
      if (isMax) marks.push([mask, ties[out], "to"], [X, ties[out], "to"]);
      const arrows = readers(out).map((i) => [X, i, Y, out]);
      return { marks, arrows, text: `${Y.at(out)} = ${rules[state.kind]()} = ${Y.texts[out]}` };
    }

    function share(position, out) {
      const whole = `${dX.at(position)} = ${dY.at(out)}`;
      if (state.kind === "sum") return `${whole} = ${dX.texts[position]}: a sum hands its cotangent to each term.`;
      if (state.kind === "mean")
        return `${whole} / ${count} = ${dX.texts[position]}: a mean hands each term its share.`;
      const tied = ties[out].length;
      if (!ties[out].includes(position))
        return `${dX.at(position)} = 0: it is not the maximum, so a small change of it changes nothing.`;
      if (tied === 1) return `${whole} = ${dX.texts[position]}: the maximum takes all of it.`;
      return `${whole} / ${tied} = ${dX.texts[position]}: ${tied} cells are equal to the maximum, and share it evenly.`;
    }

    function explain(grid, position) {
      if (grid === Y) return value(position);
      if (grid === dY) {
        const marks = [
          [dX, readers(position), "to"],
          [X, members[position], "from"],
          [mask, isMax ? ties[position] : [], "from"],
        ];
        return {
          marks,
          arrows: readers(position).map((i) => [dY, position, dX, i]),
          text: `${dY.at(position)} = ${dY.texts[position]} goes to ${readers(position)
            .map((i) => dX.at(i))
            .join(", ")}.`,
        };
      }
      const out = target(position);
      const marks = [
        [X, [position], "from"],
        [Y, [out], "to"],
        [dY, [out], "from"],
        [dX, [position], "to"],
        [mask, [position], "from"],
      ];
      return {
        marks,
        arrows: readers(out).includes(position) ? [[dY, out, dX, position]] : [],
        text: share(position, out),
      };
    }

    const call = `${state.kind}(x, axis=${axes.length === 1 ? axes[0] : shapeText(axes)}${state.keepdims ? ", keepdims=True" : ""})`;
    const rows = [[X, "→", Y], isMax ? [dY, "→", mask, "→", dX] : [dY, "→", dX]];
    board.show(rows, explain, `y = tg.${call}, of shape ${shapeText(outShape)}. Point at a cell.`);
  }

  const named = data.inputs.map((input) => [input.name, input.name]);
  board.controls.append(
    choice("Input", named, state.input.name, (name) => {
      state.input = data.inputs.find((input) => input.name === name);
      axisBoxes();
      update();
    }),
    choice(
      "Reduction",
      ["sum", "mean", "max"].map((kind) => [kind, kind]),
      state.kind,
      (kind) => {
        state.kind = kind;
        update();
      },
    ),
    boxes,
    check("keepdims", false, (isKept) => {
      state.keepdims = isKept;
      update();
    }),
  );
  axisBoxes();
  update();
}
