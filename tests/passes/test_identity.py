"""What depends on a kernel's structure alone is computed once for all kernels that have it."""

from __future__ import annotations

import pytest
from buffer_text import kernel, parse, stage

from tensorgrad.dialects.buf import KernelOp
from tensorgrad.passes.analyses.identity import by_structure
from tensorgrad.passes.analyses.stages import Parts, take_apart
from tensorgrad.passes.buffers.fuse import prologues
from tensorgrad.runtime.target import CPU

SMALL, LARGE = "memref<4x4xf32>", "memref<8x8xf32>"
PRODUCT = ["(d0, d1, d2) -> (d0, d2)", "(d0, d1, d2) -> (d2, d1)", "(d0, d1, d2) -> (d0, d1)"]


def pointwise(op: str, source: str, result: str, kind: str = SMALL) -> str:
    """Returns a kernel that applies an op of `math` to each element."""
    body = f"%r = math.{op} %a0 : f32\nlinalg.yield %r : f32"
    stages = stage(["(d0, d1) -> (d0, d1)"] * 2, "pp", [f"%b0 : {kind}"], [f"%b1 : {kind}"], body)
    return kernel(grid_of(kind), [f"{source} : {kind}"], [f"{result} : {kind}"], stages)


def product(left: str, right: str, result: str, kind: str = SMALL) -> str:
    """Returns a kernel that multiplies two square matrices."""
    body = "%p = arith.mulf %a0, %a1 : f32\n%r = arith.addf %a2, %p : f32\nlinalg.yield %r : f32"
    stages = stage(PRODUCT, "ppr", [f"%b0 : {kind}", f"%b1 : {kind}"], [f"%b2 : {kind}"], body)
    return kernel(grid_of(kind), [f"{left} : {kind}", f"{right} : {kind}"], [f"{result} : {kind}"], stages)


def grid_of(kind: str) -> str:
    return ", ".join(kind.removeprefix("memref<").split("x")[:2])


def kernels_of(*texts: str) -> list[KernelOp]:
    """Returns kernels of a function whose arguments are %a to %f and, larger ones, %u to %w."""
    arguments = [*(f"%{name}: {SMALL}" for name in "abcdef"), *(f"%{name}: {LARGE}" for name in "uvw")]
    module = parse("\n".join([f"func.func @f({', '.join(arguments)}) {{", *texts, "func.return }"]))
    return [op for op in module.walk() if isinstance(op, KernelOp)]


def test_equal_kernels_are_computed_once() -> None:
    seen: list[KernelOp] = []

    def number(kernel: KernelOp) -> int:
        seen.append(kernel)
        return len(seen)

    kernels = kernels_of(
        pointwise("exp", "%a", "%b"),
        pointwise("exp", "%b", "%c"),  # equal to the first but for its buffers
        pointwise("sin", "%c", "%d"),
        pointwise("exp", "%u", "%v", LARGE),
    )
    assert list(map(by_structure(number), kernels)) == [1, 1, 2, 3]
    assert seen == [kernels[0], *kernels[2:]]


def test_equal_contractions_are_estimated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    estimated: list[tuple[Parts, Parts | None]] = []
    estimate = prologues._contraction_cost

    def counting(reader: Parts, producer: Parts | None, target: object) -> float:
        estimated.append((reader, producer))
        return estimate(reader, producer, CPU)

    monkeypatch.setattr(prologues, "_contraction_cost", counting)
    parts = list(
        map(
            take_apart,
            kernels_of(
                pointwise("exp", "%a", "%b"),
                product("%b", "%c", "%d"),
                pointwise("exp", "%d", "%e"),
                product("%e", "%c", "%f"),
                product("%c", "%e", "%a"),  # which reads it by columns
                product("%u", "%v", "%w", LARGE),
            ),
        )
    )
    first, reader, second, equal, by_columns, large = parts
    costs = prologues.Costs(CPU)
    assert costs.of(reader, None) == costs.of(equal, None) < costs.of(large, None)
    assert costs.of(reader, first) == costs.of(equal, second)
    assert costs.of(by_columns, second) > costs.of(by_columns, None)
    assert estimated == [(reader, None), (large, None), (reader, first), (by_columns, second)]
