"""`python -m benchmarks.extents`: a prototype of extents that only a run knows, for points and reductions.

A function of rows that are padded to 512 masks what is beyond `n`. Three programs of it are timed on the CPU, in one
thread: as it is compiled today, which computes all rows; with loops that end at `n`, which the pass below makes of the
masks; and compiled for `n` rows alone. `docs/explanation/design/run-time-extents.md` says what follows from it.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
from rich.console import Console
from rich.table import Table
from xdsl.context import Context
from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import FloatAttr, IndexType, ModuleOp, f32
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

import tensorgrad as tg
from tensorgrad.dialects import cpu
from tensorgrad.passes.codegen.build_program import build_program
from tensorgrad.passes.codegen.llvm.lower_buf_to_cpu import LowerBufToCpuPass
from tensorgrad.passes.pipelines import device_passes
from tensorgrad.passes.tensors.simplify import SimplifyPass
from tensorgrad.runtime.cpu import CpuDevice, CpuExecutable
from tensorgrad.tools.parsing import parse_module

ROWS, MOST, WIDTH = 8, 512, 256
LESS = arith.CMPI_COMPARISON_OPERATIONS.index("slt")


@dataclass(frozen=True)
class BoundLoopsPass(ModulePass):
    """Ends loops where masks do, in kernels of `cpu`.

    A reduction all of whose terms are selected, `i < n ? term : 0`, ends at `n`. A selected value that a loop computes
    is computed inside of the condition, and nothing is where it doesn't hold.
    """

    name = "bound-loops"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrites all kernels of a module."""
        for kernel in op.ops:
            if isinstance(kernel, cpu.KernelOp):
                for select in [inner for inner in kernel.walk() if isinstance(inner, arith.SelectOp)]:
                    _clip(select)
                for select in [inner for inner in kernel.walk() if isinstance(inner, arith.SelectOp)]:
                    _guard(select)


def _clip(select: arith.SelectOp) -> None:
    """Ends the loop whose counter a select compares, if all that the loop does is to add what it selects."""
    condition = select.cond.owner
    if not isinstance(condition, arith.CmpiOp) or condition.predicate.value.data != LESS or not _is_zero(select.rhs):
        return
    counter, limit = condition.lhs.owner, condition.rhs.owner
    if not isinstance(counter, arith.IndexCastOp) or not isinstance(limit, memref.LoadOp):
        return
    position = counter.input
    loop = position.block.parent_op() if isinstance(position, BlockArgument) else None
    if not isinstance(loop, scf.ForOp) or position is not loop.body.block.args[0] or loop.res:
        return
    if any(not _adds(store, select) for store in loop.walk() if isinstance(store, memref.StoreOp)):
        return
    zero = arith.ConstantOp.from_int_and_width(0, IndexType())
    extent = memref.LoadOp.get(limit.memref, [zero.result])
    as_index = arith.IndexCastOp(extent.res, IndexType())
    nearer = arith.MinSIOp(loop.ub, as_index.result)
    cast(Block, loop.parent_block()).insert_ops_before([zero, extent, as_index, nearer], loop)
    loop.operands[1] = nearer.result


def _adds(store: memref.StoreOp, select: arith.SelectOp) -> bool:
    """Returns whether a store adds what is selected to what it overwrites."""
    total = store.value.owner
    loaded = total.lhs.owner if isinstance(total, arith.AddfOp) else None
    return (
        isinstance(total, arith.AddfOp)
        and total.rhs is select.result
        and isinstance(loaded, memref.LoadOp)
        and (loaded.memref, *loaded.indices) == (store.memref, *store.indices)
    )


def _is_zero(value: SSAValue) -> bool:
    return isinstance(value.owner, arith.ConstantOp) and value.owner.value == FloatAttr(0.0, f32)


def _guard(select: arith.SelectOp) -> None:
    """Computes a selected value inside of the condition, if a loop of the same block computes it.

    Loads move past stores: these kernels store to other buffers than those that they load from.
    """
    block = cast(Block, select.parent_block())
    inside = _computed_for(select, block)
    if not any(isinstance(op, scf.ForOp) for op in inside):
        return
    for op in inside:
        op.detach()
    then = Block([*inside, scf.YieldOp(select.lhs)])
    branch = scf.IfOp(select.cond, [select.result.type], Region(then), Region(Block([scf.YieldOp(select.rhs)])))
    Rewriter.replace_op(select, branch)


