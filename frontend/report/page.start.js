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
  const { view, file, level, kernel, place, run, pass, coloring } = state;
  history.replaceState(null, "", `#${encodeURIComponent(JSON.stringify({ view, file, level, kernel, place, run, pass, coloring }))}`);
}

function recalled() {
  try {
    const found = JSON.parse(decodeURIComponent(location.hash.slice(1)));
    for (const name of ["file", "level", "kernel", "run", "pass"]) if (Number.isInteger(found[name])) state[name] = found[name];
    if (Object.hasOwn(COLORINGS, found.coloring)) state.coloring = found.coloring;
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
  const section = make("section", { role: "tabpanel" });
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
  const moves = { n: () => section.step?.(1), p: () => section.step?.(-1), "[": () => level(-1), "]": () => level(1), d: () => $("#theme").click(), "?": () => $("#keys").showModal(), "/": () => { $("#search").focus(); event.preventDefault(); } };
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
  $("header").insertBefore(searchBox(), $("#theme"));
  addEventListener("keydown", keys);
  show();
  document.documentElement.dataset.ready = "true";
}

begin();
