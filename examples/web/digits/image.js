// Converts a drawing to the data set's format: 8 by 8 pixels, each the share of black among 4 by 4 dots.

const DOTS = 32;
const PIXELS = 8;
/** The maximum height and width of a digit, in dots. */
const HEIGHT = 27;
const WIDTH = 20;
/** How many of the 1,024 dots are black in typical digits of the data set, and the range of pen radii to reach that. */
const INK = 310;
const REACH = [1.8, 3.5];

/** Returns the distance of a point from the line segment between two others. */
function distance([x, y], [fromX, fromY], [toX, toY]) {
  const [dx, dy] = [toX - fromX, toY - fromY];
  const along = ((x - fromX) * dx + (y - fromY) * dy) / (dx * dx + dy * dy || 1);
  const share = Math.min(Math.max(along, 0), 1);
  return Math.hypot(x - fromX - share * dx, y - fromY - share * dy);
}

/** Returns the strokes centered and scaled to the size of the data set's digits, in dots. */
function fitted(strokes) {
  const extents = [0, 1].map((axis) => {
    const places = strokes.flat().map((place) => place[axis]);
    return [Math.min(...places), Math.max(...places)];
  });
  const [width, height] = extents.map(([least, most]) => most - least);
  const scale = Math.min(HEIGHT / height, WIDTH / width, 4 * DOTS);
  const fit = (place) =>
    place.map((value, axis) => DOTS / 2 + scale * (value - (extents[axis][0] + extents[axis][1]) / 2));
  return strokes.map((stroke) => stroke.map(fit));
}

/**
 * Returns the share of ink in each of the 64 pixels, from 0 to 1.
 *
 * @param strokes Lists of points `[x, y]`; at least one.
 */
export function imageOf(strokes) {
  const lines = fitted(strokes).flatMap((stroke) =>
    stroke.map((place, index) => [stroke[Math.max(index - 1, 0)], place]),
  );
  const distances = Float32Array.from({ length: DOTS * DOTS }, (_, dot) => {
    const place = [(dot % DOTS) + 0.5, Math.floor(dot / DOTS) + 0.5];
    return Math.min(...lines.map(([from, to]) => distance(place, from, to)));
  });
  const reach = Math.min(Math.max(distances.slice().sort()[INK], REACH[0]), REACH[1]);
  const image = new Float32Array(PIXELS * PIXELS);
  const side = DOTS / PIXELS;
  distances.forEach((away, dot) => {
    const pixel = Math.floor(dot / DOTS / side) * PIXELS + Math.floor((dot % DOTS) / side);
    if (away <= reach) image[pixel] += 1 / (side * side);
  });
  return image;
}
