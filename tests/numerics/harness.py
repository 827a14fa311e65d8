"""Runs a traced function at every level of the pipeline, and checks the IR between passes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnknownLoc
from xdsl.passes import ModulePass

from tensorgrad.checks.certify import certify_plan
from tensorgrad.dialects.buf import KernelOp
from tensorgrad.dialects.functions import find_function
from tensorgrad.dialects.native_schedules import PackedSchedule
from tensorgrad.dialects.schedule import ScheduleAttr
from tensorgrad.dialects.signature import arguments_of, results_of
from tensorgrad.dialects.tg import contract, convolution, reduce
from tensorgrad.dialects.tg.base import TensorOp
from tensorgrad.interpreters.buffers import BufferExecutor
from tensorgrad.interpreters.tensors import TensorExecutor
from tensorgrad.passes.analyses.structure import verify_structure
from tensorgrad.passes.buffers.fuse import FusePass
from tensorgrad.passes.buffers.lower_tg_to_buf import LowerTgToBufPass
from tensorgrad.passes.buffers.plan_memory import PlanMemoryPass
from tensorgrad.passes.buffers.schedule import SchedulePass
from tensorgrad.passes.buffers.share_dispatches import ShareDispatchesPass
from tensorgrad.passes.codegen.build_program import build_program
from tensorgrad.passes.pipelines import Phase, inference_passes, start_of
from tensorgrad.passes.tensors.grad import GradPass
from tensorgrad.passes.tensors.inline_calls import InlineCallsPass
from tensorgrad.passes.tensors.simplify import SimplifyPass
from tensorgrad.runtime.cpu import CpuDevice, CpuExecutable
from tensorgrad.runtime.target import Target
from tensorgrad.tracing.dtypes import Spec
from tensorgrad.tracing.tracer import trace

NumpyArray: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Function: TypeAlias = Callable[..., Any]

BUFFER_PASSES: tuple[ModulePass, ...] = (
    LowerTgToBufPass(),
    FusePass(),
    SchedulePass(),
    ShareDispatchesPass(),
    PlanMemoryPass(),
)
"""The passes on buffers, in the order of the pipeline."""

TOLERANCE: dict[type[TensorOp], float] = {
    reduce.SumOp: 3e-6,
    contract.DotGeneralOp: 5e-6,
    convolution.ConvOp: 5e-6,
}
"""How far values may be from numpy's where sums round in another order; other ops keep to the case's own `rtol`."""

GRADIENT = 2e-5
"""Of a whole gradient program in f32, relative to its largest element, against the reference in f64."""


def traced(function: Function, inputs: Sequence[NumpyArray]) -> ModuleOp:
    """Returns the module of a function traced on the shapes and dtypes of `inputs`."""
    module = trace(function, *specs(inputs))  # which verifies it
    check_places(module)
    return module


def specs(inputs: Sequence[NumpyArray]) -> list[Spec]:
    """Returns the shapes and dtypes of arrays."""
    return [Spec(value.shape, value.dtype) for value in inputs]


def check_module(module: ModuleOp) -> None:
    """Verifies a module, including dominance and locations, which xDSL's verifier doesn't check."""
    module.verify()
    check_places(module)


def check_places(module: ModuleOp) -> None:
    """Verifies what xDSL's verifier doesn't: that definitions dominate uses, and that each op has a location."""
    verify_structure(module)
    for op in module.walk():
        assert not isinstance(op.location, UnknownLoc), f"{op.name} has no location"


def apply(pass_: ModulePass, module: ModuleOp, check: bool = True) -> None:
    """Applies a pass in place, and checks the resulting module unless told not to; memory plans are certified."""
    before = module.clone() if isinstance(pass_, PlanMemoryPass) else None
    pass_.apply(Context(), module)
    if check:
        check_module(module)
    if before is not None:
        certify_plan(before, module)


def lower(
    module: ModuleOp, target: Target, each: bool = True, change: Callable[[ModuleOp], None] | None = None
) -> None:
    """Applies the passes down to kernels of a target; checks the module after `each` pass, or else after each level.

    `change` may edit the scheduled kernels.
    """
    passes = inference_passes(target)
    ends = {start_of(Phase.BUFFERS, passes), start_of(Phase.DEVICE, passes), len(passes)}
    for number, pass_ in enumerate(passes, 1):
        apply(pass_, module, each or number in ends)
        if change is not None and pass_.name == "schedule":
            change(module)


def with_gradient(module: ModuleOp, wrt: Sequence[int]) -> ModuleOp:
    """Returns the module with the gradients of its first result by the arguments in `wrt`, simplified."""
    apply(GradPass(wrt=tuple(wrt)), module)
    apply(SimplifyPass(), module)
    return module


def reference(module: ModuleOp, inputs: Sequence[NumpyArray]) -> list[NumpyArray]:
    """Returns the results of a `tg` module, computed with numpy."""
    return TensorExecutor(module).call(inputs)


def scalar_function(module: ModuleOp) -> Callable[..., float]:
    """Returns the first result of a `tg` module as a function of arrays, prepared once for many calls."""
    executor = TensorExecutor(module)
    return lambda *inputs: float(executor.call(inputs)[0])


def as_native_code(
    module: ModuleOp,
    inputs: Sequence[NumpyArray],
    each: bool = True,
    change: Callable[[ModuleOp], None] | None = None,
) -> list[NumpyArray]:
    """Runs a `tg` module as native code twice, checks that the bits are equal, and returns the results in order.

    The module is checked after `each` pass, or else after each level; `change` may edit the scheduled kernels.
    """
    device, names = CpuDevice(), Names(module)
    lower(module, device.target, each, change)
    executable = CpuExecutable(build_program(module, device.target), device)
    arguments = dict(zip(names.arguments, inputs, strict=True))
    first, second = (
        [outputs[key.removeprefix("output/")].numpy() for key in names.results]
        for outputs in (executable.step(arguments, {}), executable.step(arguments, {}))
    )
    for pass_, other in zip(first, second, strict=True):
        assert pass_.tobytes() == other.tobytes(), "a second step differs from the first"
    return first


def until_scheduled(module: ModuleOp) -> ModulePass:
    """Runs and checks the passes for the CPU until kernels are scheduled; returns the one that writes their code."""
    for pass_ in inference_passes(CpuDevice().target):
        if pass_.name == "lower-buf-to-cpu":
            return pass_
        pass_.apply(Context(), module)
        check_module(module)
    raise AssertionError("no pass writes code for the CPU")


def as_scheduled(module: ModuleOp, change: Mapping[str, int]) -> None:
    """Writes the code of a module with one product, whose schedule is edited."""
    writes_code = until_scheduled(module)
    (kernel,) = [op for op in module.walk() if isinstance(op, KernelOp)]
    assert kernel.schedule is not None and isinstance(kernel.schedule.data, PackedSchedule)
    edited = replace(kernel.schedule.data, **change)
    kernel.schedule = ScheduleAttr(replace(edited, groups=(edited.tasks_over(kernel.extents), 1, 1)))
    writes_code.apply(Context(), module)


class Names:
    """The names that executors use for the arguments and results of a `tg` module."""

    def __init__(self, module: ModuleOp):
        function = find_function(module, None)
        self.arguments = [slot.name for slot in arguments_of(function)]
        self.results = [f"{slot.role}/{slot.name}" for slot in results_of(function)]


def on_buffers(module: ModuleOp, inputs: Sequence[NumpyArray], names: Names) -> list[NumpyArray]:
    """Returns the results of a `buf` module, computed with numpy, in the order of the `tg` module's results."""
    results = BufferExecutor(module).run(dict(zip(names.arguments, inputs, strict=True)))
    return [results[key] for key in names.results]


