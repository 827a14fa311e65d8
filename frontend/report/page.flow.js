/* The data flow: dispatches and the buffers between them, grouped by the tree of modules. */

const BOX = { width: 164, height: 42, across: 190, down: 92 };
const NEAR = 2; // The most layers that an edge may span to influence where boxes stand.
const MOST_BOXES = 18; // Groups are opened from the outermost on, until there are as many boxes.
const SWEEPS = 12;

const COLORINGS = {
  role: "Color by role",
  time: "Color by time",
  bytes: "Color by bytes",
};

/** What of a dispatch is colored: its time, measured or estimated, or its bytes. */
const weightOf = (run, by) => (by === "bytes" ? run.times * run.bytes : run.seconds ?? roofline(run).least);

/** The modules around a path, outermost first: of `a.b.c` these are `a`, `a.b` and `a.b.c`. */
function prefixes(module) {
  const parts = module ? module.split(".") : [];
  return parts.map((_, at) => parts.slice(0, at + 1).join("."));
}

/** The tree of modules: of each its path, its name, its dispatches, those within included, and its submodules. */
function moduleTree() {
  const root = { path: "", name: "all", runs: [], inner: new Map() };
  facts.runs.forEach((one, run) => {
    let node = root;
    node.runs.push(run);
    for (const path of prefixes(one.module)) {
      if (!node.inner.has(path)) node.inner.set(path, { path, name: path.slice(node.path ? node.path.length + 1 : 0), runs: [], inner: new Map() });
      node = node.inner.get(path);
      node.runs.push(run);
    }
  });
  return root;
}

/** The modules that are open at first. */
function openedAtFirst(root) {
  const open = new Set();
  let boxes = root.inner.size;
  for (let level = [...root.inner.values()]; level.length; level = level.flatMap((node) => (open.has(node.path) ? [...node.inner.values()] : []))) {
    for (const node of level) {
      const own = node.runs.length - [...node.inner.values()].reduce((sum, inner) => sum + inner.runs.length, 0);
      if (boxes - 1 + node.inner.size + own > MOST_BOXES) return open;
      if (node.inner.size) open.add(node.path);
      boxes += node.inner.size + own - 1;
    }
  }
  return open;
}

/**
 * The boxes and edges for a set of open modules. A closed module is one box, or several where one would be before and after
 * another box: most are two, of the loss and of its derivative.
 */
function grouped(open) {
  const { nodes, edges } = data.graph;
  const before = nodes.map(() => []);
  edges.forEach((edge) => before[edge[1]].push(edge));
  const boxes = [], boxOf = new Map(), latest = new Map();
  const leadsTo = (from, to) => {
    const seen = new Set([from]), rest = [from];
    while (rest.length) for (const next of boxes[rest.pop()].after) {
      if (next === to) return true;
      if (!seen.has(next)) { seen.add(next); rest.push(next); }
    }
    return false;
  };
  const newBox = (group) => boxes.push({ group, nodes: [], after: new Set() }) - 1;
  const rank = (at) => ({ input: 0, output: 2 })[nodes[at].role] ?? 1;
  for (const at of nodes.map((_, at) => at).sort((a, b) => rank(a) - rank(b) || a - b)) {
    const module = nodes[at].run < 0 ? "" : facts.runs[nodes[at].run].module;
    const group = prefixes(module).find((path) => !open.has(path));
    const sources = new Set(before[at].map(([source]) => boxOf.get(source)));
    let box = group === undefined ? undefined : latest.get(group);
    if (box === undefined || [...sources].some((source) => source !== box && leadsTo(box, source))) box = newBox(group);
    if (group !== undefined) latest.set(group, box);
    boxOf.set(at, box);
    boxes[box].nodes.push(at);
    for (const source of sources) if (source !== box) boxes[source].after.add(box);
  }
  const links = new Map();
  for (const [source, target, value] of edges) {
    const [from, to] = [boxOf.get(source), boxOf.get(target)];
    if (from === to) continue;
    const link = links.get(`${from}:${to}`) ?? { from, to, values: new Set() };
    link.values.add(value);
    links.set(`${from}:${to}`, link);
  }
  return { boxes, links: [...links.values()] };
}

