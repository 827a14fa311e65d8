/** Scalars that the host computes in each step: arithmetic formulas over names, which are parsed, never run as code. */

import { FormulaError, messageOf } from "./errors.js";

type Values = ReadonlyMap<string, number>;
type Evaluator = (values: Values) => number;
type Binary = (left: number, right: number) => number;

const COMPARISONS: Record<string, Binary> = {
  "<": (a, b) => +(a < b),
  "<=": (a, b) => +(a <= b),
  ">": (a, b) => +(a > b),
  ">=": (a, b) => +(a >= b),
  "==": (a, b) => +(a === b),
  "!=": (a, b) => +(a !== b),
};
const SUMS: Record<string, Binary> = { "+": (a, b) => a + b, "-": (a, b) => a - b };
const PRODUCTS: Record<string, Binary> = { "*": (a, b) => a * b, "/": divide };

/** Each function with the minimum and maximum number of its arguments. */
const FUNCTIONS: Record<string, readonly [(...values: number[]) => number, number, number]> = {
  min: [Math.min, 2, Infinity],
  max: [Math.max, 2, Infinity],
  sqrt: [real("a root of a negative number", Math.sqrt), 1, 1],
  cos: [real("math domain error", Math.cos), 1, 1],
  exp: [real("math range error", Math.exp), 1, 1],
  floor: [real("math domain error", Math.floor), 1, 1],
};

const TOKEN = /\s*(?:(\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)|([A-Za-z_]\w*)|(\*\*|[<>=!]=|[-+*/()<>,]))/y;
const KEYWORDS = ["if", "else"];

/**
 * An arithmetic expression over names, such as `learning_rate / (1 - 0.9 ** step)`.
 *
 * It may contain numbers, names, `+ - * / **`, parentheses, comparisons, `a if c else b`, and calls of `min`, `max`,
 * `sqrt`, `cos`, `exp` and `floor`. Everything is computed in float64.
 */
export class Formula {
  readonly names: ReadonlySet<string>;
  readonly #evaluate: Evaluator;

  /** @throws {FormulaError} The text contains anything else; names that part. */
  constructor(readonly text: string) {
    const parser = new Parser(text);
    try {
      this.#evaluate = parser.parse();
    } catch (error) {
      throw error instanceof FormulaError ? error : new FormulaError(`formula '${text}' is nested too deeply`);
    }
    this.names = parser.names;
  }

  /**
   * Returns the formula's value for these values of its names; unused names are ignored.
   *
   * @throws {FormulaError} A used name has no value, or the arithmetic has no real result.
   */
  evaluate(values: Values): number {
    const missing = [...this.names].filter((name) => !values.has(name)).sort();
    if (missing.length) throw new FormulaError(`formula '${this.text}' needs ${missing.join(", ")}`);
    try {
      return this.#evaluate(values);
    } catch (error) {
      const used = [...this.names].sort().map((name) => `${name} = ${values.get(name)}`);
      const where = used.join(", ") || "all";
      throw new FormulaError(`formula '${this.text}' has no value at ${where}: ${messageOf(error)}`);
    }
  }
}

/** Compiles text to nested closures by recursive descent, with Python's operator precedence. */
class Parser {
  readonly names = new Set<string>();
  readonly #tokens: string[] = [];
  #place = 0;

  constructor(readonly text: string) {
    TOKEN.lastIndex = 0;
    const end = text.trimEnd().length;
    while (TOKEN.lastIndex < end) {
      const start = TOKEN.lastIndex;
      const found = TOKEN.exec(text);
      if (!found) throw this.#refusal(text.slice(start).trim());
      this.#tokens.push(found[0].trim());
    }
  }

  parse(): Evaluator {
    const value = this.#expression();
    const rest = this.#tokens[this.#place];
    if (rest !== undefined) throw this.#refusal(rest);
    return value;
  }

