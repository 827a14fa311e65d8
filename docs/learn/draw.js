// What the figures of these pages share: grids of cells, marks on them, arrows between them, controls, and a line that says
// what is shown. A cell is reached by mouse, by touch and by the arrow keys alike.

const SVG = "http://www.w3.org/2000/svg";
const CELL = 34;
const GAP = 3;
const ARROWS = 32;

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

/** Returns an element of HTML; attributes that begin with `on` are listeners. */
export const html = (tag, attributes = {}, ...children) => filled(document.createElement(tag), attributes, children);

/** Returns an element of SVG. */
export const svg = (tag, attributes = {}, ...children) =>
  filled(document.createElementNS(SVG, tag), attributes, children);

// Shapes and indices. Cells are counted in row-major order; `place` is a cell's index along each axis.

export const size = (shape) => shape.reduce((product, extent) => product * extent, 1);

export const range = (count) => Array.from({ length: count }, (_, index) => index);

/** Returns the index along each axis of the cell that comes at a position. */
export function placeOf(position, shape) {
  const place = [];
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    place.unshift(position % shape[axis]);
    position = Math.floor(position / shape[axis]);
  }
  return place;
}

/** Returns the position of the cell with an index along each axis. */
export const positionOf = (place, shape) => place.reduce((position, index, axis) => position * shape[axis] + index, 0);

/** Returns a shape as Python writes it. */
export const shapeText = (shape) => `(${shape.join(", ")}${shape.length === 1 ? "," : ""})`;

/** Returns a number in few digits; JSON has no infinity, so it comes as text. */
export function format(value, digits = 2) {
  if (value === null || value === undefined) return "";
  if (typeof value === "string") return value.replace("-inf", "−∞");
  const rounded = Math.abs(value - Math.round(value)) < 1e-6 ? Math.round(value) : Number(value.toFixed(digits));
  return String(rounded === 0 ? 0 : rounded).replace("-", "−");
}

/** Returns a number as a factor or term: in brackets where it is negative. */
export const operand = (value) => (format(value).startsWith("−") ? `(${format(value)})` : format(value));

/** Returns terms joined by a sign, the middle ones left out where there are many. */
export function listed(terms, sign = " + ", most = 6) {
  if (terms.length <= most) return terms.join(sign);
  return [...terms.slice(0, most - 2), "…", terms.at(-1)].join(sign);
}

/** An array as cells: the last axis is columns, that before it rows, and each index of the others has a block. */
export class Grid {
  /**
   * @param {string} name What formulas call the array.
   * @param {number[]} shape
   * @param {(number | string | null)[]} values In row-major order.
   * @param {{note?: string, rows?: string[], columns?: string[], digits?: number, cell?: number}} options
   */
  constructor(name, shape, values, { note = shapeText(shape), rows = [], columns = [], digits = 2, cell = CELL } = {}) {
    Object.assign(this, { name, shape, values, digits, cells: [], height: cell });
    this.texts = values.map((value) => format(value, digits));
    this.width = Math.max(cell, 14 + 8 * Math.max(...this.texts.map((text) => text.length), 0));
    this.rowCount = shape.at(-2) ?? 1;
    this.columnCount = shape.at(-1) ?? 1;
    const blocks = range(size(shape.slice(0, -2))).map((block) => this.block(block, rows, columns));
    const label = `${name}, ${note}`.replaceAll(/\s+/g, " ");
    this.node = html(
      "div",
      { class: "learn-grid", "data-name": name },
      html("div", { class: "learn-name" }, html("b", {}, name), " ", html("span", {}, note)),
      html("div", { class: "learn-blocks", role: "grid", "aria-label": label }, ...blocks),
    );
    this.cells[0]?.setAttribute("tabindex", 0);
  }