/** Numbers as close as possible to wanted ones, in their order and at least 1 apart (pool adjacent violators). */
function apart(wanted) {
  const pools = [];
  wanted.forEach((number, at) => {
    pools.push({ sum: number - at, count: 1 });
    while (pools.length > 1 && pools.at(-2).sum / pools.at(-2).count > pools.at(-1).sum / pools.at(-1).count) {
      const { sum, count: number } = pools.pop();
      pools.at(-1).sum += sum;
      pools.at(-1).count += number;
    }
  });
  return pools.flatMap(({ sum, count: number }) => Array(number).fill(sum / number)).map((number, at) => number + at);
}

/** Places boxes in layers, each below those it reads from, with few crossings (Sugiyama, Tagawa, Toda, 1981). */
function laidOut({ boxes, links }) {
  const above = boxes.map(() => []), below = boxes.map(() => []);
  for (const { from, to } of links) { above[to].push(from); below[from].push(to); }
  const layer = boxes.map(() => 0), waiting = above.map((list) => list.length);
  const ready = boxes.map((_, at) => at).filter((at) => !waiting[at]);
  for (const at of ready) for (const next of below[at]) {
    layer[next] = Math.max(layer[next], layer[at] + 1);
    if (!--waiting[next]) ready.push(next);
  }
  boxes.forEach((_, at) => { if (!above[at].length && below[at].length) layer[at] = Math.max(0, Math.min(...below[at].map((next) => layer[next])) - 1); });
  const near = (at, others) => others.filter((other) => Math.abs(layer[at] - layer[other]) <= NEAR);
  const rows = [];
  boxes.forEach((_, at) => (rows[layer[at]] ??= []).push(at));
  const x = boxes.map(() => 0);
  for (const row of rows) row?.forEach((at, place) => { x[at] = place - (row.length - 1) / 2; });
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const down = sweep % 2 === 0;
    for (const row of down ? rows : [...rows].reverse()) {
      if (!row) continue;
      const wanted = new Map(row.map((at) => {
        const others = sweep > SWEEPS - 3 ? near(at, [...above[at], ...below[at]]) : near(at, down ? above[at] : below[at]);
        return [at, others.length ? others.reduce((sum, other) => sum + x[other], 0) / others.length : x[at]];
      }));
      row.sort((a, b) => wanted.get(a) - wanted.get(b) || x[a] - x[b]);
      apart(row.map((at) => wanted.get(at))).forEach((place, at) => { x[row[at]] = place; });
    }
  }
  return boxes.map((_, at) => [x[at] * BOX.across, layer[at] * BOX.down]);
}

/** The path of an edge; one that passes other boxes goes around them, the further out the longer it is. */
function route([x, y], [toX, toY]) {
  const [top, bottom] = [y + BOX.height / 2, toY - BOX.height / 2];
  const span = (toY - y) / BOX.down;
  if (span <= NEAR) return `M${x},${top}C${x},${(top + bottom) / 2} ${toX},${(top + bottom) / 2} ${toX},${bottom}`;
  const out = Math.min(x, toX) - BOX.across * (0.5 + 0.3 * Math.sqrt(span));
  const [down, up] = [top + BOX.down, bottom - BOX.down];
  return `M${x},${top}C${x},${down} ${out},${top} ${out},${down}L${out},${up}C${out},${bottom} ${toX},${up} ${toX},${bottom}`;
}

const svg = (tag, attributes, ...children) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== undefined) element.setAttribute(name, value);
  element.append(...children);
  return element;
};

const short = (text, most = 24) => (text.length > most ? `\u2026${text.slice(1 - most)}` : text);

