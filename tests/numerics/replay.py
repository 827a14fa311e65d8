"""Runs a `tg` module through every pass and on a device; keeps the IR of a failing one as a regression test."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import numpy as np
from arithmetic import with_subgroups_of
from harness import Names, NumpyArray, apply, on_buffers
from rounding import parsed, rounding, widened
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from tensorgrad.dialects.buf import KernelOp
from tensorgrad.dialects.schedule import ScheduleAttr
from tensorgrad.dialects.tg.base import Tensor, numpy_dtype
from tensorgrad.interpreters.tensors import TensorExecutor
from tensorgrad.passes.buffers.fuse import FusePass
from tensorgrad.passes.buffers.lower_precision import LowerPrecisionPass
from tensorgrad.passes.buffers.split_reductions import SplitReductionsPass
from tensorgrad.passes.codegen.build_program import build_program
from tensorgrad.passes.codegen.choose import choose, neighbours
from tensorgrad.passes.codegen.wgsl.relay_loops import RelayLoopsPass
from tensorgrad.passes.pipelines import device_passes, inlined_passes
from tensorgrad.runtime.cpu import CpuDevice, CpuExecutable
from tensorgrad.runtime.target import Target
from tensorgrad.runtime.webgpu import WebGPUDevice, WebGPUExecutable

REGRESSIONS = Path(__file__).with_name("regressions")
LEVELS_AGREE = 1e-9
"""How far a pass may move results in f64, relative to the largest element."""


@dataclass(frozen=True)
class Variant:
    """How a module is compiled and run.

    Attributes:
        seed: The seed of the inputs.
        frugal: Whether the passes minimize memory.
        schedules: Draws a schedule close to the default for each kernel; 0 keeps the default. Reductions are split into
            one more part.
        target: The profile to compile for.
        half: Whether values between kernels are stored as half floats; then f64 is not compared below `fuse`.
    """

    seed: int = 0
    frugal: bool = False
    schedules: int = 0
    target: str = "lavapipe"
    half: bool = False

    def header(self) -> str:
        """As the first line of a file."""
        settings = f"seed={self.seed} frugal={int(self.frugal)} schedules={self.schedules} target={self.target}"
        return f"// VARIANT: {settings}{' half=1' if self.half else ''}\n"

    @classmethod
    def read(cls, text: str) -> Variant:
        """From the first line of a file; the default where it says nothing."""
        match = re.match(r"// VARIANT: seed=(\d+) frugal=([01]) schedules=(\d+) target=(\S+)( half=1)?\n", text)
        return cls(int(match[1]), match[2] == "1", int(match[3]), match[4], bool(match[5])) if match else cls()

    def profile(self) -> Target:
        """The target, with half floats where there are any."""
        target = Target.named(self.target)
        return replace(target, f16=True) if self.half else target


def samples(module: ModuleOp, seed: int) -> list[NumpyArray]:
    """Returns arguments for the module's function: normal floats, small integers, random booleans."""
    random = np.random.default_rng(seed)
    arguments: list[NumpyArray] = []
    for argument in TensorExecutor(module).function.body.block.args:
        kind = cast(Tensor, argument.type)
        shape, dtype = kind.get_shape(), numpy_dtype(kind)
        drawn = (
            random.normal(size=shape) if dtype.kind == "f" else random.integers(0, 2 if dtype.kind == "b" else 7, shape)
        )
        arguments.append(np.asarray(drawn).astype(dtype))
    return arguments


def check_everywhere(module: ModuleOp, variant: Variant, device: WebGPUDevice) -> bool:
    """Returns whether the module's values can be compared; if so, asserts that they agree everywhere.

    Args:
        module: A module with one `tg` function in f32; not modified.
        variant: How it is compiled and run.
        device: The device for the last level.

    Raises:
        AssertionError: A level differs; names it, and the module has been written to `REGRESSIONS`.
    """
    inputs = samples(module, variant.seed)
    rounded = rounding(module, inputs, variant.half)
    if not rounded.settled:
        return False
    level = "reference"
    try:
        wide = [x.astype(np.float64) if x.dtype == np.float32 else x for x in inputs]
        for level, results in on_levels(widened(module), wide, variant):
            for actual, expected in zip(results(), rounded.expected, strict=True):
                scale = float(np.abs(expected).max(initial=0.0)) if expected.dtype.kind == "f" else 0.0
                _compare(actual, expected, LEVELS_AGREE * max(1.0, scale), level)
        if variant.half:  # in f64 nothing is stored with fewer bits
            for level, results in on_levels(module.clone(), inputs, variant):
                for actual, expected, distance in zip(results(), rounded.expected, rounded.tolerances, strict=True):
                    _compare(actual, expected, distance, f"{level}, in f32")
        level = "device"
        for actual, expected, distance in zip(
            on_device(module.clone(), inputs, variant, device), rounded.expected, rounded.tolerances, strict=True
        ):
            _compare(actual, expected, distance, level)
        level = "native code"
        for actual, expected, distance in zip(
            as_native_code(module.clone(), inputs, variant), rounded.expected, rounded.tolerances, strict=True
        ):
            _compare(actual, expected, distance, level)
    except Exception:
        keep(module, variant, level)
        raise
    return True


