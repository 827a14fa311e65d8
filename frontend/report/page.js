/* The page of a report. `state` says what is shown; `show` draws it. Everything comes from the data in the page. */

const CHUNK = 120; // Lines that a browser lays out together, once they are seen.
const state = { view: "code", file: 0, level: 0, kernel: -1, place: null, run: -1, pass: 0, sort: ["number", 1] };
let data, facts, cleanUp = [];

const $ = (selector, root = document) => root.querySelector(selector);

/** Makes an element: its attributes, those that begin with `on` as listeners, and its children. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

const key = (place) => `${place[0]}:${place[1]}`;
const isNowhere = (place) => place[0] < 0;
const nameOf = (place) => `${facts.files[place[0]].path}:${place[1]}`;
const nameOfRun = (run) => (run.kernel < 0 ? "copy" : facts.kernels[run.kernel].name);
const count = (number) => number.toLocaleString("en");

function bytes(number) {
  const units = ["B", "kB", "MB", "GB"];
  let unit = 0;
  for (; number >= 1000 && unit < 3; unit++) number /= 1000;
  return `${unit ? number.toPrecision(3) : number} ${units[unit]}`;
}

/** Unpacks the data: JSON, compressed. */
async function unpacked() {
  const packed = Uint8Array.from(atob($("#data").textContent.trim()), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

/** Pairs of numbers as places. */
function unflattened(numbers) {
  const found = [];
  for (let at = 0; at < numbers.length; at += 2) found.push([numbers[at], numbers[at + 1]]);
  return found;
}

/** What a text is made of: the places of each of its lines, from 0, and the lines of each place. */
function linked(places) {
  const lines = new Map();
  places.forEach((found, line) => {
    for (const place of found) {
      const known = lines.get(key(place));
      if (known) known.push(line);
      else lines.set(key(place), [line]);
    }
  });
  return { places, lines };
}

/* Code: panes of lines. */

/**
 * Fills a pane with lines.
 * @param {HTMLElement} pane Where they go.
 * @param {string} html The lines.
 * @param {(line: number) => string} classOf More classes of a line, from 0.
 */
function fill(pane, html, classOf) {
  const lines = html.split("\n");
  const chunks = [];
  for (let begin = 0; begin < lines.length; begin += CHUNK) {
    const part = lines.slice(begin, begin + CHUNK);
    const rows = part.map((line, at) => `<div class="row ${classOf(begin + at)}" data-n="${begin + at + 1}"><span>${line || " "}</span></div>`);
    chunks.push(`<div class="chunk" style="contain-intrinsic-size:auto ${18 * part.length}px">${rows.join("")}</div>`);
  }
  pane.innerHTML = chunks.join("");
  pane.lineCount = lines.length;
}

function row(pane, line) {
  const chunk = pane.children[Math.floor(line / CHUNK)];
  return chunk ? chunk.children[line % CHUNK] : null;
}

/** Marks lines of a pane, and scrolls to one of them. */
function mark(pane, lines, current, scroll = true) {
  for (const old of pane.querySelectorAll(".marked, .current")) old.classList.remove("marked", "current");
  for (const line of lines) row(pane, line)?.classList.add("marked");
  const here = current === undefined || current < 0 ? null : row(pane, current);
  if (!here) return;
  here.classList.add("current");
  if (scroll) {
    // Lines that were not laid out yet have a guessed height: the second time it is right.
    here.scrollIntoView({ block: "center" });
    requestAnimationFrame(() => here.isConnected && here.scrollIntoView({ block: "center" }));
  }
}

/** A pane of code: the arrow keys move in it, Enter and clicks choose a line. */
function codePane(label, choose) {
  const pane = make("div", {
    class: "code",
    tabindex: 0,
    role: "region",
    "aria-label": label,
    onclick: (event) => {
      const found = event.target.closest(".row");
      if (found) choose(Number(found.dataset.n) - 1);
    },
    onkeydown: (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 30, PageUp: -30 }[event.key];
      const here = $(".current", pane);
      const line = here ? Number(here.dataset.n) - 1 : -1;
      if (step) {
        const next = Math.max(0, Math.min(pane.lineCount - 1, line + step));
        here?.classList.remove("current");
        row(pane, next)?.classList.add("current");
        row(pane, next)?.scrollIntoView({ block: "nearest" });
        event.preventDefault();
      } else if (event.key === "Enter" && line >= 0) choose(line);
    },
  });
  return pane;
}

/** What the right pane shows: a level, or a kernel's code. */
function target() {
  const shown = state.kernel >= 0 ? facts.kernels[state.kernel] : facts.levels[state.level];
  if (!shown) return { html: "", lines: () => [], at: () => [] };
  const { places, lines } = shown.links;
  return { html: shown.html, lines: (place) => lines.get(key(place)) ?? [], at: (line) => places[line] ?? [] };
}

function codeView(section) {
  section.classList.add("columns");
  const shown = target();
  const left = codePane("Python source", (line) => choose([state.file, line + 1]));
  const right = codePane("IR or kernel", (line) => {
    const found = shown.at(line);
    const place = found.find(([file]) => file === state.file) ?? found[0];
    if (place) choose(place, line);
  });
  const kernels = make("span", { class: "bar", id: "kernels" });
  const note = make("span", { class: "note", id: "note", role: "status" });
  const files = make(
    "select",
    { id: "files", "aria-label": "File", onchange: (event) => { state.file = Number(event.target.value); show(); } },
    ...facts.files.map((file, at) => make("option", { value: at, selected: at === state.file }, file.path)),
  );
  const levels = make(
    "select",
    {
      id: "levels",
      "aria-label": "Level or kernel",
      onchange: (event) => {
        const [kind, at] = event.target.value.split(":");
        if (kind === "level") [state.level, state.kernel] = [Number(at), -1];
        else state.kernel = Number(at);
        state.chosenLine = undefined;
        show();
      },
    },
    ...facts.levels.map((level, at) =>
      make("option", { value: `level:${at}`, selected: state.kernel < 0 && at === state.level }, `${level.name}: ${level.title}`)),
    ...facts.kernels.map((kernel, at) =>
      make("option", { value: `kernel:${at}`, selected: at === state.kernel }, `kernel ${kernel.name} (${kernel.language})`)),
  );
  section.append(
    make("div", { class: "pane" }, make("div", { class: "bar" }, files, note), left),
    make("div", { class: "pane" }, make("div", { class: "bar" }, levels, kernels), right),
  );
  const file = facts.files[state.file];
  const computed = new Set(facts.levels.flatMap((level) => [...level.links.lines.keys()]));
  fill(left, file ? file.html || "the source can't be read, or is longer than a report holds" : "no source is known", (line) => (computed.has(`${state.file}:${line + 1}`) ? "linked" : ""));
  fill(right, shown.html, (line) => (shown.at(line).length ? "linked" : ""));

  /** Shows what became of a line, and where it is from. */
  function choose(place, line) {
    state.place = place;
    state.chosenLine = line;
    if (place[0] !== state.file) { state.file = place[0]; return show(); }
    link();
  }

  function link() {
    const place = state.place;
    kernels.replaceChildren();
    if (!place) return;
    const lines = shown.lines(place);
    // A line of a kernel may be made of several lines of Python.
    const from = state.chosenLine === undefined ? [place] : [place, ...shown.at(state.chosenLine)];
    mark(left, from.filter(([file]) => file === state.file).map(([, line]) => line - 1), state.file === place[0] ? place[1] - 1 : -1);
    const current = state.chosenLine ?? lines[0];
    mark(right, lines, current, state.chosenLine === undefined);
    const found = facts.kernels.map((kernel, at) => [kernel, at]).filter(([kernel]) => kernel.places.some((other) => key(other) === key(place)));
    note.textContent = `line ${place[1]}: ${lines.length} lines ${state.kernel < 0 ? "at this level" : "of this kernel"}, ${found.length} kernels`;
    for (const [kernel, at] of found.slice(0, 12)) {
      kernels.append(make("button", { "data-kernel": at, "aria-selected": at === state.kernel, onclick: () => { Object.assign(state, { kernel: at, chosenLine: undefined }); show(); } }, kernel.name));
    }
    remember();
  }
  if (state.kernel >= 0 && !state.place) {
    const from = facts.kernels[state.kernel].places;
    mark(left, from.filter((place) => place[0] === state.file).map((place) => place[1] - 1), from.length ? from[0][1] - 1 : -1);
  }
  link();
  section.step = (by) => {
    const lines = state.place ? shown.lines(state.place) : [];
    if (!lines.length) return;
    const now = Number($(".current", right)?.dataset.n ?? 0) - 1;
    const next = by > 0 ? lines.find((line) => line > now) ?? lines[0] : lines.findLast((line) => line < now) ?? lines.at(-1);
    mark(right, lines, next);
  };
}

/* Passes: what each changed. */

function passesView(section) {
  section.classList.add("columns", "passes");
  const pane = codePane("What the pass changed", () => {});
  const title = make("b", { id: "pass" });
  const slider = make("input", { type: "range", min: 0, max: Math.max(0, facts.passes.length - 1), value: state.pass, "aria-label": "Pass", oninput: () => select(Number(slider.value)) });
  const play = make("button", { id: "play", onclick: toggle }, "Play");
  const rows = facts.passes.map((one, at) =>
    make("tr", { "data-pass": at, onclick: () => select(at) },
      make("td", {}, one.name),
      make("td", { class: "number" }, (1e3 * one.seconds).toFixed(1)),
      make("td", { class: "number" }, count(one.ops)),
      make("td", { class: "number" }, one.kernels || "")));
  const head = ["pass", "ms", "ops", "kernels"].map((name, at) => make("th", { class: at ? "number" : null }, name));
  section.append(
    make("div", { class: "pane scroll" }, make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows))),
    make("div", { class: "pane" }, make("div", { class: "bar" }, play, slider, title), pane),
  );
  let timer = null;
  function toggle() {
    play.textContent = timer === null ? "Stop" : "Play";
    if (timer !== null) { clearInterval(timer); timer = null; return; }
    timer = setInterval(() => (state.pass + 1 < facts.passes.length ? select(state.pass + 1) : toggle()), 1200);
  }
  cleanUp.push(() => clearInterval(timer));
  function select(at) {
    state.pass = at;
    slider.value = at;
    rows.forEach((one, number) => one.classList.toggle("current", number === at));
    rows[at]?.scrollIntoView({ block: "nearest" });
    const one = facts.passes[at];
    title.textContent = one ? `${at + 1} of ${facts.passes.length}: ${one.name}` : "no passes ran: this is a program from a file";
    difference(pane, one ? one.html || "it changed nothing" : "");
    remember();
  }
  section.level = (by) => select(Math.max(0, Math.min(facts.passes.length - 1, state.pass + by)));
  select(Math.min(state.pass, Math.max(0, facts.passes.length - 1)));
}