def levels(module: ModuleOp, inputs: Sequence[NumpyArray]) -> Iterator[tuple[str, list[NumpyArray]]]:
    """Returns the results at every level; lowers the `tg` module to buffers on the way."""
    expected, names = reference(module, inputs), Names(module)
    yield "tg", expected
    apply(InlineCallsPass(), module)
    apply(SimplifyPass(), module)
    for before, after in zip(expected, reference(module, inputs), strict=True):
        np.testing.assert_array_equal(after, before, "simplify changed a value")
        np.testing.assert_array_equal(np.signbit(after), np.signbit(before), "simplify changed the sign of a zero")
    for pass_ in BUFFER_PASSES:
        apply(pass_, module)
        yield pass_.name, on_buffers(module, inputs, names)


def assert_same(actual: NumpyArray, expected: NumpyArray, rtol: float, what: str) -> None:
    """Compares shape, kind and values; `rtol` is relative, but absolute below 1 or the largest element."""
    assert actual.shape == expected.shape, f"{what}: shape {actual.shape}, expected {expected.shape}"
    if expected.dtype.kind != "f" or rtol == 0:
        np.testing.assert_array_equal(actual.astype(expected.dtype), expected, what)
        return
    finite = np.abs(expected[np.isfinite(expected)])
    scale = float(finite.max(initial=0.0))
    np.testing.assert_allclose(actual, expected, rtol=rtol, atol=rtol * min(scale, 1.0), err_msg=what)
