/** Text in a page: a language model reads a prompt, and computes each further token. */

import { type Device, type LoadOptions, loadOptions, onDevice } from "./device.js";
import { InputError, ProgramError } from "./errors.js";
import { Executable } from "./executable.js";
import { type Rules, optionsOf } from "./named.js";
import { type TensorSlot } from "./plan.js";
import { slotsOf } from "./program.js";
import { type Value } from "./results.js";
import { SAMPLING, type SamplingOptions, sampler } from "./sampling.js";
import { type Saved, savedIn } from "./saved.js";
import { type Source } from "./source.js";

/** How a text goes on. */
export interface GenerationOptions extends SamplingOptions {
  /** The most tokens that are added, 64 by default. */
  readonly maxNewTokens?: number | undefined;
  /** The tokens that end a text; by default those of the file, which the model's folder named. */
  readonly stop?: number | Iterable<number> | undefined;
}

const isSeveral = (value: unknown): boolean =>
  typeof (value as Iterable<unknown> | null)?.[Symbol.iterator] === "function";
const GENERATING: Rules = {
  maxNewTokens: ["an integer from 0", (value) => Number.isSafeInteger(value) && (value as number) >= 0],
  stop: ["a token or several", (value) => typeof value === "number" || isSeveral(value)],
  ...SAMPLING,
};

/**
 * A language model with its parameters, for texts of up to a number of tokens.
 *
 * What a prompt shares with the text before it, from the start, is not read again.
 */
export class TextGenerator {
  /** The most tokens of a text, prompt included. */
  readonly capacity: number;
  /** The number of tokens that there are. */
  readonly vocabulary: number;
  /** The tokens that end a text unless others are given. */
  readonly stops: readonly number[];
  /** The programs, and how many tokens each reads. */
  readonly #parts: readonly (readonly [Executable, number])[];
  /** The tokens that the cache has. */
  #text: number[] = [];
  #turn = 0;

  private constructor(
    { program, host }: Saved,
    private readonly executable: Executable,
    private readonly others: Executable | null,
    private readonly owned: Device | null,
  ) {
    this.capacity = host.settings.get("capacity") as number;
    this.vocabulary = vocabularyOf(program);
    this.stops = [...host.settings].filter(([name]) => name.startsWith("stop/")).map(([, token]) => token);
    const parts = others ? [others, executable] : [executable];
    this.#parts = parts.map((one) => [one, partOf(one.program)]);
  }

  /**
   * Loads a file that Python wrote with `tg.save_generator(model, path)`.
   *
   * @param source The file's URL or bytes.
   * @param options A device to run on, by default a new one; a callback for the progress of loading; a signal that
   *   cancels it.
   * @throws {InputError} An option is unknown, or has a value that it can't have.
   * @throws {ProgramError} The file can't be loaded, holds no generator, or holds a malformed one.
   * @throws {TargetError} The device lacks what the model needs; says what.
   * @throws {NoAdapterError} WebGPU is not available.
   * @throws {DeviceError} The device reported an error.
   * @throws {DOMException} The signal canceled it.
   */
  static async load(source: Source, options?: Device | LoadOptions): Promise<TextGenerator> {
    const given = loadOptions(options);
    const [saved, state] = await savedIn(source, given, "generator");
    checkGenerator(saved);
    return onDevice(given, async (where, owned) => {
      const executable = await Executable.load(saved.program, where);
      try {
        const others = saved.others && (await Executable.load(saved.others, where, executable, true));
        executable.write(state);
        return new TextGenerator(saved, executable, others, owned);
      } catch (error) {
        executable.destroy();
        throw error;
      }
    });
  }

  /** The device that it runs on. */
  get device(): Device {
    return this.executable.device;
  }

  /**
   * Returns the tokens that follow a prompt, without the one that ends the text; see `stream`.
   *
   * @throws {InputError} As `stream`.
   * @throws {DeviceError} The device is lost, or has reported an error.
   */
  async generate(prompt: ArrayLike<number>, options?: GenerationOptions): Promise<number[]> {
    const tokens: number[] = [];
    for await (const token of this.stream(prompt, options)) tokens.push(token);
    return tokens;
  }