  #refusal(part: string | undefined): FormulaError {
    return new FormulaError(
      `formula '${this.text}': ${part === undefined ? "its end" : `'${part}'`} is not allowed; a formula has numbers, ` +
        `names, + - * / **, comparisons, 'a if c else b' and the functions ${Object.keys(FUNCTIONS).join(", ")}`,
    );
  }

  #accept(token: string): boolean {
    const found = this.#tokens[this.#place] === token;
    if (found) this.#place++;
    return found;
  }

  #expect(token: string): void {
    if (!this.#accept(token)) throw this.#refusal(this.#tokens[this.#place]);
  }

  #expression(): Evaluator {
    const value = this.#comparison();
    if (!this.#accept("if")) return value;
    const condition = this.#comparison();
    this.#expect("else");
    const other = this.#expression();
    return (values) => (condition(values) ? value(values) : other(values));
  }

  #comparison(): Evaluator {
    const left = this.#sum();
    const compare = this.#operator(COMPARISONS);
    return compare ? combined(compare, left, this.#sum()) : left;
  }

  #sum(): Evaluator {
    return this.#leftAssociative(SUMS, () => this.#product());
  }

  #product(): Evaluator {
    return this.#leftAssociative(PRODUCTS, () => this.#negation());
  }

  #leftAssociative(operators: Record<string, Binary>, operand: () => Evaluator): Evaluator {
    let value = operand();
    for (let found = this.#operator(operators); found; found = this.#operator(operators)) {
      value = combined(found, value, operand());
    }
    return value;
  }

  #operator(operators: Record<string, Binary>): Binary | undefined {
    const token = this.#tokens[this.#place];
    const found = token !== undefined && Object.hasOwn(operators, token) ? operators[token] : undefined;
    if (found) this.#place++;
    return found;
  }

  #negation(): Evaluator {
    if (!this.#accept("-")) return this.#power();
    const value = this.#negation();
    return (values) => -value(values);
  }

  #power(): Evaluator {
    const base = this.#atom();
    return this.#accept("**") ? combined(power, base, this.#negation()) : base;
  }

  #atom(): Evaluator {
    const token = this.#tokens[this.#place++];
    if (token === "(") {
      const value = this.#expression();
      this.#expect(")");
      return value;
    }
    if (token === undefined || KEYWORDS.includes(token)) throw this.#refusal(token);
    if (/^[\d.]/.test(token)) {
      const number = Number(token);
      return () => number;
    }
    if (!/^\w/.test(token)) throw this.#refusal(token);
    if (Object.hasOwn(FUNCTIONS, token)) return this.#call(token);
    this.names.add(token);
    return (values) => values.get(token) as number;
  }

  #call(name: string): Evaluator {
    const [apply, least, most] = FUNCTIONS[name] as (typeof FUNCTIONS)[string];
    this.#expect("(");
    const inputs = [this.#expression()];
    while (this.#accept(",")) inputs.push(this.#expression());
    this.#expect(")");
    if (inputs.length < least || inputs.length > most) {
      const takes = least === most ? `${least}` : `at least ${least}`;
      throw new FormulaError(`formula '${this.text}': ${name} takes ${takes} arguments, it has ${inputs.length}`);
    }
    return (values) => apply(...inputs.map((input) => input(values)));
  }
}

function combined(operation: Binary, left: Evaluator, right: Evaluator): Evaluator {
  return (values) => operation(left(values), right(values));
}

function divide(numerator: number, denominator: number): number {
  if (denominator === 0) throw new RangeError("division by zero");
  return numerator / denominator;
}

function power(base: number, exponent: number): number {
  const result = base ** exponent;
  if (Number.isFinite(base) && Number.isFinite(exponent) && !Number.isFinite(result)) {
    throw new RangeError(base < 0 ? "a root of a negative number" : "the result is too large");
  }
  return result;
}

/** Wraps a function so that it throws if its result is not finite. */
function real(fault: string, apply: (value: number) => number): (value: number) => number {
  return (value) => {
    const result = apply(value);
    if (!Number.isFinite(result)) throw new RangeError(fault);
    return result;
  };
}
