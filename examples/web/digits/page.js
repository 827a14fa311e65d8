// Classifies the visitor's drawing, and trains on the data set's digits and on labeled drawings of the visitor.

import { colorOf, drawn, element, on, onTheme, open, say } from "./common.js";
import { imageOf } from "./image.js";
import { pad } from "./pad.js";
import { readArrays } from "./tensorgrad.js";

/** The number of steps after a drawing is labeled, and the maximum share of labeled drawings in a batch. */
const STEPS_FOR_ONE = 12;
const MOST_OWN = 1 / 4;
const SIXTEENTHS = 16;
/** The strokes that are there at first. */
const SAMPLE = [[[0.28, 0.25], [0.5, 0.25], [0.72, 0.25], [0.58, 0.55], [0.45, 0.85]]]; // prettier-ignore

const strokes = [];
const own = [];
let isSample = true;
let last = Promise.resolve();
let next = null;

/** Adds a row for each digit, with a bar and a percentage, and a button to label a drawing with it. */
function makeRows() {
  for (let digit = 0; digit < 10; digit++) {
    const row = element("chances").appendChild(document.createElement("li"));
    row.innerHTML = `<span>${digit}</span><span class="bar"><span></span></span><span class="share">–</span>`;
    const button = element("labels").appendChild(document.createElement("button"));
    button.type = "button";
    button.id = `label-${digit}`;
    button.textContent = digit;
  }
}

function showChances(chances) {
  const best = chances ? chances.indexOf(Math.max(...chances)) : -1;
  element("answer").textContent = chances ? best : "";
  [...element("chances").children].forEach((row, digit) => {
    row.querySelector(".bar span").style.width = `${100 * (chances?.[digit] ?? 0)}%`;
    row.querySelector(".share").textContent = chances ? `${Math.round(100 * chances[digit])}%` : "–";
  });
  return best;
}

function showImage(image) {
  const pixels = new ImageData(8, 8);
  image.forEach((ink, pixel) => pixels.data.set([...colorOf("--ink"), 255 * ink], 4 * pixel));
  element("seen").getContext("2d").putImageData(pixels, 0, 0);
}

function addTo(stroke, x, y) {
  stroke.push([x, y]);
  const line = element("strokes").lastElementChild;
  line.setAttribute("points", stroke.length > 1 ? stroke.join(" ") : `${x},${y} ${x},${y}`);
}

function begin() {
  strokes.push([]);
  element("strokes").append(document.createElementNS("http://www.w3.org/2000/svg", "polyline"));
}

function clear() {
  isSample = false;
  strokes.length = 0;
  element("strokes").replaceChildren();
  showImage(new Float32Array(64));
  showChances(null);
}

makeRows();
for (const stroke of SAMPLE) {
  begin();
  for (const place of stroke) addTo(strokes.at(-1), ...place);
}
const trainer = await open(async (training) => {
  const [size] = training.inputs.labels.shape;
  const [read, test] = await Promise.all([training.attach("read.tg"), training.attach("test.tg")]);
  const { images, labels } = await readArrays("digits.safetensors");
  const inks = Float32Array.from(images.data, (ink) => ink / SIXTEENTHS);
  const [unseen] = test.inputs.labels.shape;
  const imageAt = (index) => inks.subarray(64 * index, 64 * (index + 1));
  const judged = { images: inks.subarray(0, 64 * unseen), labels: labels.data.subarray(0, unseen) };

  /** Returns random digits, some of which are the visitor's labeled drawings, if there are any. */
  function batch() {
    const batchImages = new Float32Array(64 * size);
    const batchLabels = new Int32Array(size);
    const ours = Math.min(size * MOST_OWN, 4 * own.length);
    for (let place = 0; place < size; place++) {
      const index = unseen + drawn(labels.data.length - unseen);
      const [image, label] = place < ours ? own[drawn(own.length)] : [imageAt(index), labels.data[index]];
      batchImages.set(image, 64 * place);
      batchLabels[place] = label;
    }
    return { images: batchImages, labels: batchLabels };
  }

  async function lookNow() {
    if (!strokes.length) return null;
    const image = imageOf(strokes);
    showImage(image);
    const chances = await read.call({ images: image }).read();
    return strokes.length ? [showChances(chances), chances] : null;
  }

  /** Classifies the drawing once the previous classification is done; calls until then share one result. */
  function look() {
    next ??= last.then(() => {
      next = null;
      return lookNow();
    });
    last = next.catch(() => null);
    return next;
  }

  async function show() {
    const [share] = await Promise.all([test.call(judged).item(), look()]);
    element("right").textContent = `${Math.round(100 * share)}%`;
  }

  pad(element("area"), {
    down(x, y) {
      if (isSample) clear();
      begin();
      addTo(strokes.at(-1), x, y);
    },
    move(x, y) {
      addTo(strokes.at(-1), x, y);
      return look();
    },
    async up() {
      const found = await look();
      if (found) say(`It reads a ${found[0]}, ${Math.round(100 * found[1][found[0]])}% sure.`);
    },
  });
  on("clear", "click", clear);
  onTheme(look);
  return { batch, show };
});

if (trainer) say("This 7 is a sample: what you draw replaces it.");
for (const button of element("labels").children) {
  on(button.id, "click", async () => {
    if (!strokes.length) return say("Draw a digit first.");
    own.push([imageOf(strokes), Number(button.textContent)]);
    element("own").textContent = `You have taught it ${own.length} ${own.length > 1 ? "drawings" : "drawing"}.`;
    if (!trainer.isOn) await trainer.run(STEPS_FOR_ONE);
    say(`It has learned that this is a ${button.textContent}.`);
  });
}
