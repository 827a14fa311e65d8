// A convolution: the window of each cell of the result, and the windows that a cell of the input lies in.

import { Board, Grid, choice, listed, operand, range, whole } from "./draw.js";

const LIMITS = {
  size: ["Input", 2, 8],
  window: ["Kernel", 1, 4],
  stride: ["Stride", 1, 3],
  padding: ["Padding", 0, 3],
  dilation: ["Dilation", 1, 3],
};

/** Computes what the library gave for the presets, by the same rule. */
function computed({ size, window, stride, padding, dilation }) {
  const out = Math.floor((size + 2 * padding - dilation * (window - 1) - 1) / stride) + 1;
  const x = range(size * size).map((i) => (3 * i) % 10);
  const w = range(window * window).map((i) => ((2 * i) % 5) - 2);
  const [y, dx, dw] = [Array(out * out).fill(0), x.map(() => 0), w.map(() => 0)];
  for (const [o, i, k] of taps({ size, window, stride, padding, dilation }, out)) {
    if (i === null) continue;
    y[o] += x[i] * w[k];
    dx[i] += w[k];
    dw[k] += x[i];
  }
  const array = (extent, values) => ({ shape: [extent, extent], values });
  return { x: array(size, x), w: array(window, w), y: array(out, y), dx: array(size, dx), dw: array(window, dw) };
}

/** Returns [output, input, weight] for every product of a convolution; the input is null in the padding. */
function taps({ size, window, stride, padding, dilation }, out) {
  const all = [];
  for (const o of range(out * out))
    for (const k of range(window * window)) {
      const row = Math.floor(o / out) * stride - padding + Math.floor(k / window) * dilation;
      const column = (o % out) * stride - padding + (k % window) * dilation;
      const isInside = row >= 0 && row < size && column >= 0 && column < size;
      all.push([
        o,
        isInside ? row * size + column : null,
        k,
        (row + padding) * (size + 2 * padding) + column + padding,
      ]);
    }
  return all;
}

export function draw(root, data) {
  const board = new Board(root);
  const names = Object.keys(LIMITS);
  const state = Object.fromEntries(names.map((name) => [name, data.presets[0][name]]));

  function update() {
    const { size, window, padding, dilation } = state;
    const reach = dilation * (window - 1) + 1;
    if (reach > size + 2 * padding) {
      const fill = (text, [name, value]) => text.replaceAll(`{${name}}`, value);
      const text = `ShapeError: ${Object.entries({ window: reach, size, padding }).reduce(fill, data.message)}`;
      return board.refuse(text);
    }
    const preset = data.presets.find((one) => names.every((name) => one[name] === state[name]));
    show(preset ?? computed(state));
  }

  function show({ x, w, y, dx, dw }) {
    const { size, padding } = state;
    const padded = size + 2 * padding;
    const inside = (cell) => {
      const [row, column] = [Math.floor(cell / padded) - padding, (cell % padded) - padding];
      return row >= 0 && row < size && column >= 0 && column < size ? row * size + column : null;
    };
    const cells = range(padded * padded);
    const values = cells.map((cell) => (inside(cell) === null ? 0 : x.values[inside(cell)]));
    const X = new Grid("x", [padded, padded], values, {
      note: `(${size}, ${size})${padding ? `, padded by ${padding}` : ""}`,
      cell: 28,
    });
    X.is(
      "padding",
      cells.filter((cell) => inside(cell) === null),
    );
    // Cells are named by their place in the input, not in the padded one; in the padding they have none.
    const xName = (i) => `x[${Math.floor(i / size)}, ${i % size}]`;
    X.cells.forEach((cell, i) =>
      cell.setAttribute("aria-label", inside(i) === null ? "padding, 0" : `${xName(inside(i))} = ${X.texts[i]}`),
    );
    const W = new Grid("w", w.shape, w.values, { cell: 28 });
    const Y = new Grid("y", y.shape, y.values, { cell: 28 });
    const dX = new Grid("dx", dx.shape, dx.values, { note: "of sum(y)", cell: 28 });
    const dW = new Grid("dw", dw.shape, dw.values, { note: "of sum(y)", cell: 28 });
    const all = taps(state, y.shape[0]);

    function output(o) {
      const mine = all.filter((tap) => tap[0] === o);
      const real = mine.filter((tap) => tap[1] !== null);
      const terms = real.map(([, i, k]) => `${operand(x.values[i])}·${operand(w.values[k])}`);
      const marks = [
        [X, mine.map((tap) => tap[3]), "from"],
        [W, real.map((tap) => tap[2]), "from"],
      ];
      const [first, last] = [mine[0], mine.at(-1)];
      const text = `${Y.at(o)} = ${listed(terms, " + ", 9) || "0"} = ${Y.texts[o]}`;
      return {
        marks,
        arrows: [
          [X, first[3], Y, o],
          [X, last[3], Y, o],
        ],
        text,
      };
    }

    function input(i, grid) {
      const mine = all.filter((tap) => tap[1] === i);
      const places = cells.filter((cell) => inside(cell) === i);
      const marks = [
        [X, places, "from"],
        [Y, mine.map((tap) => tap[0]), "to"],
        [W, mine.map((tap) => tap[2]), "from"],
        [dX, [i], "to"],
      ];
      const windows = `${xName(i)} lies in ${mine.length === 1 ? "one window" : `${mine.length} windows`}`;
      const sum =
        listed(
          mine.map((tap) => operand(w.values[tap[2]])),
          " + ",
          9,
        ) || "0";
      const arrows = grid === X ? mine.map((tap) => [X, places[0], Y, tap[0]]) : [];
      return { marks, arrows, text: `${windows}: ${dX.at(i)} = ${sum} = ${dX.texts[i]}` };
    }

    function weight(k) {
      const mine = all.filter((tap) => tap[2] === k && tap[1] !== null);
      const marks = [
        [W, [k], "from"],
        [X, mine.map((tap) => tap[3]), "from"],
        [Y, mine.map((tap) => tap[0]), "to"],
        [dW, [k], "to"],
      ];
      const sum =
        listed(
          mine.map((tap) => operand(x.values[tap[1]])),
          " + ",
          9,
        ) || "0";
      return { marks, text: `${W.at(k)} is read by every window: ${dW.at(k)} = ${sum} = ${dW.texts[k]}` };
    }

    function explain(grid, position) {
      if (grid === Y) return output(position);
      if (grid === W || grid === dW) return weight(position);
      const i = grid === X ? inside(position) : position;
      return i === null ? { text: "Padding: a zero that is never stored, and has no gradient." } : input(i, grid);
    }

    const hint = `Point at a cell of y to see its window, at one of x to see which windows it lies in. y has shape (${y.shape.join(", ")}).`;
    board.show(
      [
        [X, "*", W, "=", Y],
        [dX, dW],
      ],
      explain,
      hint,
    );
  }

  const fields = names.map((name) =>
    whole(LIMITS[name][0], state[name], LIMITS[name][1], LIMITS[name][2], (number) => {
      state[name] = number;
      update();
    }),
  );
  const presets = data.presets.map((preset) => [preset.name, preset.name]);
  const take = (chosen) => {
    const preset = data.presets.find((one) => one.name === chosen);
    names.forEach((name, index) => {
      state[name] = preset[name];
      fields[index].querySelector("input").value = preset[name];
    });
    update();
  };
  board.controls.append(choice("Example", presets, presets[0][0], take), ...fields);
  update();
}
