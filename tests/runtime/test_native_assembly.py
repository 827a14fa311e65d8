"""What LLVM makes of kernels: vector instructions, and loops of products that keep their sums in registers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from native_programs import compiled

import tensorgrad as tg
from tensorgrad.runtime.cpu import code

PACKED_ARITHMETIC = re.compile(r"\bv?(add|sub|mul|div|max|fn?m(add|sub)\d+)p[sd]\b|\bf\w+\s+v\d+\.[24][sd]")
"""Vector instructions of x86-64 and arm64; scalar ones have other names."""


def test_kernels_are_vectors() -> None:
    """Products, pointwise and row kernels use vector instructions."""
    training = compiled()
    scalar = [k.entry for k in training.program.kernels if not PACKED_ARITHMETIC.search(code.assembly(k.code))]
    assert not scalar
    packed = [kernel for kernel in training.program.kernels if kernel.entry.startswith("packed")]
    assert packed and all("llvm.fmuladd.v" in kernel.code for kernel in packed)


LOOP = re.compile(r"^(\.\w+):\n((?:(?!\.\w+:).*\n)*?)\s+(?:j\w+|b\.\w+|tbn?z|cbn?z)\s(?:.*, )?\1$", re.M)
"""A loop without branches inside, in assembly of x86-64 or arm64."""

PRODUCTS = re.compile(r"\bvbroadcastss\s[^(]*\((?!%rip)|\((?!%rip)[^)]*\)\{1to\d+\}|\bld1r\b|\bfmla\b.*\.s\[")
"""What multiplies vectors with one element of a row, which is no constant."""

STACK = re.compile(r"\(%rsp\)|\[sp\b")


@pytest.mark.parametrize(
    "activation",
    [tg.relu, tg.gelu, tg.hard_swish],
    ids=["relu", "gelu", "hard_swish"],
)
@pytest.mark.parametrize("shape", [(96, 160, 49), (64, 16, 1568)], ids=str)
def test_sums_of_products_stay_in_registers(activation: Callable[[Any], Any], shape: tuple[int, int, int]) -> None:
    """Constants of an epilogue, which runs less often, don't displace them."""
    rows, steps, columns = shape
    arrays = np.zeros((rows, steps), np.float32), np.zeros((steps, columns), np.float32)
    function = tg.jit(lambda x, y: activation(x @ y), device="cpu")
    function(*arrays)
    (kernel,) = function.program.kernels
    loops = [body for _, body in LOOP.findall(code.assembly(kernel.code)) if len(PRODUCTS.findall(body)) >= 4]
    assert loops and not any(STACK.search(body) for body in loops)
