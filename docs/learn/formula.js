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

/** Returns where each node stands: its layer, and its place in it, from -1 to 1. */
export function layout(nodes) {
  const depth = depths(nodes);
  const layers = Array.from({ length: Math.max(...depth) + 1 }, () => []);
  depth.forEach((layer, index) => layers[layer].push(index));
  const width = Math.max(...layers.map((layer) => layer.length));
  const place = nodes.map(() => 0);
  const settle = () => {
    for (const layer of layers) layer.forEach((index, order) => (place[index] = order - (layer.length - 1) / 2));
  };
  const neighbours = nodes.map((node, index) => [
    ...node.operands,
    ...[...nodes.keys()].filter((other) => nodes[other].operands.includes(index)),
  ]);
  settle();
  for (let round = 0; round < 6; round++) {
    const mean = (index) =>
      neighbours[index].reduce((sum, other) => sum + place[other], 0) / (neighbours[index].length || 1);
    for (const layer of layers) layer.sort((a, b) => mean(a) - mean(b));
    settle();
  }
  return { depth, place, layers: layers.length, width };
}
