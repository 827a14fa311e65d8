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
}

async function pictured(section, spec, note = "") {
  section.classList.add("columns", "drawn");
  const holder = make("div", { class: "drawing", tabindex: 0 });
  const side = make("div", { class: "pane", id: "about" });
  const tell = (run) => { state.run = run; side.replaceChildren(...about(run).filter(Boolean)); remember(); };
  section.append(make("div", { class: "pane" }, note ? make("p", { class: "faint" }, note) : null, holder), side);
  tell(state.run);
  await draw(holder, spec, tell);
  holder.dataset.drawn = "true";
}

function memoryView(section) {
  pictured(section, data.drawings.memory, "Each box is a buffer of the workspace: its bytes, from the dispatch that writes it to the last that reads it. The line is how much is in use.");
  const rows = Object.entries(facts.arenas).map(([name, size]) => make("tr", {}, make("td", {}, name), make("td", { class: "number" }, bytes(size))));
  $(".pane", section).append(make("h2", {}, "All allocations"), make("table", {}, ...rows));
}

/* Kernels: a table of dispatches. */

const COLUMNS = [
  ["number", (one, at) => at, true],
  ["kernel", (one) => nameOfRun(one), false],
  ["from", (one) => one.label, false],
  ["module", (one) => one.module, false],
  ["workgroups", (one) => one.workgroups.join(" \u00d7 "), false],
  ["times", (one) => one.times, true],
  ["us", (one) => (one.seconds === null ? null : 1e6 * one.seconds), true],
  ["bytes", (one) => one.times * one.bytes, true],
  ["GB/s", (one) => (one.seconds ? one.times * one.bytes / one.seconds / 1e9 : null), true],
  ["flops", (one) => one.times * one.flops, true],
  ["GFLOP/s", (one) => (one.seconds ? one.times * one.flops / one.seconds / 1e9 : null), true],
  ["of roofline, %", (one) => (one.seconds && facts.peaks ? 100 * roofline(one).least / one.seconds : null), true],
];

function written(value, isNumber) {
  if (value === null) return "";
  return !isNumber ? value : Number.isInteger(value) ? count(value) : value.toFixed(value < 100 ? 2 : 1);
}

function kernelsView(section) {
  pictured(section, data.drawings.costs);
  const isTimed = facts.runs.some((one) => one.seconds !== null);
  const columns = COLUMNS.filter(([name]) => isTimed || !["us", "GB/s", "GFLOP/s", "of roofline, %"].includes(name));
  const table = make("table", { id: "runs" });
  $(".pane", section).append(make("h2", {}, "All dispatches"), make("div", { class: "scroll wide" }, table));
  function order() {
    const [by, direction] = state.sort;
    const value = COLUMNS.find(([name]) => name === by)[1];
    const rows = facts.runs.map((one, at) => [one, at, value(one, at)]);
    rows.sort((a, b) => (a[2] < b[2] ? -direction : a[2] > b[2] ? direction : a[1] - b[1]));
    const head = columns.map(([name, , isNumber]) =>
      make("th", { class: isNumber ? "number" : null, "aria-sort": by === name ? (direction > 0 ? "ascending" : "descending") : null },
        make("button", { onclick: () => { state.sort = [name, by === name ? -direction : isNumber && name !== "number" ? -1 : 1]; order(); } }, name)));
    const body = rows.map(([one, at]) =>
      make("tr", { "data-run": at, onclick: () => { state.run = at; $("#about").replaceChildren(...about(at).filter(Boolean)); remember(); if (innerWidth <= 800) $("#about").scrollIntoView(); } },
        ...columns.map(([, found, isNumber]) => make("td", { class: isNumber ? "number" : null }, String(written(found(one, at), isNumber))))));
    table.replaceChildren(make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...body));
  }
  order();
}
