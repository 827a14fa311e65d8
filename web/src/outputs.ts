/**
 * Transfers the outputs of steps to the host.
 *
 * Each step copies its outputs to a mappable buffer, the current page, after the outputs of earlier steps. Reading one
 * output maps its page: the whole page is read at once, and the next step starts another one.
 */

import { type Data, decode } from "./dtypes.js";
import { type Device } from "./device.js";
import { type Buffer, type TensorSlot } from "./plan.js";
import { Value } from "./results.js";

/** The size of a page in bytes, unless one step needs more, and the maximum number of steps on it. */
const PAGE_BYTES = 1 << 20;
const MOST_STEPS = 64;
/** The maximum number of page buffers that are kept for reuse. */
const MOST_FREE = 2;

/** A mappable buffer with the outputs of some steps. */
class Page {
  used = 0;
  #content: Promise<ArrayBuffer> | undefined;

  constructor(
    readonly buffer: GPUBuffer,
    private readonly outputs: Outputs,
  ) {}

  /** Returns a copy of the page's bytes; later steps write to other pages. */
  read(): Promise<ArrayBuffer> {
    this.#content ??= this.outputs.take(this);
    return this.#content;
  }
}

/** Copies the outputs of steps to pages. */
export class Outputs {
  readonly #slots: readonly TensorSlot[];
  readonly #starts = new Map<number, number>();
  readonly #stepBytes: number;
  readonly #pageBytes: number;
  #free: GPUBuffer[] = [];
  #page: Page | undefined;
  #isDestroyed = false;

  /**
   * @param slots The program's outputs.
   * @param buffers All buffers of the program; its output buffers are copied as a whole.
   */
  constructor(
    private readonly device: Device,
    slots: Iterable<TensorSlot>,
    private readonly buffers: readonly Buffer[],
  ) {
    this.#slots = [...slots];
    let bytes = 0;
    buffers.forEach(({ role, size }, index) => {
      if (role !== "output") return;
      this.#starts.set(index, bytes);
      bytes += size;
    });
    this.#stepBytes = bytes;
    this.#pageBytes = bytes * Math.min(Math.max(Math.floor(PAGE_BYTES / bytes), 1), MOST_STEPS);
  }

  /** Encodes the copy of a step's outputs from `buffers`, after the step's own commands; returns a value for each. */
  encode(encoder: GPUCommandEncoder, buffers: readonly GPUBuffer[]): Map<string, Value> {
    if (!this.#stepBytes) return new Map();
    const page = this.#openPage();
    const start = page.used;
    for (const [index, place] of this.#starts) {
      const { size } = this.buffers[index] as Buffer;
      encoder.copyBufferToBuffer(buffers[index] as GPUBuffer, 0, page.buffer, start + place, size);
    }
    page.used += this.#stepBytes;
    const values = this.#slots.map((slot) => {
      const place = start + (this.#starts.get(slot.buffer) as number) + slot.offset;
      const read = async (): Promise<Data> => {
        const content = await page.read();
        this.device.check();
        return decode(content, place, slot.shape, slot.dtype);
      };
      return [slot.name, new Value(slot, read)] as const;
    });
    return new Map(values);
  }

  #openPage(): Page {
    if (this.#page && this.#page.used + this.#stepBytes > this.#pageBytes) {
      // Unread outputs are moved to the host. If that fails, each later `read` of them throws the same error.
      this.#page.read().catch(() => undefined);
    }
    this.#page ??= this.#newPage();
    return this.#page;
  }

  #newPage(): Page {
    const usage = GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST;
    const size = this.#pageBytes;
    return new Page(this.#free.pop() ?? this.device.gpu.createBuffer({ label: "results", size, usage }), this);
  }

  /** Maps a page and returns a copy of its bytes; no later step writes to it. */
  async take(page: Page): Promise<ArrayBuffer> {
    if (this.#page === page) this.#page = undefined;
    const { buffer, used } = page;
    try {
      await buffer.mapAsync(GPUMapMode.READ, 0, used);
    } catch (error) {
      throw await this.device.explained(error, "reading results");
    }
    const content = buffer.getMappedRange(0, used).slice(0);
    buffer.unmap();
    if (this.#isDestroyed || this.#free.length >= MOST_FREE) buffer.destroy();
    else this.#free.push(buffer);
    return content;
  }

  /** Destroys the buffers; those with outputs of submitted steps only after they are read. */
  destroy(): void {
    this.#isDestroyed = true;
    for (const buffer of this.#free) buffer.destroy();
    this.#free = [];
    this.#page?.read().catch(() => undefined);
  }
}
