/* Code: Python beside a level or a kernel. */

/** What the right pane shows: a level, or a kernel's code. */
function target() {
  const shown = state.kernel >= 0 ? facts.kernels[state.kernel] : facts.levels[state.level];
  if (!shown) return { owner: { html: "" }, html: "", lines: () => [], at: () => [] };
  const { places, lines } = shown.links;
  return { owner: shown, html: shown.html, lines: (place) => lines.get(key(place)) ?? [], at: (line) => places[line] ?? [] };
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
  const line = make("div", { class: "line", id: "line" });
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
    make("div", { class: "pane" }, make("div", { class: "bar" }, files, note), left, line),
    make("div", { class: "pane" }, make("div", { class: "bar" }, levels, kernels), right),
  );
  const file = facts.files[state.file];
  const computed = new Set(facts.levels.flatMap((level) => [...level.links.lines.keys()]));
  fill(left, file ? file.html || "the source can't be read, or is longer than a report holds" : "no source is known", (line) => (computed.has(`${state.file}:${line + 1}`) ? "linked" : ""));
  lightsUp(right, shown.owner);
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
    line.replaceChildren(...aboutLine(place));
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

/* The values of a line: how to have them printed, and those of a file that `tg replay --json` has written. */

/** Whether a line of a replay, by its whole path, is a line of the source. */
const isOf = (named, place) => named.replaceAll("\\", "/").endsWith(`/${nameOf(place)}`) || named === nameOf(place);

/** What is said of a line: the command that prints its values, and the values if they have been opened. */
function aboutLine(place) {
  const command = `tg replay ${facts.script || "FILE.py"} --batch BATCH.npz --at ${nameOf(place)}`;
  const open = make("input", { type: "file", id: "replay", accept: ".json", hidden: "", onchange: async () => {
    try {
      state.values = JSON.parse(await open.files[0].text()).values ?? [];
    } catch (error) {
      state.values = [];
      $("#note").textContent = `${open.files[0].name} is not what tg replay --json prints: ${error.message}`;
    }
    show();
  } });
  const pick = make("button", { class: "place", title: "A file that tg replay --json has printed", onclick: () => open.click() }, "Open values");
  const rows = [make("p", {}, "Its values: ", make("code", {}, command), " ", pick, open)];
  if (!state.values) return rows;
  const mine = state.values.filter((value) => isOf(value.line, place));
  const cells = (value) => [value.op, value.phase, value.module, `${value.dtype}[${value.shape.join(", ")}]`, value.least, value.mean, value.most, value.nans + value.infinities || ""];
  const shown = (cell) => (typeof cell === "number" ? String(Number(cell.toPrecision(4))) : String(cell ?? ""));
  if (mine.length) {
    rows.push(make("table", { id: "values", class: "wide" },
      make("thead", {}, make("tr", {}, ...["op", "phase", "module", "type", "least", "mean", "most", "not finite"].map((name, at) => make("th", { class: at > 3 ? "number" : null }, name)))),
      make("tbody", {}, ...mine.map((value) => make("tr", {}, ...cells(value).map((cell, at) => make("td", { class: at > 3 ? "number" : null }, shown(cell))))))));
  } else rows.push(make("p", { class: "faint" }, `None of the ${count(state.values.length)} values in the file is of this line.`));
  return rows;
}