/** Fills a pane with a diff. */
function difference(pane, html) {
  const signs = html.split("\n").map((line) => line.replace(/<[^>]*>/g, "")[0]);
  fill(pane, html, (line) => ({ "+": "inserted", "-": "deleted" })[signs[line]] ?? "");
}

/* Pictures. */

/** Draws a picture; calls back with the number of what was clicked. */
async function draw(holder, spec, chosen) {
  const dark = document.documentElement.dataset.theme === "dark";
  const [front, line] = dark ? ["#e4e6eb", "#4a525a"] : ["#1c1e21", "#b0b7bf"];
  const axis = { labelColor: front, titleColor: front, domainColor: line, tickColor: line, gridColor: line };
  const tip = make("div", { id: "vg-tooltip", hidden: "" });
  function tooltip(_, event, item, value) {
    tip.hidden = value === null || value === undefined || value === "";
    if (tip.hidden) return;
    tip.textContent = value;
    tip.style.left = `${Math.min(event.clientX + 12, innerWidth - 260)}px`;
    tip.style.top = `${event.clientY + 14}px`;
  }
  const made = await vegaEmbed(holder, spec, { mode: "vega", renderer: "svg", actions: false, hover: true, config: { axis, background: null }, tooltip });
  holder.append(tip);
  made.view.addSignalListener("chosen", (_, number) => chosen(number));
  cleanUp.push(() => made.finalize());
  return made.view;
}

