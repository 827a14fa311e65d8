// Products of matrices and of batches of them, and the two products that are their gradients.

import { Board, Grid, choice, listed, operand, placeOf, positionOf, range, size } from "./draw.js";

/** Returns an array with its last two axes swapped. */
function swapped({ shape, values }) {
  const turned = [...shape.slice(0, -2), shape.at(-1), shape.at(-2)];
  const back = (position) => {
    const place = placeOf(position, turned);
    return positionOf([...place.slice(0, -2), place.at(-1), place.at(-2)], shape);
  };
  return { shape: turned, values: range(size(turned)).map((position) => values[back(position)]) };
}

const VIEWS = { C: "C = A B", dA: "dA = dC Bᵀ", dB: "dB = Aᵀ dC" };

export function draw(root, data) {
  const board = new Board(root);
  const state = { preset: data.presets[0], view: "C" };

  function factors() {
    const { A, B, C, dC, dA, dB } = state.preset;
    const grid = (name, array) => new Grid(name, array.shape, array.values);
    if (state.view === "C") return [grid("A", A), grid("B", B), grid("C", C)];
    if (state.view === "dA") return [grid("dC", dC), grid("Bᵀ", swapped(B)), grid("dA", dA)];
    return [grid("Aᵀ", swapped(A)), grid("dC", dC), grid("dB", dB)];
  }

  function update() {
    const [L, R, P] = factors();
    const inner = L.shape.at(-1);
    const batches = Math.max(size(L.shape.slice(0, -2)), size(R.shape.slice(0, -2)));
    const isSummed = batches > 1 && P.shape.length === 2;
    // The position of an element in a grid that may have no axis of batches.
    const cellOf = (grid, batch, row, column) => {
      const [rows, columns] = grid.shape.slice(-2);
      return ((grid.shape.length > 2 ? batch : 0) * rows + row) * columns + column;
    };
    const placed = (grid, position) => {
      const [row, column] = placeOf(position, grid.shape).slice(-2);
      const batch = grid.shape.length > 2 ? placeOf(position, grid.shape)[0] : null;
      return { row, column, batches: batch === null ? range(batches) : [batch] };
    };

    function product(position) {
      const { row, column, batches: summed } = placed(P, position);
      const pairs = summed.flatMap((b) => range(inner).map((k) => [cellOf(L, b, row, k), cellOf(R, b, k, column)]));
      const terms = pairs.map(([l, r]) => `${operand(L.values[l])}·${operand(R.values[r])}`);
      const marks = [
        [L, pairs.map(([l]) => l), "from"],
        [R, pairs.map(([, r]) => r), "from"],
      ];
      const where = isSummed ? `, summed over the batch, since one ${P.name.slice(1)} serves all of it` : "";
      const text = `${P.at(position)} = row ${row} of ${L.name} · column ${column} of ${R.name} = ${listed(terms, " + ", 8)} = ${P.texts[position]}${where}`;
      return { marks, text };
    }

    function factor(grid, position) {
      const { row, column, batches: within } = placed(grid, position);
      const [rows, columns] = P.shape.slice(-2);
      const fed = within.flatMap((b) =>
        grid === L ? range(columns).map((j) => cellOf(P, b, row, j)) : range(rows).map((i) => cellOf(P, b, i, column)),
      );
      const other = grid === L ? R : L;
      const met = within.flatMap((b) =>
        grid === L ? range(columns).map((j) => cellOf(R, b, column, j)) : range(rows).map((i) => cellOf(L, b, i, row)),
      );
      const line = grid === L ? `row ${row}` : `column ${column}`;
      const which = within.length > 1 && P.shape.length > 2 ? ` of each matrix of ${P.name}` : ` of ${P.name}`;
      return {
        marks: [
          [P, fed, "to"],
          [other, met, "from"],
        ],
        text: `${grid.at(position)} = ${grid.texts[position]} takes part in ${line}${which}.`,
      };
    }

    const explain = (grid, position) => (grid === P ? product(position) : factor(grid, position));
    const hints = {
      C: "Point at a cell of C: it is a row of A times a column of B.",
      dA: "dC is a cotangent, given. Point at a cell of dA: it is a row of dC times a row of B, which is a column of Bᵀ.",
      dB: "dC is a cotangent, given. Point at a cell of dB: it is a column of A, which is a row of Aᵀ, times a column of dC.",
    };
    board.show([[L, "·", R, "=", P]], explain, hints[state.view]);
  }

  board.controls.append(
    choice(
      "Example",
      data.presets.map((preset) => [preset.name, preset.name]),
      state.preset.name,
      (name) => {
        state.preset = data.presets.find((preset) => preset.name === name);
        update();
      },
    ),
    choice("Product", Object.entries(VIEWS), state.view, (view) => {
      state.view = view;
      update();
    }),
  );
  update();
}