def _computed_for(select: arith.SelectOp, block: Block) -> list[Operation]:
    """Returns the ops of a block that compute what is selected, and nothing else, in their order."""
    ops: set[Operation] = set()
    for op in reversed(list(block.ops)):
        users = {_in_block(use.operation, block) for value in op.results for use in value.uses}
        is_pure = not any(isinstance(inner, memref.StoreOp) for inner in op.walk())
        if users and users <= ops | {select} and is_pure and select.cond.owner is not op:
            ops.add(op)
    return [op for op in block.ops if op in ops]


def _in_block(op: Operation, block: Block) -> Operation:
    while op.parent_block() is not block:
        op = cast(Operation, op.parent_op())
    return op


def function(x: Any, valid: Any) -> Any:
    """Returns the sum over valid positions of a function of rows with mean 0 and variance 1."""

    def masked(value: Any) -> Any:
        return value if valid is None else tg.where(valid, value, 0.0)

    mean = masked(tg.mean(x, axis=-1, keepdims=True))
    inverse = masked(tg.rsqrt(tg.mean(tg.square(x - mean), axis=-1, keepdims=True) + 1e-5))
    return tg.sum(masked(tg.tanh((x - mean) * inverse)), axis=1)


def padded_rows(x: Any, n: Any) -> Any:
    """Returns the function of the first `n` positions, each value of which is masked."""
    return function(x, (tg.arange(x.shape[1]) < n)[:, None])


def all_rows(x: Any) -> Any:
    """Returns the function of all positions."""
    return function(x, None)


def compiled(function: Callable[..., Any], inputs: Mapping[str, Any], is_bounded: bool) -> CpuExecutable:
    """Returns a function's program on the CPU, with or without the pass above."""
    traced = tg.jit(function, device="numpy")
    traced(**inputs)
    module = parse_module(traced.module("tg"), function.__name__)
    device = CpuDevice()
    for pass_ in [SimplifyPass(), *device_passes(device.target)]:
        pass_.apply(Context(), module)
        if is_bounded and isinstance(pass_, LowerBufToCpuPass):
            BoundLoopsPass().apply(Context(), module)
            module.verify()
    return CpuExecutable(build_program(module, device.target), device)


def result(program: CpuExecutable, inputs: Mapping[str, Any]) -> np.ndarray:
    """Runs a program."""
    return program.step(inputs, {})["output"].numpy()


def contestants(extents: Sequence[int]) -> Iterator[tuple[int, list[Callable[[], np.ndarray]]]]:
    """Yields runs of the three programs for each extent, which give the same results."""
    rows = np.random.default_rng(0).normal(size=(ROWS, MOST, WIDTH)).astype(np.float32)
    whole = {"x": rows, "n": np.int32(MOST)}
    padded, bounded = (compiled(padded_rows, whole, is_bounded) for is_bounded in (False, True))
    for n in extents:
        inputs, own = whole | {"n": np.int32(n)}, {"x": np.ascontiguousarray(rows[:, :n])}
        alone = compiled(all_rows, own, False)
        yield n, [partial(result, padded, inputs), partial(result, bounded, inputs), partial(result, alone, own)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the times for some extents."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.extents", description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args(arguments)
    os.environ["TG_NUM_THREADS"] = "1"
    table = Table(title=f"CPU milliseconds for n of {MOST} positions, minima of {options.rounds}")
    for column in ("n", "all rows, masked", "loops end at n", "compiled for n"):
        table.add_column(column, justify="right")
    for n, runs in contestants((64, 128, 256, 384, 512)):
        seconds = [[_seconds(run) for run in runs] for _ in range(options.rounds)]
        table.add_row(str(n), *(f"{1e3 * min(column):.3f}" for column in zip(*seconds, strict=True)))
    Console().print(table)


def _seconds(run: Callable[[], object]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


if __name__ == "__main__":
    main()