  block(block, rowNames, columnNames) {
    const left = rowNames.length ? 10 + 7.5 * Math.max(...rowNames.map((name) => name.length)) : 0;
    const above = columnNames.length ? 20 : 0;
    const leading = placeOf(block, this.shape.slice(0, -2));
    const rows = range(this.rowCount).map((row) => {
      const cells = range(this.columnCount).map((column) => this.cell(block, row, column, left, above));
      return svg("g", { role: "row" }, ...cells);
    });
    const width = left + this.columnCount * (this.width + GAP) + GAP;
    const height = above + this.rowCount * (this.height + GAP) + GAP;
    const middle = (index, extent) => (index + 0.5) * (extent + GAP) + GAP / 2;
    const names = [
      ...rowNames.map((name, row) =>
        svg(
          "text",
          { class: "learn-axis", x: left - 6, y: above + middle(row, this.height), "text-anchor": "end" },
          name,
        ),
      ),
      ...columnNames.map((name, column) =>
        svg("text", { class: "learn-axis", x: left + middle(column, this.width), y: 9, "text-anchor": "middle" }, name),
      ),
    ];
    const title = leading.length ? `${this.name}[${leading.join(", ")}]` : "";
    return html(
      "div",
      { class: "learn-block", role: "presentation" },
      svg(
        "svg",
        { viewBox: `0 0 ${width} ${height}`, width, height, role: "rowgroup", "aria-label": title || this.name },
        svg("g", { "aria-hidden": "true" }, ...names),
        ...rows,
      ),
      ...(title ? [html("div", { class: "learn-axis" }, title)] : []),
    );
  }

  cell(block, row, column, left, above) {
    const position = (block * this.rowCount + row) * this.columnCount + column;
    const [x, y] = [left + GAP + column * (this.width + GAP), above + GAP + row * (this.height + GAP)];
    const text = { x: this.width / 2, y: this.height / 2, "text-anchor": "middle" };
    const node = svg(
      "g",
      {
        class: "learn-cell",
        role: "gridcell",
        tabindex: -1,
        transform: `translate(${x} ${y})`,
        "aria-label": `${this.at(position)} = ${this.texts[position]}`,
        "data-value": String(this.values[position]),
      },
      svg("rect", { width: this.width, height: this.height, rx: 5 }),
      svg("text", text, this.texts[position]),
    );
    this.cells[position] = node;
    return node;
  }

  /** Returns how a formula writes a cell. */
  at(position) {
    return this.shape.length ? `${this.name}[${placeOf(position, this.shape).join(", ")}]` : this.name;
  }

  /** Returns the cell that an arrow key leads to from another, or `undefined` at the border. */
  next(position, key) {
    const block = this.rowCount * this.columnCount;
    const row = Math.floor((position % block) / this.columnCount);
    const column = position % this.columnCount;
    const across = (step) => {
      if (column + step >= 0 && column + step < this.columnCount) return position + step;
      const other = position + step * (block - this.columnCount + 1);
      return this.shape.length > 2 && other >= 0 && other < this.cells.length ? other : undefined;
    };
    const down = (step) =>
      row + step >= 0 && row + step < this.rowCount ? position + step * this.columnCount : undefined;
    const first = position - column;
    const steps = { ArrowRight: () => across(1), ArrowLeft: () => across(-1), ArrowDown: () => down(1) };
    const ends = { ArrowUp: () => down(-1), Home: () => first, End: () => first + this.columnCount - 1 };
    return (steps[key] ?? ends[key])?.();
  }

  /** Marks cells for as long as the grid is shown: "stretched", "padding", "masked". */
  is(kind, positions) {
    for (const position of positions) this.cells[position].dataset.is = kind;
    return this;
  }
}

const KEYS = ["ArrowRight", "ArrowLeft", "ArrowDown", "ArrowUp", "Home", "End"];

/**
 * A figure: controls, grids in rows, and a line of text. Pointing at a cell, or reaching it by keys, shows what it has to
 * do with others; a click, Enter or the space bar keeps that until Escape.
 */
