/** The scalars of a training step, which the host computes from settings by formulas. */

import { FormulaError, InputError, ProgramError } from "./errors.js";
import { Formula } from "./formula.js";
import { type TensorSlot } from "./plan.js";
import { type Program, slotsOf } from "./program.js";

const LARGEST_F32 = 3.4028234663852886e38;

export class Scalars {
  /** The names that formulas use, and those of scalars without a formula. */
  readonly names: ReadonlySet<string>;
  readonly #formulas: readonly (readonly [TensorSlot, Formula | null])[];

  /** @throws {ProgramError} A formula is malformed. */
  constructor(program: Program) {
    const slots = [...slotsOf(program, "scalar").values()];
    this.#formulas = slots.map((slot) => [slot, formulaOf(slot, program)]);
    this.names = new Set(this.#formulas.flatMap(([slot, formula]) => (formula ? [...formula.names] : [slot.name])));
  }

  /**
   * Returns the value of each scalar, by name.
   *
   * @param known The values that the formulas use, and those of scalars without a formula.
   * @throws {InputError} A scalar has no finite value.
   */
  evaluate(known: ReadonlyMap<string, number>): Map<string, number> {
    return new Map(this.#formulas.map(([slot, formula]) => [slot.name, valueOf(slot, formula, known)]));
  }
}

function formulaOf({ name, formula }: TensorSlot, program: Program): Formula | null {
  try {
    return formula === null ? null : new Formula(formula);
  } catch (error) {
    if (!(error instanceof FormulaError)) throw error;
    throw new ProgramError(`program '${program.name}' is malformed: scalar '${name}': ${error.message}`);
  }
}

function valueOf(slot: TensorSlot, formula: Formula | null, known: ReadonlyMap<string, number>): number {
  try {
    const value = formula ? formula.evaluate(known) : (known.get(slot.name) ?? NaN);
    const overflows = slot.dtype === "f32" && Math.abs(value) > LARGEST_F32;
    if (overflows || !Number.isFinite(value))
      throw new InputError(`scalar '${slot.name}' must be finite, got ${value}`);
    return value;
  } catch (error) {
    throw error instanceof FormulaError ? new InputError(`scalar '${slot.name}': ${error.message}`) : error;
  }
}