/** What is said of a dispatch. */
function about(run) {
  if (run < 0) return [make("p", { class: "faint" }, "Choose a dispatch.")];
  const one = facts.runs[run];
  const values = (numbers) => make("ul", {}, ...numbers.map((at) => {
    const value = facts.values[at];
    return make("li", {}, `${value.name} ${value.type} `, make("span", { class: "faint" }, `${value.role}, ${bytes(value.bytes)}`));
  }));
  const speed = one.seconds ? `, ${(one.times * one.bytes / one.seconds / 1e9).toFixed(2)} GB/s, ${(one.times * one.flops / one.seconds / 1e9).toFixed(2)} GFLOP/s` : "";
  return [
    make("h2", {}, `Dispatch ${run}: ${nameOfRun(one)}`),
    make("p", {}, ...(one.places.length ? one.places.flatMap((place) => [
      make("button", { onclick: () => { Object.assign(state, { view: "code", place, file: place[0], chosenLine: undefined }); show(); } }, nameOf(place)), " ",
    ]) : [one.label])),
    make("p", {}, `${count(one.times)} a step, ${bytes(one.bytes)}, ${count(one.flops)} flops${one.seconds ? `, ${(1e6 * one.seconds).toFixed(1)} us` : ""}${speed}`),
    one.kernel < 0 ? null : make("p", {}, make("button", { id: "code", onclick: () => { Object.assign(state, { view: "code", kernel: one.kernel, place: null, chosenLine: undefined }); show(); } }, "The kernel's code")),
    make("h2", {}, "reads"), values(one.reads),
    make("h2", {}, "writes"), values(one.writes),
  ];
}

