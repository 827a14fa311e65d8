// Trains on random pixels of a picture, and shows the network's version of it.

import { drawn, element, on, open, say } from "./common.js";
import { readArrays } from "./tensorgrad.js";

const CHANNELS = 3;
/** The picture to learn: red, green and blue of each pixel, from 0 to 1. */
let colors;

/** Paints a picture of `side` by `side` pixels on a canvas. */
function paint(canvas, side, values) {
  const image = new ImageData(side, side);
  for (let pixel = 0; pixel < side * side; pixel++) {
    for (let channel = 0; channel < CHANNELS; channel++) {
      image.data[4 * pixel + channel] = 255 * values[CHANNELS * pixel + channel];
    }
    image.data[4 * pixel + 3] = 255;
  }
  canvas.width = canvas.height = side;
  canvas.getContext("2d").putImageData(image, 0, 0);
}

/** Returns the colors of an image file, cropped to a square and scaled to `side` by `side` pixels. */
async function colorsOf(file, side) {
  const bitmap = await createImageBitmap(file).catch(() => {
    throw new Error(`${file.name} is not a picture that this browser can read.`);
  });
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = side;
  const context = canvas.getContext("2d");
  const extent = Math.min(bitmap.width, bitmap.height);
  const [left, top] = [(bitmap.width - extent) / 2, (bitmap.height - extent) / 2];
  context.imageSmoothingQuality = "high";
  context.drawImage(bitmap, left, top, extent, extent, 0, 0, side, side);
  const { data } = context.getImageData(0, 0, side, side);
  return Float32Array.from({ length: CHANNELS * side * side }, (_, index) => {
    return data[4 * Math.floor(index / CHANNELS) + (index % CHANNELS)] / 255;
  });
}

await open(async (training) => {
  const [size] = training.inputs.places.shape;
  const field = await training.attach("field.tg");
  const side = Math.sqrt(field.inputs.places.shape[0]);
  const { pixels } = await readArrays("picture.safetensors");
  colors = Float32Array.from(pixels.data, (value) => value / 255);

  /** Returns the coordinate of a pixel's center when the view is zoomed in on the picture's center. */
  const middle = (place, zoom) => 0.5 + ((place + 0.5) / side - 0.5) / zoom;

  function batch() {
    const places = new Float32Array(2 * size);
    const wanted = new Float32Array(CHANNELS * size);
    for (let index = 0; index < size; index++) {
      const pixel = drawn(side * side);
      places.set([middle(Math.floor(pixel / side), 1), middle(pixel % side, 1)], 2 * index);
      wanted.set(colors.subarray(CHANNELS * pixel, CHANNELS * (pixel + 1)), CHANNELS * index);
    }
    return { places, colors: wanted };
  }

  const zoom = () => Number(element("zoom").value);

  function showTarget() {
    const nearest = (place) => Math.floor(middle(place, zoom()) * side);
    const shown = new Float32Array(colors.length);
    for (let pixel = 0; pixel < side * side; pixel++) {
      const from = CHANNELS * (nearest(Math.floor(pixel / side)) * side + nearest(pixel % side));
      shown.set(colors.subarray(from, from + CHANNELS), CHANNELS * pixel);
    }
    paint(element("target"), side, shown);
  }

  async function show() {
    const places = Float32Array.from({ length: 2 * side * side }, (_, index) => {
      const pixel = index >> 1;
      return middle(index % 2 ? pixel % side : Math.floor(pixel / side), zoom());
    });
    paint(element("field"), side, await field.call({ places }).read());
  }

  async function choose(file) {
    if (!file) return;
    colors = await colorsOf(file, side);
    element("target").setAttribute("aria-label", `The picture: ${file.name}`);
    showTarget();
    say(`Training on ${file.name} from the next step on.`);
  }

  on("file", "change", ({ target }) => choose(target.files[0]));
  on("zoom", "input", async () => {
    element("zoom-value").textContent = `${zoom()} ×`;
    showTarget();
    await show();
  });
  on("pictures", "dragover", (event) => {
    event.preventDefault();
    element("pictures").classList.add("over");
  });
  on("pictures", "dragleave", () => element("pictures").classList.remove("over"));
  on("pictures", "drop", async (event) => {
    event.preventDefault();
    element("pictures").classList.remove("over");
    await choose(event.dataTransfer.files[0]);
  });
  showTarget();
  return { batch, show };
});
