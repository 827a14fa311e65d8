/** Random keys that the host makes for each step: Threefry-2x32, with the same bits as `tg.random`. */

/** Two 32-bit words. */
export type Key = readonly [number, number];

const ROTATIONS = [
  [13, 15, 26, 6],
  [17, 29, 16, 24],
] as const;
const PARITY = 0x1bd11bda;

/**
 * Returns a new key from a key and a number, of which only the low 32 bits count; see `tg.random.fold_in`.
 *
 * Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
 */
export function foldIn(key: Key, data: number): Key {
  const schedule = [key[0], key[1], key[0] ^ key[1] ^ PARITY] as const;
  const word = (index: number): number => schedule[(index % 3) as 0 | 1 | 2];
  let x = key[0] | 0;
  let y = (data + key[1]) | 0;
  for (let group = 0; group < 5; group++) {
    for (const rotation of ROTATIONS[(group % 2) as 0 | 1]) {
      x = (x + y) | 0;
      y = ((y << rotation) | (y >>> (32 - rotation))) ^ x;
    }
    x = (x + word(group + 1)) | 0;
    y = (y + word(group + 2) + group + 1) | 0;
  }
  return [x >>> 0, y >>> 0];
}
