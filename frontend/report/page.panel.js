/* What is said of a dispatch: what it computes, how, and what that costs. */

const buttonOfPlace = (place) =>
  make("button", { class: "place", onclick: () => go({ view: "code", place, file: place[0] }) }, nameOf(place));
const signed = (number) => (number >= 100 ? number.toFixed(0) : number.toPrecision(3));
const large = (number) => ["", "k", "M", "G", "T"].reduce((text, unit, at) => (number >= 1000 ** at ? `${signed(number / 1000 ** at)} ${unit}` : text), `${number} `);
const micro = (seconds) => (seconds >= 1e-3 ? `${signed(1e3 * seconds)} ms` : `${signed(1e6 * seconds)} \u00b5s`);
const percent = (part) => `${signed(100 * part)}%`;

/** Shows another part of the page. */
function go(change) {
  Object.assign(state, { chosenLine: undefined, place: null }, change);
  show();
}

/** What a dispatch costs at least, by its measured roofline or the machine's model: the parts, and their unit. */
function roofline(run) {
  if (facts.peaks) {
    const [memory, arithmetic] = [run.bytes / facts.peaks.bytes_per_second, run.flops / facts.peaks.flops_per_second];
    return { memory, arithmetic, least: run.times * Math.max(memory, arithmetic), isTime: true };
  }
  const [memory, arithmetic] = run.estimate;
  return { memory, arithmetic, least: run.times * Math.max(memory, arithmetic), isTime: false };
}

const estimated = () => (facts.estimated ??= facts.runs.reduce((sum, run) => sum + roofline(run).least, 0) || 1);
const timed = () => (facts.timed ??= facts.runs.reduce((sum, run) => sum + (run.seconds ?? 0), 0) || 1);

/** A bar of a part of a whole, for a sum that may exceed it. */
function meter(part, label) {
  const bar = make("span", { class: "meter", role: "img", "aria-label": label }, make("span", { style: `width:${Math.min(100, 100 * part)}%` }));
  return make("div", { class: "metered" }, bar, make("span", {}, label));
}

/** The rows on time: measured, or an estimate that is said to be one. */
function costRows(run) {
  const { memory, arithmetic, least, isTime } = roofline(run);
  const bound = memory >= arithmetic ? "memory" : "arithmetic";
  const rows = [];
  if (run.seconds) {
    const [moved, computed] = [run.bytes, run.flops].map((amount) => run.times * amount / run.seconds);
    rows.push(["measured", [meter(run.seconds / timed(), `${micro(run.seconds)}, ${percent(run.seconds / timed())} of the kernels' time`), `${large(moved)}B/s, ${large(computed)}FLOP/s`]]);
    if (isTime) {
      const { bytes_per_second: bytesPeak, flops_per_second: flopsPeak } = facts.peaks;
      rows.push(["roofline", [
        meter(least / run.seconds, `${percent(least / run.seconds)} of what this machine reaches`),
        `at least ${micro(least)}, bound by ${bound}: kernels were measured here at ${large(bytesPeak)}B/s and ${large(flopsPeak)}FLOP/s`,
      ]]);
    }
  } else if (least) {
    rows.push(["estimate", [
      meter(least / estimated(), `${percent(least / estimated())} of the step`),
      `by the machine's model, not measured: bound by ${bound}. A profile of steps gives times.`,
    ]]);
  }
  return rows;
}

function stageRow(stage) {
  return make("li", {},
    make("span", { class: `kind ${stage.kind}` }, stage.kind), ` ${stage.extents.join(" \u00d7 ") || "one point"}: `,
    make("code", {}, stage.ops.join(", ") || "move"), " ",
    make("span", { class: "faint" }, stage.module), " ",
    isNowhere(stage.place) ? null : buttonOfPlace(stage.place));
}

function valueRow(at) {
  const value = facts.values[at];
  return make("li", {}, `${value.name} ${value.type} `, make("span", { class: "faint" }, `${value.role}, ${bytes(value.bytes)}`));
}

/** What was merged into a dispatch, and what was not. */
function fusion(run) {
  const pass = facts.passes.findIndex((one) => one.decisions.length);
  const mine = pass < 0 ? [] : facts.passes[pass].decisions.filter((one) => (one.rule ? one.other_run : one.run) === run);
  if (!mine.length) return "";
  const merged = mine.filter((one) => one.rule).length;
  const text = [merged && `${merged} merges made it`, mine.length > merged && `apart from ${mine.length - merged} readers`].filter(Boolean).join(", ");
  return make("button", { class: "place", onclick: () => go({ view: "passes", pass, run, shown: "all" }) }, text);
}

/** What is said of a dispatch. */
function about(run) {
  if (run < 0) return [make("p", { class: "faint" }, "Choose a dispatch.")];
  const one = facts.runs[run];
  const modules = [...new Set(one.stages.map((stage) => stage.module).filter((name) => name && name !== one.module))];
  const native = one.kernel >= 0 && facts.kernels[one.kernel].language === "llvm";
  const rows = [
    ["module", one.module && [make("b", {}, one.module), modules.length ? `, and ${modules.join(", ")}` : ""]],
    ["from", one.places.length ? one.places.map(buttonOfPlace) : one.label],
    ["computes", one.stages.length && make("ol", { class: "stages" }, ...one.stages.map(stageRow))],
    ["grid", one.stages.length && `${one.grid.join(" \u00d7 ") || "one point"}, as ${native ? `${count(one.workgroups[0])} tasks` : `${one.workgroups.join(" \u00d7 ")} workgroups`}${one.times > 1 ? `, ${count(one.times)} times a step` : ""}`],
    ["fusion", fusion(run)],
    ["schedule", one.schedules.length && one.schedules.map((text) => make("code", { class: "schedule" }, text))],
    ["moves", [`${bytes(one.bytes)}, computes ${large(one.flops)}FLOP`, one.bytes ? `: ${signed(one.flops / one.bytes)} FLOP a byte` : ""]],
    ...costRows(one),
    ["reads", make("ul", {}, ...one.reads.map(valueRow))],
    ["writes", make("ul", {}, ...one.writes.map(valueRow))],
  ];
  const table = make("dl", {});
  for (const [name, found] of rows) if (found && found.length !== 0) table.append(make("dt", {}, name), make("dd", {}, ...[found].flat()));
  return [
    make("h2", {}, `Dispatch ${run}: ${nameOfRun(one)}`),
    one.kernel < 0 ? null : make("p", { class: "bar" },
      make("button", { id: "code", onclick: () => go({ view: "code", kernel: one.kernel }) }, "The kernel's code"),
      make("button", { onclick: () => go({ view: "flow", run }) }, "In the data flow")),
    table,
  ];
}
