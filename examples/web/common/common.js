// Shared by the pages of the gallery: a training that runs until it is paused, its loss curve, its checkpoints.

import { NoAdapterError, Training, download, store, stored } from "./tensorgrad.js";

const FILE = "training.tg";
const KEPT = `${location.pathname} ${FILE}`.replaceAll("/", "_");
/** The target time in milliseconds for the steps between two updates of the page. */
const BUDGET = 60;
const MOST_POINTS = 300;
const NO_WEBGPU =
  "This page trains on your own graphics card, by WebGPU, and this browser doesn't offer it here. A current Chrome, " +
  "Edge, Firefox or Safari does: from an address with https:// or from localhost, with hardware acceleration turned on. " +
  "The picture was taken where there is WebGPU.";

const PANEL = `
  <div class="buttons">
    <button id="train" type="button" class="primary">Train</button>
    <button id="reset" type="button">Start over</button>
  </div>
  <p id="status" role="status"></p>
  <dl class="figures">
    <div><dt>Step</dt><dd id="step"></dd></div>
    <div><dt>Loss</dt><dd id="loss"></dd></div>
  </dl>
  <figure id="curve" class="curve" role="img">
    <svg viewBox="0 0 100 100" preserveAspectRatio="none" aria-hidden="true"><polyline /></svg>
    <figcaption><span class="least"></span><span class="most"></span></figcaption>
  </figure>
  <div class="field">
    <label for="rate">Learning rate</label><span id="rate-value"></span>
    <input id="rate" type="range" min="-4" max="-1" step="0.05" />
  </div>
  <div class="checkpoint" role="group" aria-label="Checkpoint">
    <button id="keep" type="button" title="Keep a checkpoint in this browser">Keep</button>
    <button id="restore" type="button" title="Resume from the checkpoint kept in this browser">Restore</button>
    <button id="download" type="button" title="Save a checkpoint as a file, for Python or another page">Download</button>
    <label class="button" title="Resume from a checkpoint in a file">Open<input id="open" type="file" accept=".tg" class="visually-hidden" /></label>
  </div>`;

// The documentation embeds these pages in frames, under its own titles.
document.documentElement.classList.toggle("framed", self !== top);

export const element = (id) => document.getElementById(id);

/** Shows a status message, which screen readers announce: for the visitor's actions, not for every step. */
export function say(text) {
  element("status").textContent = text;
}

/** Formats a number with three significant digits, or two if it is tiny. */
export function short(number) {
  return number !== 0 && Math.abs(number) < 1e-3 ? number.toExponential(1) : Number(number.toPrecision(3)).toString();
}

/** Returns a random integer from 0 to below `end`. */
export const drawn = (end) => Math.floor(Math.random() * end);

/** Returns the red, green and blue of a style sheet's color in the current theme, each from 0 to 255. */
export function colorOf(name) {
  const text = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  return [1, 3, 5].map((place) => parseInt(text.slice(place, place + 2), 16));
}

/** Calls `act` when the page switches between the light and the dark theme. */
export function onTheme(act) {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", act);
}

/** Runs an action when an element receives an event, and shows its error if it fails. */
export function on(id, event, act) {
  element(id).addEventListener(event, async (occurred) => {
    try {
      await act(occurred);
    } catch (error) {
      say(error.message);
    }
  });
}

/** A curve of the loss, whose points are means over several steps if there are many steps. */
class Curve {
  #points = [];
  #stride = 1;
  #sum = 0;
  #count = 0;

  clear() {
    this.#points = [];
    this.#stride = 1;
    this.#sum = this.#count = 0;
    this.draw(0);
  }