def keep(module: ModuleOp, variant: Variant, level: str) -> Path:
    """Writes a module whose levels disagree to `REGRESSIONS`, where it is replayed from then on.

    The last failing program that Hypothesis runs is the smallest, so that one is kept.
    """
    path = REGRESSIONS / f"found-{level}.mlir"
    path.write_text(f"{variant.header()}// Differed at {level}.\n{module!s}\n", encoding="utf-8")
    return path


def _compare(actual: NumpyArray, expected: NumpyArray, distance: float, level: str) -> None:
    assert actual.shape == expected.shape, f"{level}: shape {actual.shape}, expected {expected.shape}"
    if expected.dtype.kind != "f":
        np.testing.assert_array_equal(actual.astype(expected.dtype), expected, level)
        return
    np.testing.assert_allclose(actual, expected, rtol=0, atol=distance, err_msg=level)


def passes_of(variant: Variant, target: Target) -> list[ModulePass]:
    """Returns all passes from `tg` to `wgsl`.

    If schedules are randomized, reductions are split, contractions get prologues, and loops are relayed wherever that
    is possible.
    """
    above = inlined_passes()
    precision = LowerPrecisionPass(smallest=1) if variant.half else None
    below = device_passes(target, frugal=variant.frugal, precision=precision)
    if variant.schedules:
        parts = SplitReductionsPass(target, variant.schedules + 1)
        below = [parts if pass_.name == parts.name else pass_ for pass_ in below]
        below = [replace(pass_, all_prologues=True) if isinstance(pass_, FusePass) else pass_ for pass_ in below]
        relays = RelayLoopsPass(target, variant.schedules + 1, inner=variant.schedules > 1)
        below = [relays if pass_.name == relays.name else pass_ for pass_ in below]
    return [*above, *below]


def apply_as(pass_: ModulePass, module: ModuleOp, variant: Variant, target: Target) -> None:
    """Applies a pass; if schedules are randomized, `schedule` draws them."""
    if pass_.name == "schedule" and variant.schedules:
        random = np.random.default_rng(variant.schedules)
        for kernel in module.walk():
            if isinstance(kernel, KernelOp):
                default = choose(kernel, target)
                near = [default, *neighbours(default, kernel, target)]
                kernel.properties["schedule"] = ScheduleAttr(near[int(random.integers(len(near)))])
    apply(pass_, module)


def on_levels(
    module: ModuleOp, inputs: Sequence[NumpyArray], variant: Variant
) -> Iterator[tuple[str, Callable[[], list[NumpyArray]]]]:
    """Yields each pass with a function that applies it and runs the module with numpy, down to planned buffers."""
    names, target, buffers = Names(module), variant.profile(), False
    for pass_ in passes_of(variant, target):
        if pass_.name == "lower-buf-to-wgsl":
            return
        buffers = buffers or pass_.name == "lower-tg-to-buf"

        def results(pass_: ModulePass = pass_, buffers: bool = buffers) -> list[NumpyArray]:
            apply_as(pass_, module, variant, target)
            return on_buffers(module, inputs, names) if buffers else TensorExecutor(module).call(inputs)

        yield pass_.name, results


def on_device(
    module: ModuleOp, inputs: Sequence[NumpyArray], variant: Variant, device: WebGPUDevice
) -> list[NumpyArray]:
    """Returns the results on a device."""
    names, target = Names(module), with_subgroups_of(device, variant.profile())
    for pass_ in passes_of(variant, target):
        apply_as(pass_, module, variant, target)
    # Any adapter may run it: the profile's limits are the smaller ones.
    return _results(
        WebGPUExecutable(replace(build_program(module, target), target=None), device, trusted=True), names, inputs
    )


def as_native_code(module: ModuleOp, inputs: Sequence[NumpyArray], variant: Variant) -> list[NumpyArray]:
    """Returns the results as native code."""
    device, names = CpuDevice(), Names(module)
    for pass_ in passes_of(variant, device.target):
        apply_as(pass_, module, variant, device.target)
    return _results(CpuExecutable(build_program(module, device.target), device), names, inputs)


def _results(
    executable: WebGPUExecutable | CpuExecutable, names: Names, inputs: Sequence[NumpyArray]
) -> list[NumpyArray]:
    persistent = {name for name, slot in executable.program.slots("parameter").items() if slot}
    values = dict(zip(names.arguments, inputs, strict=True))
    executable.write({name: value for name, value in values.items() if name in persistent})
    outputs = executable.step({name: value for name, value in values.items() if name not in persistent}, {})
    updated = executable.read(persistent)
    results: list[NumpyArray] = []
    for key in names.results:
        role, name = key.split("/", 1)
        results.append(np.asarray(updated[name] if role == "update" else outputs[name].numpy()))
    return results


def replayed(path: Path) -> tuple[ModuleOp, Variant]:
    """Returns a stored module, and how it is run."""
    text = path.read_text(encoding="utf-8")
    return parsed(text), Variant.read(text)
