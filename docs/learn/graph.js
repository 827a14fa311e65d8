// A formula as a graph: values run forward, then cotangents run back, one operation at a time.

import { Board, button, choice, field, format, html, operand, svg } from "./draw.js";
import { evaluated, inputsOf, layout, operationOf, parse } from "./formula.js";

const BOX = { width: 104, height: 62 };
const MOST = 16;
const SIGNS = { "*": "×", "-": "−", "/": "÷", neg: "−" };

const shownName = ({ name, operands }) =>
  operands.length ? (SIGNS[name] ?? name) : format(Number(name)) === "NaN" ? name : "number";

/** Returns the steps of a graph: forward over its operations, the seed, then backward over them. */
function stepsOf(nodes) {
  const operations = [...nodes.keys()].filter((index) => nodes[index].operands.length);
  const forward = operations.map((index) => ({ kind: "forward", index }));
  const backward = operations.toReversed().map((index) => ({ kind: "backward", index }));
  return [...forward, { kind: "seed", index: nodes.length - 1 }, ...backward];
}

/** Returns what is known after a number of steps: values, cotangents so far, and what the last step handed to whom. */
function progress(nodes, values, steps, count) {
  const known = nodes.map((node) => !node.operands.length);
  const sums = nodes.map(() => null);
  let handed = [];
  for (const { kind, index } of steps.slice(0, count)) {
    handed = [];
    if (kind === "forward") known[index] = true;
    else if (kind === "seed") sums[index] = 1;
    else {
      const { name, operands } = nodes[index];
      const factors = operationOf(name).pull(values[index], ...operands.map((one) => values[one]));
      handed = operands.map((target, slot) => ({
        target,
        slot,
        factor: factors[slot],
        part: sums[index] * factors[slot],
      }));
      for (const { target, part } of handed) sums[target] = (sums[target] ?? 0) + part;
    }
  }
  return { known, sums, handed };
}

/** Returns a path through points that leaves and enters each along the layers. */
function smooth(points, isTall) {
  const parts = points.slice(1).map(([x1, y1], step) => {
    const [x0, y0] = points[step];
    const [mx, my] = [(x0 + x1) / 2, (y0 + y1) / 2];
    return isTall ? `C${x0} ${my} ${x1} ${my} ${x1} ${y1}` : `C${mx} ${y0} ${mx} ${y1} ${x1} ${y1}`;
  });
  return `M${points[0].join(" ")}${parts.join("")}`;
}