/** The texts of a box, its role and its dispatches. */
function described(box) {
  const first = data.graph.nodes[box.nodes[0]];
  const runs = box.nodes.map((at) => data.graph.nodes[at].run).filter((run) => run >= 0);
  if (box.group !== undefined) return { name: box.group, label: runs.length === 1 ? nameOfRun(facts.runs[runs[0]]) : `${runs.length} dispatches`, role: "group", runs };
  return { name: first.name, label: (first.run >= 0 && facts.runs[first.run].module) || first.label, role: first.role, runs };
}

function boxMark(box, at, [x, y], weights, most) {
  const { name, label, role, runs } = described(box);
  const part = most ? weights[at] / most : 0;
  const colored = state.coloring !== "role" && runs.length;
  const mark = svg("g", {
    class: `box ${role}${colored ? ` heat${part > 0.8 ? " hot" : ""}` : ""}`, tabindex: 0, role: "button", "data-box": at, "data-run": runs.length === 1 ? runs[0] : undefined,
    "data-group": box.group, transform: `translate(${x - BOX.width / 2},${y - BOX.height / 2})`, style: `--part:${(100 * part).toFixed(1)}%`,
  });
  if (runs.length > 1) mark.append(svg("rect", { class: "behind", x: 4, y: 4, width: BOX.width, height: BOX.height, rx: 6 }));
  mark.append(
    svg("rect", { width: BOX.width, height: BOX.height, rx: 6 }),
    svg("text", { x: BOX.width / 2, y: 18, class: "name" }, short(name)),
    svg("text", { x: BOX.width / 2, y: 33 }, short(colored ? `${label.split(" ")[0]}: ${amount(weights[at])}` : label, 28)),
    svg("title", {}, `${name}, ${label}`));
  return mark;
}

/** An amount of what is colored, as text. */
function amount(weight) {
  if (state.coloring === "bytes") return bytes(Math.round(weight));
  if (facts.step_seconds !== null || facts.peaks) return micro(weight);
  return `est. ${percent(weight / estimated())}`;
}

/** The tree of modules beside the picture: what each takes, and whether it is open in the picture. */
function treeOf(node, open, toggle, all) {
  const by = state.coloring === "bytes" ? "bytes" : "time";
  const weight = (runs) => runs.reduce((sum, run) => sum + weightOf(facts.runs[run], by), 0);
  return make("ul", {}, ...[...node.inner.values()].map((inner) => make("li", {},
    make("div", { class: "leaf" },
      make("button", { class: "toggle", "data-module": inner.path, "aria-expanded": open.has(inner.path), onclick: () => toggle(inner.path) }, open.has(inner.path) ? "\u2212" : "+"),
      make("span", { class: "name", title: `${inner.path}: ${inner.runs.length} dispatches` }, inner.name),
      meter(weight(inner.runs) / all, percent(weight(inner.runs) / all))),
    open.has(inner.path) && inner.inner.size ? treeOf(inner, open, toggle, all) : null)));
}

/** What is said of a module's dispatches. */
function aboutGroup(name, runs) {
  const sum = (of) => runs.reduce((total, run) => total + of(facts.runs[run]), 0);
  const seconds = sum((run) => run.seconds ?? 0);
  const rows = [...runs].sort((a, b) => weightOf(facts.runs[b], "time") - weightOf(facts.runs[a], "time"));
  return [
    make("h2", {}, name),
    make("p", {}, `${runs.length} dispatches, ${bytes(sum((run) => run.times * run.bytes))}, ${large(sum((run) => run.times * run.flops))}FLOP${seconds ? `, ${micro(seconds)}` : ""}`),
    make("ul", { class: "plain" }, ...rows.map((run) => make("li", {},
      make("button", { class: "place", "data-run": run, onclick: () => go({ run }) }, `${run} ${nameOfRun(facts.runs[run])}`), " ",
      make("span", { class: "faint" }, `${facts.runs[run].label}${facts.runs[run].seconds ? `, ${micro(facts.runs[run].seconds)}` : ""}`)))),
  ];
}

