/* Passes: what each changed. */

function passesView(section) {
  section.classList.add("columns", "passes");
  const pane = codePane("What the pass changed", () => {});
  const list = make("div", { class: "scroll", id: "decisions" });
  const kinds = make("select", { id: "which", "aria-label": "Decisions or changes", onchange: () => { state.shown = kinds.value; select(state.pass); } },
    ...Object.entries(KINDS).map(([value, text]) => make("option", { value }, text)));
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
    make("div", { class: "pane" }, make("div", { class: "bar" }, play, slider, title, kinds), list, pane),
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
    const decides = Boolean(one?.decisions.length || one?.choices.length);
    kinds.hidden = !decides;
    for (const option of kinds.options) option.hidden = ["merged", "apart"].includes(option.value) && !one?.decisions.length;
    if (!one?.decisions.length && state.shown !== "diff") state.shown = "all";
    kinds.value = state.shown;
    list.hidden = !decides || state.shown === "diff";
    pane.hidden = !list.hidden;
    if (list.hidden) difference(pane, one ? one.html || "it changed nothing" : "");
    else list.replaceChildren(...(one.decisions.length ? decisions(one, state.shown) : []), ...choices(one));
    remember();
  }
  section.level = (by) => select(Math.max(0, Math.min(facts.passes.length - 1, state.pass + by)));
  select(Math.min(state.pass, Math.max(0, facts.passes.length - 1)));
}

/* What a pass decided, by the dispatch that came of it. */

const KINDS = { all: "All decisions", merged: "What was merged", apart: "What stays apart", diff: "The diff" };

const RULES = {
  inline: "computed in its only reader",
  recompute: "computed in each of its readers",
  prologue: "computed in the product that reads it",
  epilogue: "runs after it, at the same points",
  row: "runs after the reduction of its rows",
  siblings: "runs beside it, over the same grid",
  derivative: "one pass over both parts of the derivative",
};

/** The decisions of a pass, in groups that open: one for each dispatch. */
function decisions(one, kind) {
  const groups = new Map();
  const group = (run) => groups.get(run) ?? groups.set(run, { merged: [], apart: [] }).get(run);
  for (const decision of one.decisions) {
    if (decision.rule) group(decision.other_run).merged.push(decision);
    else group(decision.run).apart.push(decision);
  }
  const merges = one.decisions.filter((decision) => decision.rule);
  const counts = Object.keys(RULES).map((rule) => [rule, merges.filter((decision) => decision.rule === rule).length]).filter(([, number]) => number);
  const summary = make("p", {}, `${count(merges.length)} merges (${counts.map(([rule, number]) => `${count(number)} ${rule}`).join(", ")}); ${count(one.decisions.length - merges.length)} pairs of kernels stay apart.`);
  const shown = [...groups].filter(([, { merged, apart }]) => (kind !== "apart" && merged.length) || (kind !== "merged" && apart.length));
  shown.sort(([first], [second]) => first - second);
  return [summary, ...shown.map(([run, { merged, apart }]) => {
    const details = make("details", { "data-run": run, open: run === state.run },
      make("summary", {}, make("b", {}, nameOfDispatch(run)), ` ${facts.runs[run]?.module ?? ""} `,
        make("span", { class: "faint" }, [merged.length && `${merged.length} merged`, apart.length && `${apart.length} apart`].filter(Boolean).join(", "))));
    const open = () => {
      if (!details.open || details.children.length > 1) return;
      details.append(
        make("button", { class: "place", onclick: () => go({ view: "kernels", run }) }, "This dispatch"),
        make("ul", {}, ...(kind === "apart" ? [] : merged).map(mergeRow), ...(kind === "merged" ? [] : apart).map(apartRow)));
    };
    details.addEventListener("toggle", open);
    open();
    return details;
  })];
}

/** What a pass chose for each kernel, and why. */
function choices(one) {
  return one.choices.map(({ about, place, run, text }) => {
    const dispatch = run < 0 ? null : make("button", { class: "place", onclick: () => go({ view: "kernels", run }) }, nameOfDispatch(run));
    return make("p", { class: "choice" }, dispatch, dispatch && " ", ...placed(about, place), make("div", { class: "faint" }, text));
  });
}

const nameOfDispatch = (run) => (run < 0 ? "No dispatch" : `Dispatch ${run}: ${nameOfRun(facts.runs[run])}`);
const placed = (text, place) => [make("code", {}, text), " ", isNowhere(place) ? null : buttonOfPlace(place)];

function mergeRow(decision) {
  return make("li", {},
    make("span", { class: "kind", title: RULES[decision.rule] }, decision.rule), " ", ...placed(decision.kernel, decision.place),
    " into ", ...placed(decision.other, decision.other_place));
}

function apartRow(decision) {
  return make("li", {},
    make("span", { class: "kind apart" }, "apart"), " ", ...placed(decision.kernel, decision.place), " from ",
    make("button", { class: "place", onclick: () => go({ view: "kernels", run: decision.other_run }) }, nameOfDispatch(decision.other_run)), " ",
    ...placed(decision.other, decision.other_place), make("div", { class: "faint" }, decision.reason));
}

/** Fills a pane with a diff. */
function difference(pane, html) {
  const signs = html.split("\n").map((line) => line.replace(/<[^>]*>/g, "")[0]);
  fill(pane, html, (line) => ({ "+": "inserted", "-": "deleted" })[signs[line]] ?? "");
}
