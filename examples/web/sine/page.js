// Trains on random points of a curve, and plots the curve and the network's fit.

import { element, on, open, say } from "./common.js";

const CURVES = {
  sine: Math.sin,
  two: (x) => 0.7 * Math.sin(x) + 0.5 * Math.sin(4 * x),
  square: (x) => (Math.sin(2 * x) < 0 ? -1 : 1),
  saw: (x) => ((((x / Math.PI) % 1) + 1) % 1) * 2 - 1,
};
let curve = CURVES.sine;

const pathOf = (places, values) =>
  `M${Array.from(places, (x, index) => `${x.toFixed(3)} ${(-values[index]).toFixed(3)}`).join("L")}`;

await open(async (training) => {
  const [size] = training.inputs.x.shape;
  const fit = await training.attach("fit.tg");
  const [count] = fit.inputs.x.shape;
  const places = Float32Array.from({ length: count }, (_, index) => Math.PI * ((2 * index) / (count - 1) - 1));

  function batch() {
    const x = Float32Array.from({ length: size }, () => Math.PI * (2 * Math.random() - 1));
    return { x, y: x.map(curve) };
  }

  async function show() {
    const values = await fit.call({ x: places }).read();
    element("fit").setAttribute("d", pathOf(places, values));
    const furthest = Math.max(...values.map((value, index) => Math.abs(value - curve(places[index]))));
    const words = `The curve and the network's fit: at most ${furthest.toFixed(2)} apart`;
    element("plot").setAttribute("aria-label", words);
  }

  const showCurve = () => element("target").setAttribute("d", pathOf(places, places.map(curve)));
  on("curve-name", "change", ({ target }) => {
    curve = CURVES[target.value];
    showCurve();
    say(`Curve: ${target.selectedOptions[0].label}.`);
  });
  showCurve();
  return { batch, show };
});
