/* Search: ops, values, kernels, modules and lines; and where a value is defined and used. */

const MOST_FOUND = 60;

/** The text of a level or a kernel, and of its lines. */
const CHARACTERS = { "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#39;": "'", "&amp;": "&" };
const plain = (html) => html.replace(/<[^>]*>/g, "").replace(/&(?:lt|gt|quot|#39|amp);/g, (text) => CHARACTERS[text]);
const linesOf = (shown) => (shown.text ??= plain(shown.html).split("\n"));

/** What a search finds, the most specific first: of each its kind, its text, and what to show. */
function searched(words) {
  const found = [];
  const has = (text) => words.every((word) => text.toLowerCase().includes(word));
  const add = (kind, text, change) => found.push({ kind, text, change });
  facts.runs.forEach((one, run) => {
    const ops = [...new Set(one.stages.flatMap((stage) => stage.ops))].join(", ");
    if (has(`${nameOfRun(one)} ${one.module} ${one.label} ${ops} ${one.stages.map((stage) => stage.kind).join(" ")}`)) add("dispatch", `${run} ${nameOfRun(one)} ${one.module} ${one.label} ${ops}`, { view: "kernels", run });
  });
  facts.values.forEach((value) => {
    if (value.first >= 0 && has(`${value.name} ${value.type} ${value.role}`)) add("buffer", `${value.name} ${value.type}, ${value.role}`, { view: "kernels", run: value.first });
  });
  facts.files.forEach((file, at) => linesOf(file).forEach((line, number) => {
    if (has(line)) add("Python", `${file.path}:${number + 1} ${line.trim()}`, { view: "code", place: [at, number + 1], file: at });
  }));
  facts.levels.forEach((level, at) => linesOf(level).forEach((line, number) => {
    if (has(line)) add(level.name, `${number + 1} ${line.trim()}`, { view: "code", level: at, kernel: -1, place: level.links.places[number]?.[0] ?? null, chosenLine: number });
  }));
  facts.kernels.forEach((kernel, at) => {
    if (has(kernel.name)) add("kernel", kernel.name, { view: "code", kernel: at });
  });
  return found;
}

/** What is found, in turn of each kind, so that a word of many lines hides nothing else. */
function inTurn(found) {
  const kinds = Map.groupBy ? [...Map.groupBy(found, (one) => one.kind).values()] : Object.values(found.reduce((kinds, one) => ({ ...kinds, [one.kind]: [...(kinds[one.kind] ?? []), one] }), {}));
  const each = Math.max(3, Math.floor(MOST_FOUND / Math.max(1, kinds.length)));
  return kinds.flatMap((kind) => [...kind.slice(0, each), ...(kind.length > each ? [{ kind: "", text: `${count(kind.length - each)} more of ${kind[0].kind}` }] : [])]);
}

/** The box of a search, and the list of what it finds. */
function searchBox() {
  const list = make("div", { id: "found", role: "listbox", hidden: "" });
  const box = make("input", { id: "search", type: "search", placeholder: "Search (/)", "aria-label": "Search ops, values, kernels and lines", autocomplete: "off" });
  let timer = null;
  const close = () => { list.hidden = true; };
  const choose = (one) => { close(); go(one.change); };
  function look() {
    const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length || box.value.trim().length < 2) return close();
    const found = searched(words);
    list.replaceChildren(
      make("p", { class: "faint" }, found.length ? `${count(found.length)} found` : "Nothing is found."),
      ...inTurn(found).map((one) => (one.change
        ? make("button", { role: "option", onclick: () => choose(one) }, make("b", {}, one.kind), ` ${one.text.slice(0, 160)}`)
        : make("p", { class: "faint" }, one.text))));
    list.hidden = false;
  }
  box.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(look, 120); });
  box.addEventListener("focus", look);
  const move = (event, by) => {
    const options = [...list.querySelectorAll("button")];
    options[Math.max(-1, Math.min(options.length - 1, options.indexOf(document.activeElement) + by))]?.focus() ?? box.focus();
    event.preventDefault();
  };
  addEventListener("keydown", (event) => {
    if (event.target !== box && !list.contains(event.target)) return;
    if (event.key === "Escape") { close(); box.blur(); }
    if (event.key === "ArrowDown") move(event, 1);
    if (event.key === "ArrowUp") move(event, -1);
    if (event.key === "Enter" && event.target === box) $("button", list)?.click();
  });
  addEventListener("pointerdown", (event) => { if (event.target !== box && !list.contains(event.target)) close(); });
  return make("div", { class: "search" }, box, list);
}

/* The definition and the uses of a value. */

const NAME = /^%[\w$.-]+(?:#\d+)?$/;

/** Ops whose regions see no value from outside; the head of a function belongs to it, that of a kernel has values from outside. */
const FUNCTION = /^\s*(?:func\.func|llvm\.func|define|fn)\b.*\{$/, KERNEL = /^\s*(?:buf|cpu|wgsl)\.kernel\b.*\{$/;

/** Numbers the part of a text that each line is in, within which a name means one value. */
function scopesOf(lines) {
  const stack = [{ scope: 0, indent: -1 }];
  let scopes = 0;
  return lines.map((line) => {
    const indent = line.length - line.trimStart().length, around = stack.at(-1);
    const isFunction = FUNCTION.test(line);
    if (isFunction || KERNEL.test(line)) stack.push({ scope: ++scopes, indent });
    else if (line.startsWith("}", indent) && indent === around.indent) stack.pop();
    return isFunction ? scopes : around.scope;
  });
}

/** Lights up the value under a pointer in a pane: where it is defined, and where it is used. */
function lightsUp(pane, shown) {
  const name = (target) => (target.matches?.(".nv") && NAME.test(target.textContent) ? target.textContent : null);
  let held = null, lit = [];
  function light(value, line) {
    for (const token of lit) token.classList.remove("value", "defined");
    lit = [];
    if (value === null) return "";
    const lines = linesOf(shown), scopes = (shown.scopes ??= scopesOf(lines));
    let uses = 0, definition = -1;
    for (let at = 0; at < lines.length; at++) {
      if (scopes[at] !== scopes[line] || !lines[at].includes(value)) continue;
      for (const token of row(pane, at)?.querySelectorAll(".nv") ?? []) {
        if (token.textContent !== value) continue;
        const isDefinition = definition < 0;
        if (isDefinition) definition = at;
        else uses++;
        token.classList.add("value");
        token.classList.toggle("defined", isDefinition);
        lit.push(token);
      }
    }
    return definition < 0 ? "" : `${value}: defined in line ${definition + 1}, ${uses === 1 ? "one use" : `${count(uses)} uses`}`;
  }
  const lineOf = (target) => Number(target.closest(".row").dataset.n) - 1;
  pane.addEventListener("mouseover", (event) => {
    const value = name(event.target);
    if (value !== null && held === null) light(value, lineOf(event.target));
  });
  pane.addEventListener("mouseout", (event) => { if (name(event.target) !== null && held === null) light(null); });
  pane.addEventListener("click", (event) => {
    const value = name(event.target);
    held = value === held ? null : value;
    const text = light(held, value === null ? 0 : lineOf(event.target));
    if (text) $("#note").textContent = text;
  });
}