export class Board {
  constructor(root) {
    this.controls = html("div", { class: "learn-controls" });
    this.stage = html("div", { class: "learn-stage" });
    this.overlay = svg("svg", { class: "learn-arrows", "aria-hidden": "true" });
    this.says = html("p", { class: "learn-says", role: "status" });
    this.grids = [];
    root.replaceChildren(this.controls, this.says, this.stage);
    // In a microtask: after the controls that the figure adds.
    if (document.fullscreenEnabled) queueMicrotask(() => this.controls.append(fullScreen(root)));
    new ResizeObserver(() => this.drawArrows()).observe(this.stage);
  }

  /**
   * Shows grids in place of what was there.
   *
   * @param {(Grid | Node | string)[][]} rows Grids, other elements, and signs between them.
   * @param {(grid: Grid, position: number) => {marks?: any[], arrows?: any[], text: string}} explain What a cell has to
   *     do with others: marks are grids, positions and a kind ("from" or "to"), arrows pairs of grids and positions.
   * @param {string} hint What is said while no cell is pointed at.
   */
  show(rows, explain, hint) {
    Object.assign(this, { explain, hint, kept: null, arrows: [] });
    this.says.classList.remove("learn-error");
    this.grids = rows.flat().filter((item) => item instanceof Grid);
    const shown = (item) => {
      if (item instanceof Grid) return item.node;
      return typeof item === "string" ? html("div", { class: "learn-sign" }, item) : item;
    };
    const lines = rows.map((row) => html("div", { class: "learn-row" }, ...row.map(shown)));
    this.stage.replaceChildren(...lines, this.overlay);
    for (const grid of this.grids) grid.cells.forEach((cell, position) => this.listen(grid, cell, position));
    this.clear();
  }

  /** Says why nothing can be shown, but for some elements. */
  refuse(text, above = []) {
    this.show([above], () => ({ text }), text);
    this.says.classList.add("learn-error");
  }

  listen(grid, cell, position) {
    const point = () => this.point(grid, position);
    cell.addEventListener("pointerenter", point);
    cell.addEventListener("pointerleave", () => this.rest());
    cell.addEventListener("focus", point);
    cell.addEventListener("blur", () => this.rest());
    cell.addEventListener("click", () => this.keep(grid, position));
    cell.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.keep(null);
      else if (event.key === "Enter" || event.key === " ") this.keep(grid, position);
      else if (KEYS.includes(event.key)) this.go(grid, position, event.key);
      else return;
      event.preventDefault();
    });
  }

  go(grid, position, key) {
    const next = grid.next(position, key);
    if (next === undefined) return;
    for (const cell of grid.cells) cell.setAttribute("tabindex", cell === grid.cells[next] ? 0 : -1);
    grid.cells[next].focus();
  }

  /** Keeps what a cell shows, or lets go of it: of the same cell by a second click. */
  keep(grid, position) {
    const again = this.kept?.grid === grid && this.kept?.position === position;
    this.kept = grid && !again ? { grid, position } : null;
    this.rest();
  }

  rest() {
    const shown = this.kept ?? this.focused();
    if (shown) this.point(shown.grid, shown.position);
    else this.clear();
  }

  /** Returns the cell that the keyboard has reached, if it has reached one. */
  focused() {
    const found = this.grids.map((grid) => ({
      grid,
      position: grid.cells.findIndex((cell) => cell.matches(":focus-visible")),
    }));
    return found.find(({ position }) => position >= 0) ?? null;
  }

  clear() {
    this.unmark();
    this.says.textContent = this.hint;
  }

  unmark() {
    for (const grid of this.grids) for (const cell of grid.cells) delete cell.dataset.mark;
    this.arrows = [];
    this.drawArrows();
  }

  point(grid, position) {
    this.unmark();
    const { marks = [], arrows = [], text } = this.explain(grid, position);
    for (const [marked, positions, kind] of marks)
      for (const one of positions) if (marked.cells[one]) marked.cells[one].dataset.mark = kind;
    grid.cells[position].dataset.mark = "here";
    this.arrows = arrows.slice(0, ARROWS);
    this.drawArrows();
    this.says.textContent = text;
  }

  drawArrows() {
    const frame = this.overlay.getScreenCTM()?.inverse();
    this.overlay.replaceChildren(
      svg(
        "marker",
        { id: "learn-head", viewBox: "0 0 8 8", refX: 6, refY: 4, markerWidth: 6, markerHeight: 6, orient: "auto" },
        svg("path", { d: "M0 0 8 4 0 8Z" }),
      ),
      ...(this.arrows ?? []).map(([from, start, to, end]) =>
        svg("path", { d: curve(from.cells[start], to.cells[end], frame), "marker-end": "url(#learn-head)" }),
      ),
    );
  }
}

