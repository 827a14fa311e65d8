// What a drawing is as an image of the data set: 8 by 8 pixels, made of 32 by 32 dots of black ink.

const DOTS = 32;
const PIXELS = 8;
/** The height and the width that digits fill, in dots. */
const HEIGHT = 27;
const WIDTH = 20;
/** How many dots of the 1,024 are black in most digits of the data set, and how far the pen may reach to get there. */
const INK = 310;
const REACH = [1.8, 3.5];

/** The distance of a place from the line between two others. */
function distance([x, y], [fromX, fromY], [toX, toY]) {
  const [dx, dy] = [toX - fromX, toY - fromY];
  const along = ((x - fromX) * dx + (y - fromY) * dy) / (dx * dx + dy * dy || 1);
  const share = Math.min(Math.max(along, 0), 1);
  return Math.hypot(x - fromX - share * dx, y - fromY - share * dy);
}

/** Strokes, moved to the middle and as large as digits of the data set, in dots. */
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
 * Returns how much ink is in each of the 64 pixels, from 0 to 1.
 *
 * @param strokes Lists of places `[x, y]`; at least one.
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
