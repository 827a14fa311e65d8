"""WGSL helper functions where its builtins differ from `arith` and `math`; emitted only if used.

WGSL implementations may assume that there are no NaNs, so NaN is detected by its bits; and a value that must not be a
constant expression is passed through a function parameter.
"""

from __future__ import annotations

from collections.abc import Iterable


def _of_integers(bits: str, signed: str, unsigned: str, smallest: str) -> dict[str, str]:
    """Returns the helpers on integers of one width, with its literal suffixes. Shift amounts have the same type."""
    i, u, half = f"i{bits}", f"u{bits}", 2 ** (int(bits) - 1)
    amount = "b & 31u" if bits == "32" else f"u32(b & {int(bits) - 1}{unsigned})"
    least = "min(b, 31u)" if bits == "32" else f"u32(min(b, {int(bits) - 1}{unsigned}))"
    zero, last = f"0{unsigned}", f"{int(bits) - 1}{unsigned}"
    return {
        f"tg_to_{i}": f"""fn tg_to_{i}(x: f32) -> {i} {{
  if (tg_is_nan(x)) {{ return 0{signed}; }}
  if (x >= {half}.0f) {{ return {half - 1}{signed}; }}
  if (x <= -{half}.0f) {{ return {smallest}; }}
  return {i}(x);
}}""",
        f"tg_to_{u}": f"""fn tg_to_{u}(x: f32) -> {u} {{
  if (tg_is_nan(x) || x <= 0.0f) {{ return {zero}; }}
  if (x >= {2 * half}.0f) {{ return {2 * half - 1}{unsigned}; }}
  return {u}(x);
}}""",
        f"tg_div_{u}": f"""fn tg_div_{u}(a: {u}, b: {u}) -> {u} {{
  return select(a / max(b, 1{unsigned}), {zero}, b == {zero});
}}""",
        f"tg_rem_{u}": f"""fn tg_rem_{u}(a: {u}, b: {u}) -> {u} {{
  return select(a % max(b, 1{unsigned}), {zero}, b == {zero});
}}""",
        f"tg_div_{i}": f"""fn tg_div_{i}(a: {i}, b: {i}) -> {i} {{
  let negation = b == -1{signed};
  let quotient = a / select(b, 1{signed}, b == 0{signed} || negation);
  return select(select(quotient, 0{signed} - a, negation), 0{signed}, b == 0{signed});
}}""",
        f"tg_rem_{i}": f"""fn tg_rem_{i}(a: {i}, b: {i}) -> {i} {{
  let divisor = select(b, 1{signed}, b == 0{signed} || b == -1{signed});
  return a - a / divisor * divisor;
}}""",
        f"tg_shl_{u}": f"""fn tg_shl_{u}(a: {u}, b: {u}) -> {u} {{
  return select(a << ({amount}), {zero}, b > {last});
}}""",
        f"tg_shr_{u}": f"""fn tg_shr_{u}(a: {u}, b: {u}) -> {u} {{
  return select(a >> ({amount}), {zero}, b > {last});
}}""",
        f"tg_shr_{i}": f"""fn tg_shr_{i}(a: {i}, b: {u}) -> {i} {{
  return a >> {least};
}}""",
    }


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
    # Long division of the mantissas, eight bits per step: exact, as C's fmod is.
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
    **_of_integers("32", "i", "u", "i32(-2147483648)"),
    **_of_integers("64", "li", "lu", "bitcast<i64>(9223372036854775808lu)"),
}


def with_dependencies(used: Iterable[str]) -> list[str]:
    """Returns the text of the `used` helpers and their callees, in the table's order."""
    needed: set[str] = set()
    waiting = list(used)
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting.extend(other for other in HELPERS if other != name and f"{other}(" in HELPERS[name])
    return [text for name, text in HELPERS.items() if name in needed]