async function pictured(section, spec, tools = () => []) {
  section.classList.add("columns", "drawn");
  const holder = make("div", { class: "drawing", tabindex: 0 });
  const side = make("div", { class: "pane", id: "about" });
  const tell = (run) => { state.run = run; side.replaceChildren(...about(run).filter(Boolean)); remember(); };
  const bar = make("div", { class: "bar" });
  section.append(make("div", { class: "pane" }, bar, holder), side);
  tell(state.run);
  bar.append(...tools(await draw(holder, spec, tell), holder));
  holder.dataset.drawn = "true";
}

function flowView(section) {
  pictured(section, data.drawings.flow, (view, holder) => {
    const move = (x, y) => view.signal("shift", [x, y]).runAsync();
    const zoom = (by) => view.signal("scale", [by]).runAsync();
    holder.addEventListener("keydown", (event) => {
      const moves = { ArrowLeft: [-80, 0], ArrowRight: [80, 0], ArrowUp: [0, -80], ArrowDown: [0, 80] };
      if (moves[event.key]) { move(...moves[event.key]); event.preventDefault(); }
      if (event.key === "+") zoom(1.25);
      if (event.key === "-") zoom(0.8);
    });
    return [
      make("button", { onclick: () => zoom(1.25), "aria-label": "Larger" }, "+"),
      make("button", { onclick: () => zoom(0.8), "aria-label": "Smaller" }, "\u2212"),
      make("button", { onclick: () => view.signal("reset", Date.now()).runAsync() }, "Reset"),
      make("span", { class: "note" }, "Boxes are dispatches, edges are buffers, as wide as they are large. Drag to move, turn the wheel to zoom."),
    ];
  });
}

