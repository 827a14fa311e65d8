"""What depends on a kernel's structure alone is computed once for all kernels that have it."""

from __future__ import annotations

from buffer_text import kernel, parse, stage

from tensorgrad.dialects.buf import KernelOp
from tensorgrad.passes.analyses.identity import by_structure


def layer(op: str, source: str, result: str, kind: str = "memref<4xf32>") -> str:
    """Returns a kernel that applies an op of `math` to each element."""
    body = f"%r = math.{op} %a0 : f32\nlinalg.yield %r : f32"
    extent = kind.removeprefix("memref<").partition("x")[0]
    stages = stage(["(d0) -> (d0)"] * 2, "p", [f"%b0 : {kind}"], [f"%b1 : {kind}"], body)
    return kernel(extent, [f"{source} : {kind}"], [f"{result} : {kind}"], stages)


LAYERS = "\n".join(
    [
        "func.func @f(%x: memref<4xf32>, %y: memref<4xf32>, %z: memref<4xf32>, %v: memref<8xf32>, %w: memref<8xf32>) {",
        layer("exp", "%x", "%y"),
        layer("exp", "%y", "%z"),  # equal to the first but for its buffers
        layer("sin", "%z", "%x"),
        layer("exp", "%v", "%w", "memref<8xf32>"),
        "func.return }",
    ]
)


def test_equal_kernels_are_computed_once() -> None:
    seen: list[KernelOp] = []

    def number(kernel: KernelOp) -> int:
        seen.append(kernel)
        return len(seen)

    kernels = [op for op in parse(LAYERS).walk() if isinstance(op, KernelOp)]
    assert list(map(by_structure(number), kernels)) == [1, 1, 2, 3]
    assert seen == [kernels[0], *kernels[2:]]
