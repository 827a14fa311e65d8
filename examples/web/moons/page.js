// Trains on random samples of the points, and shows the network's classification of the plane behind them.

import { colorOf, drawn, element, on, onTheme, open, say } from "./common.js";
import { pad } from "./pad.js";
import { readArrays } from "./tensorgrad.js";

/** Coordinates go from -HALF to HALF on both axes. */
const HALF = 1.25;
const SIZE = 0.035;
const KINDS = ["circle", "square"];
const points = [];

function mark({ x, y, kind }) {
  const shape = document.createElementNS("http://www.w3.org/2000/svg", kind ? "rect" : "circle");
  const side = 1.8 * SIZE;
  const place = kind ? { x: x - side / 2, y: y - side / 2, width: side, height: side } : { cx: x, cy: y, r: SIZE };
  for (const [name, value] of Object.entries(place)) shape.setAttribute(name, value);
  element("points").append(shape);
}

function put(point) {
  points.push(point);
  mark(point);
}

/** Paints probabilities of the second class in the likelier class's color, fainter where the network is less sure. */
function paint(chances, cells) {
  const colors = [colorOf("--accent"), colorOf("--other")];
  const image = new ImageData(cells, cells);
  chances.forEach((chance, cell) => {
    image.data.set([...colors[+(chance > 0.5)], 255 * 0.4 * Math.abs(2 * chance - 1)], 4 * cell);
  });
  const canvas = element("field");
  canvas.width = canvas.height = cells;
  canvas.getContext("2d").putImageData(image, 0, 0);
}

await open(async (training) => {
  const [size] = training.inputs.kinds.shape;
  const chance = await training.attach("chance.tg");
  const clouds = await readArrays("clouds.safetensors");
  const cells = Math.sqrt(chance.inputs.points.shape[0]);
  const middle = (cell) => HALF * ((2 * cell + 1) / cells - 1);
  const grid = Float32Array.from({ length: 2 * cells * cells }, (_, index) => {
    const cell = index >> 1;
    return middle(index % 2 ? Math.floor(cell / cells) : cell % cells);
  });

  function batch() {
    const chosen = Array.from({ length: size }, () => points[drawn(points.length)]);
    return { points: chosen.map(({ x, y }) => [x, y]), kinds: chosen.map(({ kind }) => kind) };
  }

  async function show() {
    const chances = await chance.call({ points: grid }).read();
    paint(chances, cells);
    const cellOf = (place) => Math.floor(((place / HALF + 1) / 2) * cells * 0.9999);
    const right = points.filter(({ x, y, kind }) => chances[cellOf(y) * cells + cellOf(x)] > 0.5 === (kind === 1));
    element("right").textContent = `${Math.round((100 * right.length) / points.length)}%`;
  }

  function begin(name) {
    points.length = 0;
    element("points").replaceChildren();
    const { data } = clouds[`${name}.points`];
    clouds[`${name}.kinds`].data.forEach((kind, index) => put({ x: data[2 * index], y: -data[2 * index + 1], kind }));
  }

  pad(element("area"), {
    down(x, y) {
      const kind = Number(document.querySelector("input[name=kind]:checked").value);
      put({ x: HALF * (2 * x - 1), y: HALF * (2 * y - 1), kind });
      say(`Added a ${KINDS[kind]}: ${points.length} points.`);
    },
  });
  on("cloud", "change", ({ target }) => {
    begin(target.value);
    say(`${target.selectedOptions[0].label}: ${points.length} points.`);
  });
  onTheme(show);
  begin("moons");
  return { batch, show };
});
