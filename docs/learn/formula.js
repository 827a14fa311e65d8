// A small grammar of formulas, their graphs, and what each operation computes and hands back.
//
//   sum     = product { ("+" | "-") product }        power = atom [ "^" ["-"] digits ]
//   product = sign { ("*" | "/") sign }              atom  = number | name | function "(" sum ")" | "(" sum ")"
//   sign    = "-" sign | power

import { operand } from "./draw.js";

/**
 * What each operation computes, `value`, and what its operands get of a cotangent: `pull` gives a factor for each operand,
 * and `rule` says it in symbols. `u` and `v` are the values of the operands, `y` that of the result.
 */
export const OPERATIONS = {
  "+": { value: (u, v) => u + v, pull: () => [1, 1], rule: ["1", "1"] },
  "-": { value: (u, v) => u - v, pull: () => [1, -1], rule: ["1", "−1"] },
  "*": { value: (u, v) => u * v, pull: (y, u, v) => [v, u], rule: ["the other operand", "the other operand"] },
  "/": { value: (u, v) => u / v, pull: (y, u, v) => [1 / v, -y / v], rule: ["1/v", "−(u/v)/v"] },
  neg: { value: (u) => -u, pull: () => [-1], rule: ["−1"] },
  sin: { value: Math.sin, pull: (y, u) => [Math.cos(u)], rule: ["cos u"] },
  cos: { value: Math.cos, pull: (y, u) => [-Math.sin(u)], rule: ["−sin u"] },
  exp: { value: Math.exp, pull: (y) => [y], rule: ["exp u, the result itself"] },
  log: { value: Math.log, pull: (y, u) => [1 / u], rule: ["1/u"] },
  tanh: { value: Math.tanh, pull: (y) => [1 - y * y], rule: ["1 − y², with the result y"] },
  sqrt: { value: Math.sqrt, pull: (y) => [0.5 / y], rule: ["1/(2y), with the result y"] },
  relu: { value: (u) => Math.max(u, 0), pull: (y, u) => [u > 0 ? 1 : 0], rule: ["1 where u is positive, else 0"] },
};

const FUNCTIONS = Object.keys(OPERATIONS).filter((name) => /^[a-z]+$/.test(name) && name !== "neg");
const TOKEN = /\s*(?:(\d+\.?\d*|\.\d+)|([a-z]+)|(\*\*|[-+*/^()]))/iy;

/** Returns the operation of a node: a power has its exponent in its name. */
export function operationOf(name) {
  if (!name.startsWith("^")) return OPERATIONS[name];
  const n = Number(name.slice(1));
  return { value: (u) => u ** n, pull: (y, u) => [n * u ** (n - 1)], rule: [`${n} · u^${operand(n - 1)}`] };
}

function tokens(text) {
  const found = [];
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < text.trimEnd().length) {
    const start = TOKEN.lastIndex;
    const match = TOKEN.exec(text);
    if (!match) throw new SyntaxError(`“${text.slice(start).trim()[0]}” is not part of a formula here.`);
    found.push(match[0].trim().replace("**", "^"));
  }
  return found;
}

/**
 * Returns the nodes of a formula, each after its operands: {name, operands}, where a leaf has no operands.
 *
 * A name that comes again is the same node. Throws a SyntaxError that says what was expected.
 */
