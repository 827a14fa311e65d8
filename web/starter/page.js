// A page to start from: it trains on the folder's example data, and calls the functions.

import {
  Device,
  Inference,
  NoAdapterError,
  TextGenerator,
  Training,
  download,
  read,
  readArrays,
  store,
  stored,
} from "./tensorgrad.js";

const CHECKPOINT = `${new URL(".", location).pathname} training.tg`.replaceAll("/", "_");
const STEPS_AHEAD = 16;
const MOST_SHOWN = 1000;
const MOST_ROWS = 10;
const MOST_COLUMNS = 20;
const NO_WEBGPU =
  "This page computes on your own graphics card, by WebGPU, and this browser doesn't offer it here. A current Chrome, " +
  "Edge, Firefox or Safari does: from https:// or localhost, with hardware acceleration turned on.";

const element = (id) => document.getElementById(id);
const say = (text) => (element("status").textContent = text);
const short = (number) => String(Number(number.toPrecision(4)));
const losses = [];
/** The contents of folder.json. */
let folder = null;
let training = null;

/** Returns made-up inputs: normally distributed floats, and zeros for other dtypes. */
function invented(inputs) {
  const normal = () => Math.sqrt(-2 * Math.log(1 - Math.random())) * Math.cos(2 * Math.PI * Math.random());
  const value = ({ shape, dtype }) => {
    const count = shape.reduce((product, extent) => product * extent, 1);
    return dtype.startsWith("f") ? Float32Array.from({ length: count }, normal) : new Uint8Array(count);
  };
  return Object.fromEntries(Object.entries(inputs).map(([name, input]) => [name, value(input)]));
}

/** Returns the example's arrays whose shapes match, and made-up ones for other inputs. */
function chosen(example, inputs) {
  const fits = ([name, { shape }]) => example?.[name]?.shape.join() === shape.join();
  const given = Object.entries(inputs).filter(fits);
  return { ...invented(inputs), ...Object.fromEntries(given.map(([name]) => [name, example[name]])) };
}

/** Returns the loss of a step's results, which are the loss, or the loss and its metrics. */
const lossOf = (result) => (Array.isArray(result) ? result[0] : result);

/** Adds an element with a text to another one. */
function add(parent, tag, text = "") {
  const node = parent.appendChild(document.createElement(tag));
  node.textContent = text;
  return node;
}

/** Lists inputs with their types, and where their values are from. */
function describe(list, inputs, example) {
  for (const [name, { shape, dtype }] of Object.entries(inputs)) {
    const isGiven = example?.[name]?.shape.join() === shape.join();
    add(list, "dt", name);
    add(list, "dd", `${dtype} [${shape.join(", ")}], ${isGiven ? "from the example" : "made up"}`);
  }
}

/** Returns the indices along axes of these extents of an element's position in row-major order. */
function indicesOf(position, shape) {
  const places = [];
  for (const extent of [...shape].reverse()) {
    places.unshift(position % extent);
    position = Math.floor(position / extent);
  }
  return places.join(", ");
}

/** Shows a value as a table: a column for each index of its last axis, by the classes' names if there are as many. */
function showTable(parent, name, { shape, dtype, data }) {
  const columns = shape.at(-1) ?? 1;
  const rows = data.length / columns;
  const classes = folder.labels?.length === columns ? folder.labels : null;
  const shown = Array.from({ length: Math.min(columns, MOST_COLUMNS) }, (_, column) => column);
  const table = add(parent, "table");
  const bold = classes ? "; the largest of each row is bold" : "";
  add(table, "caption", `${name}: ${shape.length ? `${dtype} [${shape.join(", ")}]` : "a number"}${bold}`);
  const head = add(add(table, "thead"), "tr");
  if (rows > 1) add(head, "th", "row");
  if (shape.length) shown.forEach((column) => (add(head, "th", classes?.[column] ?? column).scope = "col"));
  const body = add(table, "tbody");
  for (let row = 0; row < Math.min(rows, MOST_ROWS); row++) {
    const line = add(body, "tr");
    const numbers = Array.from(data.slice(row * columns, (row + 1) * columns));
    const largest = classes ? numbers.indexOf(Math.max(...numbers)) : -1;
    if (rows > 1) add(line, "th", indicesOf(row, shape.slice(0, -1))).scope = "row";
    shown.forEach((column) => {
      add(line, column === largest ? "th" : "td", numbers[column] === null ? "not finite" : short(numbers[column]));
    });
  }
  if (rows > MOST_ROWS || columns > MOST_COLUMNS) add(parent, "p", `${rows} rows of ${columns} in all`);
}

