"""Standard WGSL, validated by Tint."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pytest
import tint
from test_wgsl_emit import Device, kernel, only_kernel

from tensorgrad.passes.codegen.wgsl.emit_wgsl import emit_kernel
from tensorgrad.passes.codegen.wgsl.emit_wgsl.helpers import HELPERS, with_dependencies
from tensorgrad.passes.codegen.wgsl.emit_wgsl.text import float_literal


def numbers(kind: type[np.floating[Any]]) -> list[np.floating[Any]]:
    """Returns the ends of a type's range, the 200 largest numbers, and random bits."""
    info = np.finfo(kind)
    bits = {2: np.uint16, 4: np.uint32}[info.bits // 8]
    last = int(info.max.view(bits))
    largest = np.arange(last - 199, last + 1, dtype=bits)
    drawn = np.random.default_rng(0).integers(0, last, 800, dtype=bits)
    edges = np.array([0, info.tiny, info.smallest_subnormal, info.eps, 1, info.max], kind)
    values = np.concatenate([edges, largest.view(kind), drawn.view(kind)])
    return [*values, *-values]


@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_every_literal_is_in_range(kind: type[np.floating[Any]]) -> None:
    texts = [float_literal(value).text for value in numbers(kind)]
    for value, text in zip(numbers(kind), texts, strict=True):
        with np.errstate(over="raise"):
            assert kind(text[:-1]).tobytes() == value.tobytes()
        assert abs(Decimal(text[:-1])) <= Decimal(float(np.finfo(kind).max))
    name, enable = {np.float32: ("f32", ""), np.float16: ("f16", "enable f16;\n")}[kind]
    statements = "\n".join(f"  _ = {name}({text});" for text in texts)
    tint.check_text(f"{enable}@compute @workgroup_size(1)\nfn kernel() {{\n{statements}\n}}")


def test_the_largest_number_is_not_rounded_up() -> None:
    assert float_literal(np.float32(3.4028235e38)).text == "3.40282346e38f"
    assert float_literal(-np.finfo(np.float16).max).text == "-65500.0h"
    with pytest.raises(RuntimeError, match="cannot be represented as 'f32'"):
        tint.check_text("const largest = 3.4028235e38f;")


def test_every_helper_is_standard() -> None:
    """Except those of 64-bit integers, which only Naga supports."""
    of_64_bits = [name for name in HELPERS if name.endswith(("i64", "u64"))]
    tint.check_text("\n".join(text for name, text in HELPERS.items() if name not in of_64_bits))
    for name in of_64_bits:
        with pytest.raises(RuntimeError, match="Error while parsing WGSL"):
            tint.check_text("\n".join(with_dependencies([name])))


def test_subgroups_are_enabled_as_the_standard_wants() -> None:
    group = only_kernel(kernel('%s = wgsl.subgroup_reduce "add" %a : f32\n%r = arith.addf %s, %b : f32'))
    tint.check_text(emit_kernel(group, Device(shader_dialect="standard")))
    with pytest.raises(RuntimeError, match="subgroup"):
        tint.check_text(emit_kernel(group, Device(shader_dialect="naga")))
