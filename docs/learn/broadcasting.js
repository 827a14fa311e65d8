// Two shapes, aligned at their last axes: what is stretched, what comes out, and how the gradient is summed back.

import {
  Board,
  Grid,
  choice,
  field,
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

const RANK = 3;
const CELLS = 48;
const SIGNS = { add: "+", mul: "×" };
const APPLY = { add: (x, y) => x + y, mul: (x, y) => x * y };

/** Returns the shape that a text names, or `null` if it names none. */
function shapeOf(text) {
  const parts = text
    .replaceAll(/[()[\]]/g, "")
    .split(/[\s,x]+/)
    .filter(Boolean);
  return parts.every((part) => /^[1-9]\d{0,3}$/.test(part)) ? parts.map(Number) : null;
}

/** Returns a shape with axes of extent 1 put before it until there are `rank`. */
const filledUp = (shape, rank) => [...Array(rank - shape.length).fill(1), ...shape];

/** Returns the shape that two shapes broadcast to, or `null`. */
function broadcast(a, b) {
  const rank = Math.max(a.length, b.length);
  const [left, right] = [filledUp(a, rank), filledUp(b, rank)];
  const fits = left.every((extent, axis) => extent === right[axis] || extent === 1 || right[axis] === 1);
  return fits ? left.map((extent, axis) => (extent === 1 ? right[axis] : extent)) : null;
}

/** Returns the position in an operand that a cell of the result reads. */
function source(position, shape, into) {
  const place = placeOf(position, into).slice(into.length - shape.length);
  return positionOf(
    place.map((index, axis) => (shape[axis] === 1 ? 0 : index)),
    shape,
  );
}

const counted = (shape, step) => range(size(shape)).map((index) => step * (index + 1));

/** Computes what the library gave for the presets: the result, and the gradients of its sum. */
function computed(a, b, operation) {
  const shape = broadcast(a, b);
  const [x, y] = [counted(a, 1), counted(b, 10)];
  const [dx, dy] = [x.map(() => 0), y.map(() => 0)];
  const result = range(size(shape)).map((position) => {
    const [i, j] = [source(position, a, shape), source(position, b, shape)];
    dx[i] += operation === "mul" ? y[j] : 1;
    dy[j] += operation === "mul" ? x[i] : 1;
    return APPLY[operation](x[i], y[j]);
  });
  return { a: x, b: y, shape, result, da: dx, db: dy };
}

/** Returns a table of the axes, aligned at the end, with what is stretched. */
function axes(a, b, shape) {
  const rank = Math.max(a.length, b.length);
  const [left, right] = [filledUp(a, rank), filledUp(b, rank)];
  const row = (name, own, cells) =>
    html("tr", {}, html("th", { scope: "row" }, name), html("td", {}, shapeText(own)), ...cells);
  const entry = (own, axis, mine, other) => {
    const isNew = axis < rank - own.length;
    const stretches = mine[axis] === 1 && other[axis] !== 1;
    const fits = mine[axis] === other[axis] || mine[axis] === 1 || other[axis] === 1;
    const text = stretches ? `${isNew ? "new" : "1"} → ${other[axis]}` : isNew ? "new 1" : String(mine[axis]);
    return html("td", { "data-is": fits ? (stretches ? "stretched" : "same") : "wrong" }, text);
  };
  const result = range(rank).map((axis) =>
    html("td", {}, shape ? String(shape[axis]) : left[axis] === right[axis] ? String(left[axis]) : "?"),
  );
  return html(
    "table",
    { class: "learn-axes", "aria-label": "Axes, aligned at the end" },
    row(
      "a",
      a,
      range(rank).map((axis) => entry(a, axis, left, right)),
    ),
    row(
      "b",
      b,
      range(rank).map((axis) => entry(b, axis, right, left)),
    ),
    shape
      ? row("c", shape, result)
      : html("tr", {}, html("th", { scope: "row" }, "c"), html("td", {}, "none"), ...result),
  );
}

export function draw(root, data) {
  const board = new Board(root);
  const state = { a: "", b: "", operation: "add" };

  function update() {
    const [a, b] = [shapeOf(state.a), shapeOf(state.b)];
    if (!a || !b)
      return board.refuse("A shape is whole numbers of at least 1, such as 3, 1. An empty field is a scalar.");
    const shape = broadcast(a, b);
    const texts = [shapeText(a), shapeText(b)];
    if (!shape) {
      const message = data.message[state.operation].replace("{a}", texts[0]).replace("{b}", texts[1]);
      return board.refuse(`ShapeError: ${message}`, [axes(a, b, shape)]);
    }
    if (shape.length > RANK || size(shape) > CELLS)
      return board.refuse(
        `This page draws at most ${RANK} axes and ${CELLS} cells; the shapes broadcast to ${shapeText(shape)}.`,
        [axes(a, b, shape)],
      );
    const preset = data.presets.find((one) => `${one.a}` === `${a}` && `${one.b}` === `${b}`);
    show(a, b, preset?.[state.operation] ?? computed(a, b, state.operation));
  }

  function show(a, b, values) {
    const { shape } = values;
    const sign = SIGNS[state.operation];
    const cells = range(size(shape));
    const [fromA, fromB] = [cells.map((i) => source(i, a, shape)), cells.map((i) => source(i, b, shape))];
    const A = new Grid("a", a, values.a);
    const B = new Grid("b", b, values.b);
    const wide = (name, from, own) => {
      const grid = new Grid(
        name,
        shape,
        from.map((i) => own[i]),
        { note: `as ${shapeText(shape)}` },
      );
      return grid.is(
        "stretched",
        cells.filter((i) => from.indexOf(from[i]) !== i),
      );
    };
    const [wideA, wideB] = [wide("a", fromA, values.a), wide("b", fromB, values.b)];
    const C = new Grid("c", shape, values.result);
    const G = new Grid(
      "dc",
      shape,
      cells.map(() => 1),
      { note: "of sum(c): all ones" },
    );
    const dA = new Grid("da", a, values.da, { note: `summed to ${shapeText(a)}` });
    const dB = new Grid("db", b, values.db, { note: `summed to ${shapeText(b)}` });
    const sides = [
      { own: A, wide: wideA, grad: dA, from: fromA, other: B, fromOther: fromB },
      { own: B, wide: wideB, grad: dB, from: fromB, other: A, fromOther: fromA },
    ];

    function explain(grid, position) {
      if (grid === C || grid === G) return result(position, grid === G);
      const side = sides.find((one) => [one.own, one.wide, one.grad].includes(grid));
      if (grid === side.wide) position = side.from[position];
      const readers = cells.filter((i) => side.from[i] === position);
      return grid === side.grad ? gradient(side, position, readers) : read(side, grid, position, readers);
    }

    function result(i, isCotangent) {
      const marks = sides.flatMap((one) => [
        [one.own, [one.from[i]], "from"],
        [one.wide, [i], "from"],
        [one.grad, isCotangent ? [one.from[i]] : [], "to"],
      ]);
      if (isCotangent) {
        const arrows = sides.map((one) => [G, i, one.grad, one.from[i]]);
        return {
          marks,
          arrows,
          text: `${G.at(i)} is added to ${sides.map((one) => one.grad.at(one.from[i])).join(" and to ")}.`,
        };
      }
      const [x, y] = sides.map((one) => one.own.values[one.from[i]]);
      const names = sides.map((one) => one.own.at(one.from[i]));
      const arrows = sides.map((one) => [one.own, one.from[i], one.wide, i]);
      return {
        marks,
        arrows,
        text: `${C.at(i)} = ${names.join(` ${sign} `)} = ${format(x)} ${sign} ${format(y)} = ${C.texts[i]}`,
      };
    }

    function read(side, grid, position, readers) {
      const marks = [
        [side.own, [position], "from"],
        [side.wide, readers, "to"],
        [C, readers, "to"],
        [side.grad, [position], "to"],
      ];
      const arrows = grid === side.own ? readers.map((i) => [grid, position, side.wide, i]) : [];
      const times = readers.length === 1 ? "once" : `${readers.length} times`;
      return {
        marks,
        arrows,
        text: `${side.own.at(position)} is read ${times}: its gradient ${side.grad.at(position)} is a sum of ${readers.length} cotangents.`,
      };
    }

    function gradient(side, position, readers) {
      const isProduct = state.operation === "mul";
      const terms = readers.map((i) => (isProduct ? `1 · ${operand(side.other.values[side.fromOther[i]])}` : "1"));
      const marks = [
        [G, readers, "from"],
        [side.other, isProduct ? readers.map((i) => side.fromOther[i]) : [], "from"],
        [side.own, [position], "to"],
      ];
      const arrows = readers.map((i) => [G, i, side.grad, position]);
      return { marks, arrows, text: `${side.grad.at(position)} = ${listed(terms)} = ${side.grad.texts[position]}` };
    }

    const rows = [[axes(a, b, shape)], [A, B], [wideA, sign, wideB, "=", C], [G, "→", dA, dB]];
    board.show(rows, explain, "Point at a cell. Dashed cells are copies that are never stored.");
  }

  const fields = ["a", "b"].map((name) =>
    field(`Shape of ${name}`, "", (text) => {
      state[name] = text;
      update();
    }),
  );
  function take(preset) {
    for (const [index, name] of ["a", "b"].entries()) {
      state[name] = preset[name].join(",");
      fields[index].querySelector("input").value = preset[name].join(", ");
    }
    update();
  }
  const names = data.presets.map((preset, index) => [String(index), preset.name]);
  board.controls.append(
    choice("Example", names, "0", (index) => take(data.presets[index])),
    ...fields,
    choice(
      "Operation",
      Object.entries(SIGNS).map(([name, sign]) => [name, `a ${sign} b`]),
      "add",
      (name) => {
        state.operation = name;
        update();
      },
    ),
  );
  take(data.presets[0]);
}