/** Shows results as tables, each with the path of its value. */
function showResults(parent, results, path = "") {
  if (results === null) return;
  if (typeof results === "number") showTable(parent, path || "result", { shape: [], dtype: "number", data: [results] });
  else if (results.data && results.shape) showTable(parent, path || "result", results);
  else for (const [key, part] of Object.entries(results)) showResults(parent, part, path ? `${path}.${key}` : key);
}

function draw() {
  const [least, most] = [Math.min(...losses), Math.max(...losses)];
  const x = (index) => (400 * index) / Math.max(losses.length - 1, 1);
  const y = (loss) => 115 - (110 * (loss - least)) / (most - least || 1);
  const points = losses.map((loss, index) => `${x(index)},${y(loss)}`).join(" ");
  element("curve").firstElementChild.setAttribute("points", points);
  const count = training.stepCount;
  const labels = { most, least, first: count - losses.length + 1, last: count };
  for (const [id, value] of Object.entries(labels)) element(id).textContent = losses.length ? short(value) : "";
  element("step").textContent = count;
  element("loss").textContent = losses.length ? losses.at(-1).toPrecision(6) : "–";
}

async function train(inputs) {
  let left = Number(element("count").value);
  while (left > 0) {
    const steps = Math.min(left, STEPS_AHEAD);
    losses.push(...(await training.run(steps, inputs)).map(lossOf));
    losses.splice(0, losses.length - MOST_SHOWN);
    left -= steps;
    draw();
  }
  say(`${training.stepCount} steps have run.`);
}

/** Runs an action when a button is clicked, and shows its error if it fails. */
function onClick(id, act) {
  element(id).addEventListener("click", async (event) => {
    event.target.disabled = true;
    try {
      await act();
    } catch (error) {
      say(`${error.name}: ${error.message}`);
    } finally {
      event.target.disabled = false;
    }
  });
}

function showTraining(example) {
  const inputs = chosen(example, training.inputs);
  describe(element("inputs-training"), training.inputs, example);
  onClick("train", () => train(inputs));
  onClick("keep", async () => {
    await store(CHECKPOINT, await training.save());
    say(`Step ${training.stepCount} is kept in this browser.`);
  });
  onClick("restore", async () => {
    const kept = await stored(CHECKPOINT);
    if (kept) await training.restore(kept);
    if (kept) losses.length = 0;
    say(kept ? `Resumed from step ${training.stepCount}.` : "No checkpoint is kept in this browser.");
    draw();
  });
  onClick("download", async () => download("training.tg", await training.save()));
  training.lost.then((error) => say(`${error.name}: ${error.message}`));
  element("training").hidden = false;
  draw();
}

function showFunction(name, called, example) {
  const section = add(element("functions"), "section");
  add(section, "h2", name);
  describe(add(section, "dl"), called.inputs, example);
  const button = add(section, "button", "Call");
  button.id = `call-${name}`;
  const tables = add(section, "div");
  tables.className = "results";
  const details = add(section, "details");
  details.hidden = true;
  add(details, "summary", "All numbers, as JSON");
  const shown = add(details, "pre");
  shown.id = `result-${name}`;
  const plain = (key, value) => (ArrayBuffer.isView(value) ? Array.from(value) : value);
  onClick(button.id, async () => {
    const result = await read(called.call(chosen(example, called.inputs)));
    tables.replaceChildren();
    showResults(tables, result);
    shown.textContent = JSON.stringify(result, plain, 1);
    details.hidden = false;
  });
}