/** Returns a path from the border of one cell to that of another. */
function curve(from, to, frame) {
  const [a, b] = [from, to].map((cell) => {
    const { x, y, width, height } = cell.getBoundingClientRect();
    const [start, end] = [new DOMPoint(x, y), new DOMPoint(x + width, y + height)].map((one) =>
      one.matrixTransform(frame),
    );
    return { x: start.x, y: start.y, width: end.x - start.x, height: end.y - start.y };
  });
  const middle = (box) => [box.x + box.width / 2, box.y + box.height / 2];
  const [[x, y], [u, v]] = [middle(a), middle(b)];
  if (Math.abs(u - x) > Math.abs(v - y)) {
    // Beside each other: an arc from top to top, since a straight line would strike out the numbers between.
    const lift = 14 + 0.12 * Math.abs(u - x);
    const [y0, y1] = [y - a.height / 2, v - b.height / 2 - 2];
    return `M${x} ${y0}C${x + (u - x) / 4} ${y0 - lift} ${u - (u - x) / 4} ${y1 - lift} ${u} ${y1}`;
  }
  const sign = Math.sign(v - y);
  const [y0, y1] = [y + (sign * a.height) / 2, v - sign * (b.height / 2 + 2)];
  const reach = 0.4 * (y1 - y0);
  return `M${x} ${y0}C${x} ${y0 + reach} ${u} ${y1 - reach} ${u} ${y1}`;
}

// Controls: each returns a label with what it names in it.

let count = 0;

const labelled = (label, control, kind = "") => {
  control.id = `learn-${++count}`;
  return html("div", { class: `learn-field ${kind}` }, html("label", { for: control.id }, label), control);
};

/** Returns a choice among [value, text] pairs. */
export function choice(label, options, value, change) {
  const items = options.map(([one, text]) => html("option", { value: one, selected: one === value }, text));
  return labelled(label, html("select", { onchange: (event) => change(event.target.value) }, ...items));
}

/** Returns a field for text. */
export function field(label, value, change, length = 8) {
  const given = { type: "text", value, size: length, spellcheck: "false", autocomplete: "off", autocapitalize: "off" };
  return labelled(label, html("input", { ...given, oninput: (event) => change(event.target.value) }));
}

/** Returns a field for a whole number between two others. */
export function whole(label, value, least, most, change) {
  const given = { type: "number", value, min: least, max: most, step: 1, inputmode: "numeric" };
  const read = (event) => {
    const number = event.target.valueAsNumber;
    if (Number.isInteger(number) && number >= least && number <= most) change(number);
  };
  return labelled(label, html("input", { ...given, oninput: read }));
}

/** Returns a box to check. */
export function check(label, value, change) {
  const given = { type: "checkbox", checked: value, onchange: (event) => change(event.target.checked) };
  return labelled(label, html("input", given), "learn-check");
}

/** Returns a button that shows a figure on the whole screen, larger. */
function fullScreen(root) {
  const toggle = () => (document.fullscreenElement ? document.exitFullscreen() : root.requestFullscreen());
  return html("button", { type: "button", class: "learn-full", onclick: toggle }, "Full screen");
}

/** Returns a button. */
export const button = (label, press) => html("button", { type: "button", onclick: press }, label);
