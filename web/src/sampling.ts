/** Draws tokens from logits, on the host: the same tokens as in Python, up to the rounding of logits. */

import { InputError } from "./errors.js";
import { foldIn } from "./keys.js";

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

/**
 * Returns a function that draws a token from logits: the next one of a text.
 *
 * The number that decides is the first word of `fold_in(fold_in(key(seed), step), 0)`, as `tg.random` computes it: the
 * token is the first whose weight, added to those before it, exceeds that part of their sum. With `topK` or `topP`
 * tokens are in the order of their weights, the first of equals first, and otherwise in their own.
 *
 * @throws {InputError} An option is out of its range.
 */
export function sampler({ temperature = 0, topK, topP, seed = 0 }: SamplingOptions): (logits: Float32Array) => number {
  if (!(temperature >= 0 && temperature < Infinity))
    throw new InputError(`generate: temperature must be a number from 0, got ${temperature}`);
  if (topK !== undefined && !(Number.isSafeInteger(topK) && topK >= 1))
    throw new InputError(`generate: topK must be an integer from 1, got ${topK}`);
  if (topP !== undefined && !(topP > 0 && topP <= 1))
    throw new InputError(`generate: topP must be a number in (0, 1], got ${topP}`);
  if (!Number.isSafeInteger(seed)) throw new InputError(`generate: seed must be an integer, got ${seed}`);
  const key = [Math.floor(seed / WORDS) >>> 0, seed >>> 0] as const;
  let step = 0;
  return (logits) => {
    if (!temperature) return likeliest(logits);
    const place = foldIn(foldIn(key, step++), 0)[0] / WORDS;
    const scaled = Float64Array.from(logits, (logit) => logit / temperature);
    const order = Uint32Array.from(scaled.keys());
    if (topK !== undefined || topP !== undefined)
      order.sort((one, other) => (scaled[other] as number) - (scaled[one] as number) || one - other);
    const largest = scaled[likeliest(scaled)] as number;
    let sum = 0;
    const sums = Float64Array.from(order.subarray(0, topK), (token) => {
      return (sum += Math.exp((scaled[token] as number) - largest));
    });
    let last = sums.length - 1;
    if (topP !== undefined) last = first(sums, (partial) => partial >= topP * sum, last);
    const end = sums[last] as number;
    return order[first(sums, (partial) => partial > place * end, last)] as number;
  };
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
