/** Draws tokens from logits, on the host: the same tokens as in Python, up to the rounding of logits. */

import { foldIn } from "./keys.js";
import { type Rules } from "./named.js";

const WORDS = 2 ** 32;

/** How tokens are drawn, as in Python's `generate`. */
export interface SamplingOptions {
  /** What logits are divided by before a token is drawn; 0, the default, takes the likeliest. */
  readonly temperature?: number | undefined;
  /** Draws among so many of the likeliest. */
  readonly topK?: number | undefined;
  /** Draws among the likeliest whose probabilities sum up to this. */
  readonly topP?: number | undefined;
  /** The seed of what is drawn, 0 by default. */
  readonly seed?: number | undefined;
}

/** The rules of `SamplingOptions`. */
export const SAMPLING: Rules = {
  temperature: ["a number from 0", (value) => Number.isFinite(value) && (value as number) >= 0],
  topK: ["an integer from 1", (value) => Number.isSafeInteger(value) && (value as number) >= 1],
  topP: ["a number in (0, 1]", (value) => typeof value === "number" && value > 0 && value <= 1],
  seed: ["an integer", Number.isSafeInteger],
};

/**
 * Returns a function that draws a token from logits: the next one of a text.
 *
 * The number that decides is the first word of `fold_in(fold_in(key(seed), step), 0)`, as `tg.random` computes it: the
 * token is the first whose weight, added to those before it, exceeds that part of their sum. With `topK` or `topP`
 * tokens are in the order of their weights, the first of equals first, and otherwise in their own.
 *
 * @param options Those that `SAMPLING` accepts.
 */
export function sampler(options: SamplingOptions): (logits: Float32Array) => number {
  const { temperature = 0, topK, topP, seed = 0 } = options;
  const key = [Math.floor(seed / WORDS) >>> 0, seed >>> 0] as const;
  let step = 0;
  return (logits) => {
    if (!temperature) return likeliest(logits);
    const place = foldIn(foldIn(key, step++), 0)[0] / WORDS;
    const scaled = new Float64Array(logits.length);
    for (let token = 0; token < scaled.length; token++) scaled[token] = (logits[token] as number) / temperature;
    const isSorted = topK !== undefined || topP !== undefined;
    const ranked = isSorted ? scaled.slice().sort().reverse() : scaled;
    const largest = ranked[isSorted ? 0 : likeliest(scaled)] as number;
    const sums = new Float64Array(Math.min(topK ?? Infinity, ranked.length));
    let sum = 0;
    for (let rank = 0; rank < sums.length; rank++) sums[rank] = sum += Math.exp((ranked[rank] as number) - largest);
    const last =
      topP === undefined ? sums.length - 1 : first(sums, (partial) => partial >= topP * sum, sums.length - 1);
    const end = sums[last] as number;
    const drawn = first(sums, (partial) => partial > place * end, last);
    return isSorted ? tokenOf(drawn, ranked, scaled) : drawn;
  };
}

/** Returns the token of a rank, for logits in their order and by token; numbers alone sort faster than their indices. */
function tokenOf(rank: number, ranked: Float64Array, logits: Float64Array): number {
  const logit = ranked[rank] as number;
  let token = logits.indexOf(logit);
  for (let equal = rank - ranked.indexOf(logit); equal > 0 && token >= 0; equal--)
    token = logits.indexOf(logit, token + 1);
  return Math.max(token, 0); // what is not a number equals nothing
}

function likeliest(logits: Float32Array | Float64Array): number {
  let best = 0;
  for (let token = 1; token < logits.length; token++)
    if ((logits[token] as number) > (logits[best] as number)) best = token;
  return best;
}

/** Returns the first place up to the last one that fulfills a condition, or the last one. */
function first(sums: Float64Array, isRight: (sum: number) => boolean, last: number): number {
  const place = sums.findIndex(isRight);
  return place < 0 || place > last ? last : place;
}