  /**
   * Yields the tokens that follow a prompt, each as soon as it is computed, until one that ends the text.
   *
   * @param prompt One or more tokens.
   * @throws {InputError} The prompt is empty, has what is no token, or exceeds the capacity with what is added, or an
   *   option is unknown or out of its range; nothing has changed. Or, from the iterator, another text has begun.
   * @throws {DeviceError} From the iterator: the device is lost, or has reported an error.
   */
  stream(prompt: ArrayLike<number>, options?: GenerationOptions): AsyncGenerator<number, void> {
    const given = optionsOf("generate", options, GENERATING);
    const { maxNewTokens: count = 64, stop } = given;
    const tokens = Array.from(prompt ?? []);
    if (!tokens.length) throw new InputError("generate: a prompt is a row of one or more tokens");
    for (const wrong of this.#unknown(tokens))
      throw new InputError(`generate: the vocabulary has ${this.vocabulary} tokens, there is none of number ${wrong}`);
    const stops = new Set(typeof stop === "number" ? [stop] : (stop ?? this.stops));
    for (const wrong of stop === undefined ? [] : this.#unknown([...stops]))
      throw new InputError(`generate: stop must be of the vocabulary's ${this.vocabulary} tokens, got ${wrong}`);
    if (tokens.length + count > this.capacity) {
      const asked = `a prompt of ${tokens.length} tokens and ${count} new ones`;
      throw new InputError(`generate: ${asked} exceed the capacity of ${this.capacity}`);
    }
    return this.#tokens(tokens, count, sampler(given), stops, ++this.#turn);
  }

  #unknown(tokens: readonly number[]): number[] {
    return tokens.filter((token) => !(Number.isInteger(token) && token >= 0 && token < this.vocabulary));
  }

  async *#tokens(
    prompt: readonly number[],
    count: number,
    draw: (logits: Float32Array) => number,
    stops: ReadonlySet<number>,
    turn: number,
  ): AsyncGenerator<number, void> {
    let fresh = prompt;
    for (let index = 0; index < count; index++) {
      if (this.#turn !== turn)
        throw new InputError("generate: another text has begun, which this one can't go on beside");
      if (!index) fresh = prompt.slice(this.#keep(prompt));
      const token = draw((await this.#read(fresh).read()) as Float32Array);
      if (stops.has(token)) return;
      yield token;
      fresh = [token];
    }
  }

  /** Returns how many tokens of a prompt have been read; the last one's logits are needed again. */
  #keep(prompt: readonly number[]): number {
    let kept = 0;
    while (kept < prompt.length - 1 && this.#text[kept] === prompt[kept]) kept++;
    this.#text.length = kept;
    return kept;
  }

  /** Runs the programs on the next tokens of the text, and returns the logits of the one after them. */
  #read(tokens: readonly number[]): Value {
    let place = 0;
    let logits: Value | undefined;
    for (const [executable, size] of this.#parts) {
      for (; tokens.length - place >= size; place += size) {
        const part = tokens.slice(place, place + size);
        const inputs = { tokens: Int32Array.from(part), length: this.#text.length };
        logits = executable.step(inputs, new Map(), place + size === tokens.length).get("logits");
        this.#text.push(...part);
      }
    }
    return logits as Value;
  }

  /** Frees its memory, and destroys the device if `load` requested it. */
  destroy(): void {
    this.others?.destroy();
    this.executable.destroy();
    this.owned?.destroy();
  }
}

type Program = Saved["program"];

function partOf(program: Program): number {
  return slotsOf(program, "input").get("tokens")?.shape.at(-1) ?? 0;
}

function vocabularyOf(program: Program): number {
  return slotsOf(program, "output").get("logits")?.shape.at(-1) ?? 0;
}

/** Checks the programs of a generator. @throws {ProgramError} They are not such, or there is no capacity. */
function checkGenerator({ program, others, host }: Saved): void {
  const described = ({ name, dtype, shape }: TensorSlot): string => `${name} ${dtype} [${shape}]`;
  for (const one of others ? [program, others] : [program]) {
    const [part, vocabulary] = [partOf(one), vocabularyOf(one)];
    const expected = [`length i32 []`, `logits f32 [${vocabulary}]`, `tokens i32 [1,${part}]`];
    const own = [...slotsOf(one, "input", "output").values()].map(described).sort();
    const isPart = one === program ? part === 1 : part > 1;
    if (!isPart || vocabulary < 1 || host.results !== "logits" || own.join() !== expected.join())
      throw new ProgramError(`'${one.name}' is no program of a generator`);
  }
  if (!((host.settings.get("capacity") ?? 0) >= 1)) throw new ProgramError("a generator has a capacity");
}