export function draw(root, data) {
  const board = new Board(root);
  const state = { formula: "", inputs: {}, nodes: [], count: 0 };
  const inputs = html("div", { class: "learn-controls", role: "group", "aria-label": "Inputs" });
  const buttons = {
    start: button("Start", () => go(0)),
    back: button("Back", () => go(state.count - 1)),
    step: button("Step", () => go(state.count + 1)),
    end: button("End", () => go(state.steps.length)),
  };

  function read(formula, given = {}) {
    state.formula = formula;
    try {
      const nodes = parse(formula);
      if (nodes.length > MOST)
        throw new SyntaxError(`This page draws at most ${MOST} nodes; here are ${nodes.length}.`);
      state.nodes = nodes;
    } catch (error) {
      return refuse(error.message);
    }
    const names = inputsOf(state.nodes);
    state.inputs = Object.fromEntries(
      names.map((name, index) => [name, given[name] ?? state.inputs[name] ?? index + 1]),
    );
    const entry = (name) =>
      field(
        name,
        String(state.inputs[name]),
        (text) => {
          if (text.trim() === "" || !Number.isFinite(Number(text))) return;
          state.inputs[name] = Number(text);
          begin(state.count);
        },
        4,
      );
    inputs.replaceChildren(...names.map(entry));
    begin(0);
  }

  function refuse(text) {
    state.steps = [];
    inputs.replaceChildren();
    board.refuse(text);
    for (const one of Object.values(buttons)) one.disabled = true;
  }

  /** Computes everything at once; a preset's numbers are those that the library gave. */
  function begin(count) {
    const isPreset = (one) =>
      one.formula === state.formula &&
      Object.entries(one.inputs).every(([name, value]) => state.inputs[name] === value);
    state.preset = data.presets.find(isPreset);
    state.values = state.preset ? state.preset.nodes.map((node) => node.value) : evaluated(state.nodes, state.inputs);
    state.steps = stepsOf(state.nodes);
    go(Math.min(count, state.steps.length));
  }

  function go(count) {
    state.count = count;
    board.says.classList.remove("learn-error");
    const focused = document.activeElement;
    buttons.start.disabled = buttons.back.disabled = count === 0;
    buttons.step.disabled = buttons.end.disabled = count === state.steps.length;
    if (focused?.disabled) (count ? buttons.back : buttons.step).focus();
    render();
    board.says.textContent = said();
  }

  const nameOf = (index) =>
    state.nodes[index].operands.length
      ? `node ${index + 1} (${shownName(state.nodes[index])})`
      : state.nodes[index].name;

  function said() {
    const { nodes, values, steps, count } = state;
    if (!count) return `${steps.length} steps: forward, then back. Inputs are known at the start.`;
    const { kind, index } = steps[count - 1];
    const { name, operands } = nodes[index];
    if (kind === "seed") return `Step ${count}: the derivative of the result by itself is 1. The backward pass begins.`;
    if (kind === "forward") {
      const given = operands.map((one) => operand(values[one]));
      const call =
        given.length === 2
          ? given.join(` ${shownName(nodes[index])} `)
          : name.startsWith("^")
            ? `${given[0]}${name}`
            : `${shownName(nodes[index])} ${given[0]}`;
      return `Step ${count}, forward: node ${index + 1} is ${call} = ${format(values[index], 4)}.`;
    }
    const { sums, handed } = progress(nodes, values, steps, count);
    const rules = operationOf(name).rule;
    const parts = handed.map(
      ({ target, slot, factor, part }) =>
        `${nameOf(target)} gets ${format(sums[index], 4)} · ${operand(factor)} = ${format(part, 4)} (times ${rules[slot]})`,
    );
    return `Step ${count}, back through node ${index + 1}: ${parts.join("; ")}.`;
  }

  function describe(index, value, slope) {
    const { name, operands } = state.nodes[index];
    const made = operands.length ? ` is ${shownName(state.nodes[index])} of ${operands.map(nameOf).join(" and ")}` : "";
    const known = value === "?" ? "its value is not known yet" : `its value is ${value}`;
    const change = slope ? `; the result changes by ${slope} for each 1 that it grows, as far as is known` : "";
    board.says.textContent = `${operands.length ? `Node ${index + 1}` : name}${made}${made ? ":" : ","} ${known}${change}.`;
  }

  function render() {
    const { nodes, values, steps, count } = state;
    const { known, sums, handed } = progress(nodes, values, steps, count);
    const { depth, place, routes, layers, width } = layout(nodes);
    const isTall = root.clientWidth < 40 + layers * (BOX.width + 60);
    const [along, across] = isTall ? [BOX.height + 44, BOX.width + 14] : [BOX.width + 76, BOX.height + 22];
    const centre = (index) => {
      const [far, side] = [(depth[index] + 0.5) * along, (place[index] + width / 2) * across];
      return isTall ? [side, far] : [far, side];
    };
    const extent = isTall ? [width * across, layers * along] : [layers * along, width * across];
    const last = count ? steps[count - 1] : null;
    const isBack = last?.kind === "backward";

    const edges = nodes.flatMap(({ operands }, index) =>
      operands.map((_, slot) => {
        const shift = operands.length > 1 ? (slot - 0.5) * 16 : 0;
        const stops = routes[index][slot].map((point, step, route) => {
          const [x, y] = centre(point);
          const isEnd = step === 0 || step === route.length - 1;
          const half = (isEnd ? (isTall ? BOX.height : BOX.width) / 2 : 0) * (step === 0 ? 1 : -1);
          const aside = step === route.length - 1 ? shift : 0;
          return isTall ? [x + aside, y + half] : [x + half, y + aside];
        });
        const isActive = last?.index === index && last.kind !== "seed";
        const part = isBack && isActive ? format(handed[slot].part, 3) : "";
        const [[x0, y0], [x1, y1]] = stops.slice(-2);
        const where = { x: (x0 + x1) / 2, y: (y0 + y1) / 2 + (isTall ? 0 : shift) };
        return svg(
          "g",
          { class: "learn-edge", "data-mark": isActive ? (isBack ? "to" : "from") : "none" },
          svg("path", { d: smooth(stops, isTall) }),
          svg("text", { ...where, class: "learn-part" }, part),
        );
      }),
    );

    const boxes = nodes.map((node, index) => {
      const [x, y] = centre(index);
      const isComplete = sums[index] !== null && count === steps.length;
      const gradient = isComplete && state.preset ? state.preset.nodes[index].gradient : sums[index];
      const value = known[index] ? format(values[index], 4) : "?";
      const slope = gradient === null ? "" : format(gradient, 4);
      const mark = last?.index === index ? "here" : handed.some((one) => one.target === index) ? "to" : "none";
      return svg(
        "g",
        {
          class: "learn-cell",
          role: "listitem",
          tabindex: 0,
          onpointerenter: () => describe(index, value, slope),
          onpointerleave: () => (board.says.textContent = said()),
          onfocus: () => describe(index, value, slope),
          onblur: () => (board.says.textContent = said()),
          "data-node": index,
          "data-mark": mark,
          "data-value": known[index] ? values[index] : "",
          "data-gradient": gradient ?? "",
          "aria-label": `node ${index + 1}, ${shownName(node)}, value ${value}${slope && `, derivative ${slope}`}`,
          transform: `translate(${x - BOX.width / 2} ${y - BOX.height / 2})`,
        },
        svg("rect", { width: BOX.width, height: BOX.height, rx: 8 }),
        svg("text", { x: 10, y: 15, class: "learn-node-name" }, shownName(node)),
        svg("text", { x: BOX.width - 8, y: 15, class: "learn-axis", "text-anchor": "end" }, String(index + 1)),
        svg("text", { x: BOX.width - 8, y: 32, "text-anchor": "end" }, value),
        svg("text", { x: 10, y: 50, class: "learn-slope" }, slope ? "d" : ""),
        svg("text", { x: BOX.width - 8, y: 50, class: "learn-slope", "text-anchor": "end" }, slope),
      );
    });
    const [w, h] = extent;
    const picture = svg(
      "svg",
      { viewBox: `0 0 ${w} ${h}`, width: w, height: h },
      svg("g", { "aria-hidden": "true" }, ...edges),
      svg("g", { role: "list", "aria-label": `The graph of ${state.formula}` }, ...boxes),
    );
    board.stage.replaceChildren(html("div", { class: "learn-graph" }, picture));
  }

  const formula = field("Formula", "", (text) => read(text.trim()), 26);
  function take(preset) {
    formula.querySelector("input").value = preset.formula;
    read(preset.formula, preset.inputs);
  }
  const presets = data.presets.map((preset, index) => [String(index), preset.formula]);
  const row = html("div", { class: "learn-buttons", role: "group", "aria-label": "Steps" }, ...Object.values(buttons));
  board.controls.append(
    choice("Example", presets, "0", (index) => take(data.presets[index])),
    formula,
    inputs,
    row,
  );
  take(data.presets[0]);
  let before = root.clientWidth;
  new ResizeObserver(() => {
    if (root.clientWidth !== before && state.steps.length) render();
    before = root.clientWidth;
  }).observe(root);
}