function memoryView(section) {
  pictured(section, data.drawings.memory, () => [
    make("span", { class: "note" }, "Each box is a buffer of the workspace: its bytes, from the dispatch that writes it to the last that reads it. The line is how much is in use."),
  ]);
  const rows = Object.entries(facts.arenas).map(([name, size]) => make("tr", {}, make("td", {}, name), make("td", { class: "number" }, bytes(size))));
  $(".pane", section).append(make("h2", {}, "All allocations"), make("table", {}, ...rows));
}

/* Kernels: a table of dispatches. */

const COLUMNS = [
  ["number", (one, at) => at, true],
  ["kernel", (one) => nameOfRun(one), false],
  ["from", (one) => one.label, false],
  ["workgroups", (one) => one.workgroups.join(" \u00d7 "), false],
  ["times", (one) => one.times, true],
  ["us", (one) => (one.seconds === null ? null : 1e6 * one.seconds), true],
  ["bytes", (one) => one.times * one.bytes, true],
  ["GB/s", (one) => (one.seconds ? one.times * one.bytes / one.seconds / 1e9 : null), true],
  ["flops", (one) => one.times * one.flops, true],
  ["GFLOP/s", (one) => (one.seconds ? one.times * one.flops / one.seconds / 1e9 : null), true],
];

function written(value, isNumber) {
  if (value === null) return "";
  return !isNumber ? value : Number.isInteger(value) ? count(value) : value.toFixed(value < 100 ? 2 : 1);
}

function kernelsView(section) {
  pictured(section, data.drawings.costs);
  const isTimed = facts.runs.some((one) => one.seconds !== null);
  const columns = COLUMNS.filter(([name]) => isTimed || !["us", "GB/s", "GFLOP/s"].includes(name));
  const table = make("table", { id: "runs" });
  $(".pane", section).append(make("h2", {}, "All dispatches"), table);
  function order() {
    const [by, direction] = state.sort;
    const value = COLUMNS.find(([name]) => name === by)[1];
    const rows = facts.runs.map((one, at) => [one, at, value(one, at)]);
    rows.sort((a, b) => (a[2] < b[2] ? -direction : a[2] > b[2] ? direction : a[1] - b[1]));
    const head = columns.map(([name, , isNumber]) =>
      make("th", { class: isNumber ? "number" : null, "aria-sort": by === name ? (direction > 0 ? "ascending" : "descending") : null },
        make("button", { onclick: () => { state.sort = [name, by === name ? -direction : isNumber && name !== "number" ? -1 : 1]; order(); } }, name)));
    const body = rows.map(([one, at]) =>
      make("tr", { "data-run": at, onclick: () => { state.run = at; $("#about").replaceChildren(...about(at).filter(Boolean)); } },
        ...columns.map(([, found, isNumber]) => make("td", { class: isNumber ? "number" : null }, String(written(found(one, at), isNumber))))));
    table.replaceChildren(make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...body));
  }
  order();
}

/* Two compilations beside each other. */

function comparisonView(section) {
  const found = data.comparison;
  const cells = (row, tag) => row.map((cell, at) => make(tag, { class: at ? "number" : null }, String(cell)));
  const table = (head, rows) => make("table", {}, make("thead", {}, make("tr", {}, ...cells(head, "th"))), make("tbody", {}, ...rows.map((one) => make("tr", {}, ...cells(one, "td")))));
  section.append(make("h2", {}, "Figures"), table(["", ...found.names], found.figures));
  if (found.kernels.length) section.append(make("h2", {}, "Lines with other dispatches"), table(["line", ...found.names], found.kernels));
  for (const level of found.levels) {
    section.append(make("h2", {}, `${level.name}${level.html ? "" : ": the same"}`));
    if (!level.html) continue;
    const pane = codePane(`What differs at ${level.name}`, () => {});
    pane.style.maxHeight = "60vh";
    difference(pane, level.html);
    section.append(pane);
  }
}

