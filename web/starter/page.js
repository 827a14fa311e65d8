// A page to start from: it trains on the folder's example data, and calls the functions.

import { Device, Inference, Training, download, read, readArrays, store, stored } from "./tensorgrad.js";

const CHECKPOINT = `${new URL(".", location).pathname} training.tg`.replaceAll("/", "_");
const STEPS_AHEAD = 16;
const MOST_SHOWN = 1000;

const element = (id) => document.getElementById(id);
const say = (text) => (element("status").textContent = text);
const losses = [];
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

function draw() {
  const [least, most] = [Math.min(...losses), Math.max(...losses)];
  const x = (index) => (400 * index) / Math.max(losses.length - 1, 1);
  const y = (loss) => 115 - (110 * (loss - least)) / (most - least || 1);
  const points = losses.map((loss, index) => `${x(index)},${y(loss)}`).join(" ");
  element("curve").firstElementChild.setAttribute("points", points);
  element("step").textContent = training.stepCount;
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
  const section = document.createElement("section");
  const [title, button, shown] = ["h2", "button", "pre"].map((tag) => section.appendChild(document.createElement(tag)));
  title.textContent = name;
  button.id = `call-${name}`;
  button.textContent = "Call";
  shown.id = `result-${name}`;
  element("functions").append(section);
  const plain = (key, value) => (ArrayBuffer.isView(value) ? Array.from(value) : value);
  onClick(button.id, async () => {
    const result = await read(called.call(chosen(example, called.inputs)));
    shown.textContent = JSON.stringify(result, plain, 1);
  });
}

try {
  const folder = await (await fetch("folder.json")).json();
  document.title = element("title").textContent = folder.name;
  const example = folder.example && (await readArrays(folder.example));
  if (folder.training) {
    training = await Training.load(folder.training);
    showTraining(example);
  }
  const device = training ? null : await Device.request();
  for (const [name, file] of Object.entries(folder.functions)) {
    showFunction(name, training ? await training.attach(file) : await Inference.load(file, device), example);
  }
  const what = example ? "an example" : "invented numbers: export with an example to train on it";
  say(`Ready, with ${what}.`);
} catch (error) {
  say(`${error.name}: ${error.message}`);
}
