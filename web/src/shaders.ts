/**
 * Validates shader text before it reaches a driver: bounds its length and nesting.
 *
 * Shader compilers recurse on nested text. The bounds are those of `tensorgrad.runtime.shaders`, which explains them.
 */

import { require } from "./schema.js";

const MOST_CHARACTERS = 1 << 22;
const MOST_NESTED = 100;
const MOST_OPERATORS = 1000;
const MOST_DECLARATIONS = 1000;

const COMMENT = /\/\/[^\n\v\f\r\x85\u2028\u2029]*/g;
const TOKEN = /[\][(){};]|[-+*/%&|^~!<>=.@]/g;
const COUNTED = [
  [/\belse\s+if\b/g, MOST_OPERATORS, "conditions after `else`"],
  [/\b(?:fn|struct|alias)\b/g, MOST_DECLARATIONS, "declarations"],
] as const;

/** Checks that a shader's text is bounded. @throws {ProgramError} It exceeds a bound; says which. */
export function checkShader(code: string, where: string): void {
  const found = excess(code);
  require(!found, `${where}: its code has ${found}: no shader compiler is trusted with that`);
}

/** Returns why a text is rejected, or an empty string. */
function excess(text: string): string {
  if (text.length > MOST_CHARACTERS) return `${text.length} characters, at most ${MOST_CHARACTERS} are allowed`;
  const code = text.replace(COMMENT, " ");
  if (code.includes("/*")) return "block comments, which are not allowed";
  for (const [pattern, most, what] of COUNTED) {
    if ((code.match(pattern)?.length ?? 0) > most) return `more than ${most} ${what}`;
  }
  let depth = 0;
  let operators = 0;
  for (const [token] of code.matchAll(TOKEN)) {
    depth += +"([{".includes(token) - +")]}".includes(token);
    operators = ";{}".includes(token) ? 0 : operators + 1;
    if (depth > MOST_NESTED) return `more than ${MOST_NESTED} open brackets`;
    if (operators > MOST_OPERATORS) return `a statement of more than ${MOST_OPERATORS} operators`;
  }
  return "";
}
