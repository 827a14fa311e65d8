// Attention: scores, mask, softmax and weighted sum, each word a query.

import { Board, Grid, choice, format, listed, operand, range } from "./draw.js";

export function draw(root, data) {
  const board = new Board(root);
  const { words, width } = data;
  const count = words.length;
  const row = (query, extent) => range(extent).map((index) => query * extent + index);
  const column = (key) => range(count).map((query) => query * count + key);

  function show(known) {
    const named = { rows: words, columns: words };
    const vectors = (name, values, note) => new Grid(name, [count, width], values, { rows: words, note });
    const Q = vectors("Q", data.q, "queries");
    const K = vectors("K", data.k, "keys");
    const V = vectors("V", data.v, "values");
    const S = new Grid("S", [count, count], data.scores, { ...named, note: `scores: Q Kᵀ / √${width}` });
    const M = new Grid("M", [count, count], known.masked, { ...named, note: "scores under the mask" });
    const P = new Grid("P", [count, count], known.weights, { ...named, note: "softmax of each row" });
    const O = vectors("O", known.out, "P V");
    const hidden = range(count * count).filter((position) => !known.mask[position]);
    M.is("masked", hidden);
    P.is("masked", hidden);

    /** What a query reads: all of its row at every step. */
    function query(q) {
      const seen = range(count).filter((key) => known.mask[q * count + key]);
      const values = seen.flatMap((key) => row(key, width));
      const marks = [
        [Q, row(q, width), "from"],
        [K, seen.flatMap((key) => row(key, width)), "from"],
        [S, row(q, count), "from"],
        [M, row(q, count), "from"],
        [P, seen.map((key) => q * count + key), "to"],
        [V, values, "from"],
        [O, row(q, width), "to"],
      ];
      const shares = seen.map((key) => `${format(100 * known.weights[q * count + key], 0)} % ${words[key]}`);
      return { marks, arrows: [], text: `“${words[q]}” takes ${shares.join(", ")}.` };
    }

    function score(grid, position) {
      const [q, key] = [Math.floor(position / count), position % count];
      const marks = [
        [Q, row(q, width), "from"],
        [K, row(key, width), "from"],
        [S, [position], "from"],
        [M, [position], "from"],
        [P, [position], "to"],
      ];
      if (grid === S || known.mask[position]) {
        const terms = row(q, width).map((index, d) => `${operand(data.q[index])}·${operand(data.k[key * width + d])}`);
        if (grid !== P)
          return {
            marks,
            text: `S = “${words[q]}” · “${words[key]}” = (${terms.join(" + ")}) / √${width} = ${S.texts[position]}`,
          };
      }
      if (!known.mask[position])
        return {
          marks,
          text: `“${words[q]}” must not look at “${words[key]}”: its score becomes −∞, its weight 0, and so does its gradient.`,
        };
      marks.push([M, row(q, count), "from"]);
      const sum = listed(
        range(count)
          .filter((other) => known.mask[q * count + other])
          .map((other) => `exp(${M.texts[q * count + other]})`),
        " + ",
        5,
      );
      return {
        marks,
        arrows: [[M, position, P, position]],
        text: `P = exp(${M.texts[position]}) / (${sum}) = ${P.texts[position]}`,
      };
    }

    function output(position) {
      const [q, d] = [Math.floor(position / width), position % width];
      const seen = range(count).filter((key) => known.mask[q * count + key]);
      const terms = seen.map((key) => `${P.texts[q * count + key]}·${operand(data.v[key * width + d])}`);
      const marks = [
        [P, seen.map((key) => q * count + key), "from"],
        [V, seen.map((key) => key * width + d), "from"],
      ];
      const arrows = seen.map((key) => [V, key * width + d, O, position]);
      return { marks, arrows, text: `${O.at(position)} = ${listed(terms)} = ${O.texts[position]}` };
    }

    function read(grid, key) {
      const readers = column(key).filter((position) => known.mask[position]);
      const marks = [
        [grid, row(key, width), "from"],
        [P, readers, "to"],
      ];
      const who = readers.map((position) => `“${words[Math.floor(position / count)]}”`).join(", ");
      return {
        marks,
        text: `“${words[key]}” is looked at by ${who || "nobody"}; its gradient is a sum over these queries.`,
      };
    }

    function explain(grid, position) {
      if (grid === Q) return query(Math.floor(position / width));
      if (grid === O) return output(position);
      if (grid === K || grid === V) return read(grid, Math.floor(position / width));
      return score(grid, position);
    }

    board.show(
      [
        [Q, K, V],
        [S, "→", M],
        [P, "·V =", O],
      ],
      explain,
      "Point at a query, a cell of Q, to see what it looks at; or at any other cell.",
    );
  }

  const named = data.cases.map((known) => [known.name, known.name]);
  const start = data.cases[1];
  board.controls.append(
    choice("Mask", named, start.name, (name) => show(data.cases.find((known) => known.name === name))),
  );
  show(start);
}