/** Returns the tokens of a text: numbers, or by the vocabulary the longest that fits at each place. */
function tokensOf(text) {
  if (!folder.labels)
    return text
      .split(/[\s,]+/)
      .filter(Boolean)
      .map(Number);
  const numbers = new Map(folder.labels.map((label, token) => [label, token]));
  const longest = Math.max(...folder.labels.map((label) => label.length));
  const tokens = [];
  for (let place = 0; place < text.length;) {
    let end = Math.min(text.length, place + longest);
    while (end > place && !numbers.has(text.slice(place, end))) end--;
    if (end === place) throw new Error(`the vocabulary has nothing for "${text.slice(place, place + 10)}"`);
    tokens.push(numbers.get(text.slice(place, end)));
    place = end;
  }
  return tokens;
}

/** Adds a labeled field to a form. */
function field(form, label, tag, properties) {
  const line = add(add(form, "p"), "label", `${label} `);
  return Object.assign(line.appendChild(document.createElement(tag)), properties);
}

function showGenerator(name, generator) {
  const section = add(element("functions"), "section");
  add(section, "h2", name);
  const words = folder.labels?.length === generator.vocabulary;
  const start = words ? folder.labels[0] : "0";
  const prompt = field(section, words ? "Text" : "Tokens", "textarea", { id: `prompt-${name}`, rows: 3, value: start });
  const most = Math.min(64, generator.capacity - 1);
  const count = field(section, "New tokens", "input", { type: "number", min: 1, max: generator.capacity, value: most });
  const number = { type: "number", min: 0, step: "any" };
  const temperature = field(section, "Temperature", "input", { ...number, value: 0 });
  const seed = field(section, "Seed", "input", { type: "number", value: 0 });
  const button = add(section, "button", "Generate");
  button.id = `generate-${name}`;
  const shown = add(section, "pre");
  shown.id = `text-${name}`;
  onClick(button.id, async () => {
    const [maxNewTokens, heat, start] = [count, temperature, seed].map(({ value }) => Number(value));
    const stream = generator.stream(tokensOf(prompt.value), { maxNewTokens, temperature: heat, seed: start });
    shown.textContent = prompt.value;
    let tokens = 0;
    const begin = performance.now();
    for await (const token of stream) {
      shown.textContent += words ? folder.labels[token] : ` ${token}`;
      tokens++;
    }
    say(`${tokens} tokens in ${short((performance.now() - begin) / 1000)} seconds.`);
  });
}

/** Shows what Python computed for the example, where the page can't compute. */
function showRecorded() {
  const recorded = Object.entries(folder.recorded ?? {});
  const what = "These results are a recording: Python computed them from the example when it wrote this page.";
  say(recorded.length ? `${NO_WEBGPU} ${what}` : NO_WEBGPU);
  for (const [name, results] of recorded) {
    const section = add(element("functions"), "section");
    section.className = "results";
    add(section, "h2", name);
    showResults(section, results);
  }
}

/** Shows how much of a file has been loaded; after the last byte, kernels are compiled. */
function onProgress({ file, loaded, total }) {
  const bar = element("progress");
  if (total && loaded < total) bar.value = loaded / total;
  else bar.removeAttribute("value");
  const kilobytes = (bytes) => `${Math.ceil(bytes / 1000)} KB`;
  element("loading").hidden = false;
  element("amount").textContent = total ? `${kilobytes(loaded)} of ${kilobytes(total)}` : kilobytes(loaded);
  // The status is announced by screen readers, so it is set once for each file.
  if (loaded === 0) say(`Loading ${file}…`);
  if (loaded === total) say(`Compiling ${file} for this graphics card…`);
}

try {
  folder = await (await fetch("folder.json")).json();
  document.title = element("title").textContent = folder.name;
  const device = await Device.request();
  const example = folder.example && (await readArrays(folder.example, { onProgress }));
  if (folder.training) {
    training = await Training.load(folder.training, { device, onProgress });
    showTraining(example);
  }
  for (const [name, file] of Object.entries(folder.functions)) {
    const loading = training ? training.attach(file, { onProgress }) : Inference.load(file, { device, onProgress });
    showFunction(name, await loading, example);
  }
  for (const [name, file] of Object.entries(folder.generators))
    showGenerator(name, await TextGenerator.load(file, { device, onProgress }));
  const what = example ? "an example" : "invented numbers: export with an example to train on it";
  say(`Ready, with ${what}.`);
} catch (error) {
  if (error instanceof NoAdapterError && folder) showRecorded();
  else say(`${error.name}: ${error.message}`);
} finally {
  element("loading").hidden = true;
}
