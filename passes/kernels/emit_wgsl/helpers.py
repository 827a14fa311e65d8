"""WGSL functions for what its builtins do otherwise than `arith` and `math`; emitted only where used.

WGSL's implementations may assume that there is no NaN, so NaN is told by its bits; and a value that must not
be a constant expression passes through a function's parameter.
"""

from __future__ import annotations

from collections.abc import Iterable

HELPERS: dict[str, str] = {
    "tg_from_bits": """fn tg_from_bits(bits: u32) -> f32 {
  return bitcast<f32>(bits);
}""",
    "tg_is_nan": """fn tg_is_nan(x: f32) -> bool {
  return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}""",
    "tg_maximum": """fn tg_maximum(a: f32, b: f32) -> f32 {
  if (tg_is_nan(a)) { return a; }
  if (tg_is_nan(b)) { return b; }
  if (a == b) { return bitcast<f32>(bitcast<u32>(a) & bitcast<u32>(b)); }
  return select(b, a, a > b);
}""",
    "tg_minimum": """fn tg_minimum(a: f32, b: f32) -> f32 {
  if (tg_is_nan(a)) { return a; }
  if (tg_is_nan(b)) { return b; }
  if (a == b) { return bitcast<f32>(bitcast<u32>(a) | bitcast<u32>(b)); }
  return select(b, a, a < b);
}""",
    "tg_maxnum": """fn tg_maxnum(a: f32, b: f32) -> f32 {
  if (tg_is_nan(a)) { return b; }
  if (tg_is_nan(b)) { return a; }
  return tg_maximum(a, b);
}""",
    "tg_minnum": """fn tg_minnum(a: f32, b: f32) -> f32 {
  if (tg_is_nan(a)) { return b; }
  if (tg_is_nan(b)) { return a; }
  return tg_minimum(a, b);
}""",
    "tg_copysign": """fn tg_copysign(a: f32, b: f32) -> f32 {
  return bitcast<f32>((bitcast<u32>(a) & 0x7fffffffu) | (bitcast<u32>(b) & 0x80000000u));
}""",
    # Long division of the mantissas, eight bits at a step: exact, as C's fmod is.
    "tg_remainder": """fn tg_remainder(a: f32, b: f32) -> f32 {
  let sign = bitcast<u32>(a) & 0x80000000u;
  let x = bitcast<u32>(a) & 0x7fffffffu;
  let y = bitcast<u32>(b) & 0x7fffffffu;
  if (x >= 0x7f800000u || y > 0x7f800000u || y == 0u) { return tg_from_bits(0x7fc00000u); }
  if (x < y) { return a; }
  var exponent = max(x >> 23u, 1u);
  let last = max(y >> 23u, 1u);
  let divisor = (y & 0x7fffffu) | select(0u, 0x800000u, (y >> 23u) != 0u);
  var rest = ((x & 0x7fffffu) | select(0u, 0x800000u, (x >> 23u) != 0u)) % divisor;
  while (exponent > last) {
    let step = min(exponent - last, 8u);
    rest = (rest << step) % divisor;
    exponent -= step;
  }
  if (rest == 0u) { return bitcast<f32>(sign); }
  let shift = min(countLeadingZeros(rest) - 8u, last - 1u);
  rest = rest << shift;
  let biased = select(0u, last - shift, rest >= 0x800000u);
  return bitcast<f32>(sign | (biased << 23u) | (rest & 0x7fffffu));
}""",
    "tg_to_i32": """fn tg_to_i32(x: f32) -> i32 {
  if (tg_is_nan(x)) { return 0i; }
  if (x >= 2147483648.0f) { return 2147483647i; }
  if (x <= -2147483648.0f) { return i32(-2147483648); }
  return i32(x);
}""",
    "tg_to_u32": """fn tg_to_u32(x: f32) -> u32 {
  if (tg_is_nan(x) || x <= 0.0f) { return 0u; }
  if (x >= 4294967296.0f) { return 4294967295u; }
  return u32(x);
}""",
    "tg_div_u32": """fn tg_div_u32(a: u32, b: u32) -> u32 {
  return select(a / max(b, 1u), 0u, b == 0u);
}""",
    "tg_rem_u32": """fn tg_rem_u32(a: u32, b: u32) -> u32 {
  return select(a % max(b, 1u), 0u, b == 0u);
}""",
    "tg_div_i32": """fn tg_div_i32(a: i32, b: i32) -> i32 {
  let negation = b == -1i;
  let quotient = a / select(b, 1i, b == 0i || negation);
  return select(select(quotient, 0i - a, negation), 0i, b == 0i);
}""",
    "tg_rem_i32": """fn tg_rem_i32(a: i32, b: i32) -> i32 {
  return a % select(b, 1i, b == 0i || b == -1i);
}""",
    "tg_shl_u32": """fn tg_shl_u32(a: u32, b: u32) -> u32 {
  return select(a << (b & 31u), 0u, b > 31u);
}""",
    "tg_shr_u32": """fn tg_shr_u32(a: u32, b: u32) -> u32 {
  return select(a >> (b & 31u), 0u, b > 31u);
}""",
    "tg_shr_i32": """fn tg_shr_i32(a: i32, b: u32) -> i32 {
  return a >> min(b, 31u);
}""",
}


def with_dependencies(used: Iterable[str]) -> list[str]:
    """Returns the text of the `used` helpers and of those that they call, in the table's order."""
    needed: set[str] = set()
    waiting = list(used)
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting.extend(other for other in HELPERS if other != name and f"{other}(" in HELPERS[name])
    return [text for name, text in HELPERS.items() if name in needed]