/* The page. */

const VIEWS = [
  ["code", "Code", codeView],
  ["passes", "Passes", passesView],
  ["flow", "Data flow", flowView],
  ["memory", "Memory", memoryView],
  ["kernels", "Kernels", kernelsView],
  ["comparison", "Comparison", comparisonView],
];

const views = () => VIEWS.filter(([name]) => name !== "comparison" || data.comparison);

/** Keeps in the address what is shown, so that it can be passed on. */
function remember() {
  const { view, file, level, kernel, place, run, pass } = state;
  history.replaceState(null, "", `#${encodeURIComponent(JSON.stringify({ view, file, level, kernel, place, run, pass }))}`);
}

function recalled() {
  try {
    const found = JSON.parse(decodeURIComponent(location.hash.slice(1)));
    for (const name of ["file", "level", "kernel", "run", "pass"]) if (Number.isInteger(found[name])) state[name] = found[name];
    if (views().some(([name]) => name === found.view)) state.view = found.view;
    if (Array.isArray(found.place) && facts.files[found.place[0]]) state.place = found.place;
    if (!facts.kernels[state.kernel]) state.kernel = -1;
    if (!facts.levels[state.level]) state.level = 0;
    if (!facts.runs[state.run]) state.run = -1;
    if (!facts.files[state.file]) state.file = 0;
  } catch { /* It is an address that this page did not write. */ }
}

function show() {
  cleanUp.forEach((clean) => clean());
  cleanUp = [];
  const section = make("section", { class: state.view, role: "tabpanel" });
  $("main").replaceChildren(section);
  for (const tab of document.querySelectorAll("nav button")) tab.setAttribute("aria-selected", tab.dataset.view === state.view);
  VIEWS.find(([name]) => name === state.view)[2](section);
  remember();
}

function theme(name) {
  document.documentElement.dataset.theme = name;
  if (facts) show();
}

function keys(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select")) return;
  const section = $("main > section");
  const moves = { n: () => section.step?.(1), p: () => section.step?.(-1), "[": () => level(-1), "]": () => level(1), d: () => $("#theme").click(), "?": () => $("#keys").showModal() };
  function level(by) {
    if (section.level) return section.level(by);
    if (state.view !== "code" || !facts.levels.length) return;
    Object.assign(state, { level: Math.max(0, Math.min(facts.levels.length - 1, state.level + by)), kernel: -1, chosenLine: undefined });
    show();
  }
  const view = views()[Number(event.key) - 1];
  if (view) { state.view = view[0]; show(); }
  else moves[event.key]?.();
}

/** The file that most lines of the program are from: that of the model, not of what compiles it. */
function mostUsed() {
  const lines = facts.files.map(() => new Set());
  for (const found of facts.levels[0]?.links.lines.keys() ?? []) lines[found.split(":")[0]].add(found);
  return lines.reduce((best, found, at) => (found.size > (lines[best]?.size ?? 0) ? at : best), 0);
}

async function begin() {
  theme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  data = await unpacked();
  facts = data.facts;
  for (const level of facts.levels) level.links = linked(unflattened(level.places).map((place) => (isNowhere(place) ? [] : [place])));
  for (const kernel of facts.kernels) kernel.links = linked(kernel.lines.map(unflattened));
  $("#summary").textContent = facts.summary;
  state.kernel = facts.levels.length ? -1 : 0;
  state.file = mostUsed();
  recalled();
  for (const [at, [name, title]] of views().entries()) {
    $("nav").append(make("button", { role: "tab", "data-view": name, title: `${at + 1}`, onclick: () => { state.view = name; show(); } }, title));
  }
  $("#theme").onclick = () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
  $("#help").onclick = () => $("#keys").showModal();
  addEventListener("keydown", keys);
  show();
  document.documentElement.dataset.ready = "true";
}

begin();