function flowView(section) {
  section.classList.add("columns", "flows");
  const tree = moduleTree();
  const open = (state.open ??= openedAtFirst(tree));
  if (state.run >= 0) for (const path of prefixes(facts.runs[state.run].module)) open.add(path);
  const holder = make("div", { class: "drawing", tabindex: 0 });
  const side = make("div", { class: "pane", id: "about" });
  const modules = make("div", { class: "scroll", id: "modules" });
  const coloring = make("select", { id: "coloring", "aria-label": "Color", onchange: () => { state.coloring = coloring.value; draw(true); } },
    ...Object.entries(COLORINGS).map(([value, text]) => make("option", { value, selected: value === state.coloring }, value === "time" && facts.step_seconds === null ? `${text} (estimated)` : text)));
  const button = (text, action, label) => make("button", { onclick: action, "aria-label": label }, text);
  const everything = (node) => [...node.inner.values()].flatMap((inner) => [inner.path, ...everything(inner)]);
  section.append(
    make("div", { class: "pane" },
      make("div", { class: "bar" }, coloring,
        button("+", () => zoomBy(1.25), "Larger"), button("\u2212", () => zoomBy(0.8), "Smaller"), button("Reset", () => { fit(); place(); }),
        button("Open all", () => { everything(tree).forEach((path) => open.add(path)); draw(true); }), button("Close all", () => { open.clear(); draw(true); }),
        make("span", { class: "note" }, "Boxes are dispatches or closed modules, edges are buffers, as wide as they are large. Click a module to open it; drag to move, turn the wheel to zoom.")),
      holder),
    make("div", { class: "pane" }, tree.inner.size ? make("h2", {}, "Modules") : null, modules, side));
  const drawing = svg("svg", { role: "group", "aria-label": "Data flow" }), layer = svg("g", {});
  drawing.append(layer);
  holder.append(drawing);
  let picture, places, view = { x: 0, y: 0, zoom: 1 };

  const toggle = (path) => {
    if (open.has(path)) [...open].filter((other) => other === path || other.startsWith(`${path}.`)).forEach((other) => open.delete(other));
    else prefixes(path).forEach((outer) => open.add(outer));
    draw(true);
  };
  const place = () => layer.setAttribute("transform", `translate(${holder.clientWidth / 2},${holder.clientHeight / 2}) scale(${view.zoom}) translate(${-view.x},${-view.y})`);
  const zoomBy = (by, [x, y] = [0, 0]) => {
    const zoom = Math.max(0.05, Math.min(3, view.zoom * by));
    view = { x: view.x + x / view.zoom - x / zoom, y: view.y + y / view.zoom - y / zoom, zoom };
    place();
  };
  /** The first view: all of the picture if it is legible, else its top. */
  function fit() {
    const xs = places.map(([x]) => x), ys = places.map(([, y]) => y);
    const [left, right, top, bottom] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
    const zoom = Math.max(0.45, Math.min(1, holder.clientWidth / (right - left + 2 * BOX.across)));
    const tall = holder.clientHeight / zoom;
    view = { x: (left + right) / 2, y: bottom - top + BOX.down < tall ? (top + bottom) / 2 : top - BOX.height + tall / 2, zoom };
  }
  function focus(run) {
    const at = picture.boxes.findIndex((box) => box.nodes.some((node) => data.graph.nodes[node].run === run));
    if (at >= 0) [view.x, view.y] = places[at];
  }
  function choose(at) {
    const { name, runs } = described(picture.boxes[at]);
    for (const mark of layer.querySelectorAll(".box")) mark.classList.toggle("chosen", Number(mark.dataset.box) === at);
    for (const path of layer.querySelectorAll("path")) path.classList.toggle("near", path.dataset.from === String(at) || path.dataset.to === String(at));
    state.run = runs.length === 1 ? runs[0] : -1;
    side.replaceChildren(...(runs.length > 1 ? aboutGroup(name, runs) : about(state.run)).filter(Boolean));
    remember();
  }
  function draw(again = false) {
    picture = grouped(open);
    places = laidOut(picture);
    const by = state.coloring === "bytes" ? "bytes" : "time";
    const weights = picture.boxes.map((box) => box.nodes.reduce((sum, at) => sum + (data.graph.nodes[at].run < 0 ? 0 : weightOf(facts.runs[data.graph.nodes[at].run], by)), 0));
    const most = Math.max(...weights, 0);
    layer.replaceChildren(
      ...picture.links.map(({ from, to, values }) => {
        const found = [...values].map((value) => facts.values[value]);
        const total = found.reduce((sum, value) => sum + value.bytes, 0);
        const text = found.slice(0, 8).map((value) => `${value.name}: ${value.type}, ${bytes(value.bytes)}`).join("\n");
        return svg("path", { d: route(places[from], places[to]), "data-from": from, "data-to": to, "stroke-width": Math.max(1, 0.8 * Math.log(2 + total / 4096)) },
          svg("title", {}, found.length > 8 ? `${text}\nand ${found.length - 8} more` : text));
      }),
      ...picture.boxes.map((box, at) => boxMark(box, at, places[at], weights, most)));
    const all = facts.runs.reduce((sum, run) => sum + weightOf(run, by), 0) || 1;
    modules.replaceChildren(treeOf(tree, open, toggle, all));
    if (!again) fit();
    if (state.run >= 0) {
      const at = picture.boxes.findIndex((box) => box.group === undefined && data.graph.nodes[box.nodes[0]].run === state.run);
      if (at >= 0) choose(at);
    }
    place();
    holder.dataset.drawn = "true";
  }
  const boxAt = (event) => { const mark = event.target.closest?.(".box"); return mark ? Number(mark.dataset.box) : -1; };
  function act(at) {
    const box = picture.boxes[at];
    if (box.group !== undefined) toggle(box.group);
    else choose(at);
  }
  panned(holder, { move: (x, y) => { view.x -= x / view.zoom; view.y -= y / view.zoom; place(); }, zoomBy, click: (event) => { const at = boxAt(event); if (at >= 0) act(at); } });
  holder.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: [-80, 0], ArrowRight: [80, 0], ArrowUp: [0, -80], ArrowDown: [0, 80] };
    if (moves[event.key]) { view.x += moves[event.key][0] / view.zoom; view.y += moves[event.key][1] / view.zoom; place(); event.preventDefault(); }
    if (event.key === "+") zoomBy(1.25);
    if (event.key === "-") zoomBy(0.8);
    if (event.key === "Enter" && boxAt(event) >= 0) act(boxAt(event));
  });
  layer.addEventListener("mouseover", (event) => {
    const at = boxAt(event);
    if (at >= 0 && state.run < 0 && picture.boxes[at].group !== undefined) { const { name, runs } = described(picture.boxes[at]); side.replaceChildren(...aboutGroup(name, runs)); }
  });
  const resized = new ResizeObserver(place);
  resized.observe(holder);
  cleanUp.push(() => resized.disconnect());
  side.replaceChildren(...about(state.run).filter(Boolean));
  draw();
  if (state.run >= 0) { focus(state.run); place(); }
}

/** Lets a holder be dragged with any pointer and zoomed with the wheel; a press without a move is a click. */
function panned(holder, { move, zoomBy, click }) {
  let last = null, moved = 0;
  holder.addEventListener("pointerdown", (event) => { last = [event.clientX, event.clientY]; moved = 0; });
  holder.addEventListener("pointermove", (event) => {
    if (!last || !event.buttons) return;
    const by = [event.clientX - last[0], event.clientY - last[1]];
    moved += Math.hypot(...by);
    if (moved > 4) { holder.setPointerCapture(event.pointerId); move(...by); }
    last = [event.clientX, event.clientY];
  });
  holder.addEventListener("pointerup", (event) => { if (last && moved <= 4) click(event); last = null; });
  holder.addEventListener("wheel", (event) => {
    const { left, top, width, height } = holder.getBoundingClientRect();
    zoomBy(1.001 ** (-event.deltaY * 16 ** event.deltaMode), [event.clientX - left - width / 2, event.clientY - top - height / 2]);
    event.preventDefault();
  }, { passive: false });
}