export function parse(text) {
  const rest = tokens(text);
  const nodes = [];
  const node = (name, ...operands) => nodes.push({ name, operands }) - 1;
  const takes = (...signs) => (signs.includes(rest[0]) ? rest.shift() : null);
  function expect(sign) {
    if (!takes(sign))
      throw new SyntaxError(`“${sign}” is missing${rest.length ? ` before “${rest[0]}”` : " at the end"}.`);
  }
  function chain(part, ...signs) {
    let left = part();
    for (let sign = takes(...signs); sign; sign = takes(...signs)) left = node(sign, left, part());
    return left;
  }
  const sum = () => chain(product, "+", "-");
  const product = () => chain(sign, "*", "/");
  const sign = () => (takes("-") ? node("neg", sign()) : power());
  function power() {
    const base = atom();
    if (!takes("^")) return base;
    const minus = takes("-") ?? "";
    const exponent = rest.shift();
    if (!/^\d+$/.test(exponent ?? "")) throw new SyntaxError("An exponent is a whole number, such as x^2.");
    return node(`^${minus}${exponent}`, base);
  }
  function atom() {
    const token = rest.shift();
    if (token === undefined) throw new SyntaxError("The formula ends too early.");
    if (token === "(") return closed(sum());
    if (/^[\d.]/.test(token)) return node(String(Number(token)));
    if (!/^[a-z]/i.test(token)) throw new SyntaxError(`“${token}” comes where a number or a name should be.`);
    if (!FUNCTIONS.includes(token)) {
      if (rest[0] === "(") throw new SyntaxError(`There is no ${token}; there are ${FUNCTIONS.join(", ")}.`);
      const known = nodes.findIndex((one) => one.name === token && !one.operands.length);
      return known >= 0 ? known : node(token);
    }
    expect("(");
    const argument = sum();
    expect(")");
    return node(token, argument);
  }
  function closed(inner) {
    expect(")");
    return inner;
  }
  sum();
  if (rest.length) throw new SyntaxError(`“${rest[0]}” comes too late: the formula is complete before it.`);
  return nodes;
}

/** Returns the names of a formula that have values of their own. */
export const inputsOf = (nodes) =>
  nodes.filter((node) => !node.operands.length && /^[a-z]/i.test(node.name)).map((node) => node.name);

/** Returns the value of every node. */
export function evaluated(nodes, inputs) {
  const values = [];
  for (const { name, operands } of nodes) {
    const arguments_ = operands.map((index) => values[index]);
    values.push(operands.length ? operationOf(name).value(...arguments_) : (inputs[name] ?? Number(name)));
  }
  return values;
}

/** Returns a column for each node, after those of its operands, and as late as those that read it allow. */
function depths(nodes) {
  const depth = [];
  for (const { operands } of nodes)
    depth.push(operands.length ? 1 + Math.max(...operands.map((index) => depth[index])) : 0);
  nodes.forEach(({ operands }, index) => {
    const readers = nodes.flatMap((node, other) => (node.operands.includes(index) ? [depth[other]] : []));
    if (!operands.length && readers.length) depth[index] = Math.min(...readers) - 1;
  });
  return depth;
}

/**
 * Returns where each node stands, and how the edges to its operands run.
 *
 * An edge over several layers has a point in each, so that it goes around the nodes there. `depth` is the layer of each
 * point, `place` its place in it, counted from the middle; points beyond the nodes are those of edges. `routes` has for each
 * node and operand the points from the operand to the node.
 */
export function layout(nodes) {
  const depth = depths(nodes);
  const routes = nodes.map(({ operands }, index) =>
    operands.map((from) => {
      const route = [from];
      for (let layer = depth[from] + 1; layer < depth[index]; layer++) route.push(depth.push(layer) - 1);
      return [...route, index];
    }),
  );
  const neighbours = depth.map(() => []);
  for (const route of routes.flat())
    for (let step = 1; step < route.length; step++) {
      neighbours[route[step]].push(route[step - 1]);
      neighbours[route[step - 1]].push(route[step]);
    }
  const layers = Array.from({ length: Math.max(...depth) + 1 }, () => []);
  depth.forEach((layer, point) => layers[layer].push(point));
  const place = depth.map(() => 0);
  const settle = (layer) => layer.forEach((point, order) => (place[point] = order - (layer.length - 1) / 2));
  layers.forEach(settle);
  const mean = (point) =>
    neighbours[point].reduce((sum, other) => sum + place[other], 0) / (neighbours[point].length || 1);
  for (let round = 0; round < 8; round++)
    for (const layer of round % 2 ? layers.toReversed() : layers) {
      layer.sort((a, b) => mean(a) - mean(b));
      settle(layer);
    }
  return { depth, place, routes, layers: layers.length, width: Math.max(...layers.map((layer) => layer.length)) };
}
