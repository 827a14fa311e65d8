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