  add(loss) {
    this.#sum += loss;
    if (++this.#count < this.#stride) return;
    this.#points.push(this.#sum / this.#count);
    this.#sum = this.#count = 0;
    if (this.#points.length < MOST_POINTS) return;
    const halved = this.#points.filter((_, index) => index % 2 === 0);
    this.#points = halved.map((point, index) => (point + this.#points[2 * index + 1]) / 2);
    this.#stride *= 2;
  }

  /** Draws the logarithm of the loss; with `inWords`, also describes it for screen readers. */
  draw(step, inWords = true) {
    const points = this.#points.filter((loss) => loss > 0);
    const [least, most] = [Math.min(...points), Math.max(...points)];
    const height = Math.log(most / least) || 1;
    const x = (index) => (100 * index) / Math.max(points.length - 1, 1);
    const y = (loss) => 95 - (90 * Math.log(loss / least)) / height;
    const figure = element("curve");
    const line = points.map((loss, index) => `${x(index).toFixed(2)},${y(loss).toFixed(2)}`).join(" ");
    figure.querySelector("polyline").setAttribute("points", line);
    figure.querySelector(".most").textContent = points.length ? `largest ${short(most)}` : "";
    figure.querySelector(".least").textContent = points.length ? `smallest ${short(least)}` : "";
    if (!inWords) return;
    const words = `from ${short(points[0] ?? 0)} to ${short(points.at(-1) ?? 0)}`;
    figure.setAttribute("aria-label", points.length ? `Loss up to step ${step}: ${words}` : "Loss: no step has run yet");
  }
}

/** A training that is controlled by a page's panel. */
class Trainer {
  #curve = new Curve();
  #steps = 1;
  #isOn = false;
  #loop = Promise.resolve();

  constructor(training, batch, show) {
    this.training = training;
    this.batch = batch;
    this.show = show;
    training.lost.then((error) => explain(error));
    on("train", "click", () => (this.#isOn ? this.pause() : this.start()));
    on("reset", "click", () => this.#goOnFrom(FILE, () => "Started over."));
    on("rate", "input", () => training.set({ learning_rate: 10 ** Number(element("rate").value) }) ?? this.#showRate());
    on("keep", "click", async () => {
      await store(KEPT, await training.save());
      say(`Step ${training.stepCount} is kept in this browser.`);
    });
    on("restore", "click", async () => {
      const kept = await stored(KEPT);
      if (!kept) return say("No checkpoint is kept in this browser.");
      await this.#goOnFrom(kept, () => `Resumed from step ${training.stepCount}, kept in this browser.`);
    });
    on("download", "click", async () => download(FILE, await training.save()));
    on("open", "change", async ({ target }) => {
      const [file] = target.files;
      target.value = "";
      await this.#goOnFrom(file, () => `Resumed from step ${training.stepCount} of ${file.name}.`);
    });
    this.#curve.clear();
    this.#showRate();
    this.#showFigures();
  }

  /** Whether it trains until it is paused. */
  get isOn() {
    return this.#isOn;
  }

  /** Trains until `pause`. */
  start() {
    this.#isOn = true;
    element("train").textContent = "Pause";
    say("Training …");
    this.#loop = this.#run().catch((error) => this.#ended(error.message));
  }

  /** Stops, and waits for the steps that are in flight. */
  async pause() {
    if (!this.#isOn) return;
    this.#isOn = false;
    await this.#loop;
  }

  /** Runs some steps, and shows their results. */
  async run(steps) {
    for (const loss of await this.training.run(steps, this.batch)) {
      this.#curve.add(loss);
      this.#showFigures(loss);
    }
    this.#curve.draw(this.training.stepCount, !this.#isOn);
    await this.show();
  }

  async #run() {
    while (this.#isOn) {
      const begin = performance.now();
      await this.run(this.#steps);
      const took = performance.now() - begin;
      this.#steps = Math.max(1, Math.min(64, Math.round((this.#steps * BUDGET) / took), 2 * this.#steps));
      await new Promise(requestAnimationFrame); // pauses while the page is hidden
    }
    this.#ended(`Paused after ${this.training.stepCount} steps.`);
  }

  #ended(text) {
    this.#isOn = false;
    element("train").textContent = "Train";
    this.#curve.draw(this.training.stepCount);
    say(text);
  }

  async #goOnFrom(source, text) {
    await this.pause();
    await this.training.restore(source);
    this.#curve.clear();
    this.#showRate();
    this.#showFigures();
    await this.show();
    say(text());
  }

  #showRate() {
    const { learning_rate: rate } = this.training.settings;
    element("rate").value = Math.log10(rate);
    element("rate-value").textContent = short(rate);
    element("rate").setAttribute("aria-valuetext", short(rate));
  }

  #showFigures(loss) {
    element("step").textContent = this.training.stepCount;
    element("loss").textContent = loss === undefined ? "–" : short(loss);
  }
}

/** Shows a message instead of the page's controls. */
function notice(text) {
  element("live").hidden = true;
  element("notice").hidden = false;
  element("notice").textContent = text;
}

/** Shows why the page can't run. */
function explain(error) {
  if (!(error instanceof NoAdapterError)) return notice(`${error.name}: ${error.message}`);
  notice(NO_WEBGPU);
  const picture = element("notice").appendChild(new Image());
  picture.alt = `${document.title}, in a browser with WebGPU`;
  picture.src = "picture.jpg";
}

/**
 * Loads the training in this folder, and fills the page's panel; shows why if it can't.
 *
 * @param setUp Takes the training; returns `batch(index)`, which returns a step's inputs, and `show()`, which draws the
 *   current state of the training.
 * @returns The trainer, or `null` if loading failed.
 */
export async function open(setUp) {
  try {
    notice("Loading, and compiling for this graphics card …");
    element("panel").innerHTML = PANEL;
    const training = await Training.load(FILE);
    const { batch, show } = await setUp(training);
    const trainer = new Trainer(training, batch, show);
    await show();
    element("notice").hidden = true;
    element("live").hidden = false;
    return trainer;
  } catch (error) {
    explain(error);
    return null;
  }
}
