"""Named sequences of passes, for `tg-opt` and the Python API, and the parser of pass specifications."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias, cast, get_args, get_type_hints

from xdsl.passes import ModulePass
from xdsl.utils.arg_spec import ArgSpec, ParameterListType, ParameterType, parse_pipeline

from tensorgrad.passes.registry import PASSES
from tensorgrad.runtime.target import WEBGPU_DEFAULT, Target

if TYPE_CHECKING:
    from tensorgrad.passes.levels import LevelPass


Available: TypeAlias = Mapping[str, Callable[[], type[ModulePass]]]
"""Passes by name."""


class Phase(Enum):
    """The phases of a compilation, in order, each named after what its passes work on."""

    STEP = "step"
    """Tensors, with calls: derivatives and updates are added, and each op belongs to the loss or to one of these."""
    TENSORS = "tensors"
    """Tensors, without calls."""
    BUFFERS = "buffers"
    """Kernels over buffers, as they are fused and split."""
    SCHEDULED = "scheduled"
    """Kernels with schedules, as they are ordered and given memory."""
    DEVICE = "device"
    """Kernels of a device: `wgsl`, or `cpu` and `llvm`."""


FIRST: dict[Phase, tuple[str, ...]] = {
    Phase.TENSORS: ("inline-calls",),
    Phase.BUFFERS: ("lower-tg-to-buf",),
    Phase.SCHEDULED: ("schedule",),
    Phase.DEVICE: ("lower-buf-to-wgsl", "lower-buf-to-cpu"),
}
"""The passes that begin each phase but the first: users may add passes anywhere, and leave some out."""


def start_of(phase: Phase, passes: Sequence[ModulePass]) -> int:
    """Returns the index of the first pass of a phase, or of a later one; the number of passes if there is none."""
    order = list(Phase)
    names = {name for later in order[order.index(phase) :] for name in FIRST.get(later, ())}
    return next((number for number, pass_ in enumerate(passes) if pass_.name in names), len(passes))


def until(phase: Phase, passes: Sequence[ModulePass]) -> Sequence[ModulePass]:
    """Returns the passes before a phase."""
    return passes[: start_of(phase, passes)]


def tensor_passes(
    function: str | None,
    updates: Sequence[ModulePass],
    segments: int = 1,
    wrt: Sequence[tuple[int, ...] | None] = (None,),
    target: Target | None = None,
) -> list[ModulePass]:
    """Returns the passes on `tg` that turn a loss into a training step.

    Args:
        function: The loss; may be `None` if the module has one function.
        updates: The passes that turn gradients into updates, if any.
        segments: The number of segments into which `remat` divides the loss; all but the last are recomputed.
        wrt: For each loss, which come first among the function's results: the indices of the arguments to differentiate
            by; `None` stands for all parameters. If `wrt` is empty, nothing is differentiated.
        target: The target, if known.
    """
    from tensorgrad.passes.tensors.grad import GradPass
    from tensorgrad.passes.tensors.inline_calls import InlineCallsPass
    from tensorgrad.passes.tensors.outline_attention import OutlineAttentionPass
    from tensorgrad.passes.tensors.remat import RematPass
    from tensorgrad.passes.tensors.simplify import SimplifyPass

    again = [] if segments == 1 else [RematPass(segments=segments, function=function)]
    return [
        SimplifyPass(),
        OutlineAttentionPass(target=target),
        *again,
        *(GradPass(function=function, wrt=places, result=result) for result, places in enumerate(wrt)),
        *updates,
        InlineCallsPass(recompute=False),
        SimplifyPass(),
    ]


def device_passes(
    target: Target = WEBGPU_DEFAULT,
    tuned: str | None = None,
    frugal: bool = False,
    precision: LevelPass | None = None,
) -> list[ModulePass]:
    """Returns the passes from `tg` down to `wgsl`, or to `llvm` for native targets.

    Args:
        target: The device's limits and features.
        tuned: A file of schedules that were measured on the target.
        frugal: Whether to order kernels for little memory rather than for few dispatches.
        precision: The pass that rounds values between kernels, or factors of products, if any.
    """
    from tensorgrad.passes.buffers.fuse.fuse_pass import RULES, FusePass
    from tensorgrad.passes.buffers.lower_tg_to_buf import LowerTgToBufPass
    from tensorgrad.passes.buffers.order_kernels import OrderKernelsPass
    from tensorgrad.passes.buffers.schedule import SchedulePass
    from tensorgrad.passes.buffers.split_reductions import SplitReductionsPass
    from tensorgrad.passes.tensors.inline_calls import InlineCallsPass
    from tensorgrad.passes.tensors.recompute import RecomputePass
    from tensorgrad.passes.tensors.widen_bf16 import WidenBf16Pass

    # Merging siblings extends the live ranges of the operands of all of them.
    rules = tuple(rule for rule in RULES if rule != "siblings") if frugal else ()
    inlining = [InlineCallsPass(target=target), WidenBf16Pass(target=target)]
    fusing: list[ModulePass] = [FusePass(target=target, only=rules), *([] if precision is None else [precision])]
    fusing.append(SplitReductionsPass(target=target))
    scheduling: list[ModulePass] = [SchedulePass(target=target, tuned=tuned), *([OrderKernelsPass()] if frugal else [])]
    if target.native:
        lowering = [RecomputePass(), LowerTgToBufPass(target=target)]
        return [*inlining, *lowering, *fusing, *scheduling, *scheduled_passes(target)]
    from tensorgrad.passes.buffers.share_dispatches import ShareDispatchesPass
    from tensorgrad.passes.buffers.split_kernels import SplitKernelsPass
    from tensorgrad.passes.buffers.store_bf16_as_f32 import StoreBf16AsF32Pass
    from tensorgrad.passes.tensors.widen_integers import WidenIntegersPass

    return [
        *inlining,
        WidenIntegersPass(target=target),
        RecomputePass(),
        LowerTgToBufPass(target=target),
        StoreBf16AsF32Pass(target=target),
        *fusing,
        SplitKernelsPass(target=target),
        *scheduling,
        ShareDispatchesPass(target=target, slack=0) if frugal else ShareDispatchesPass(target=target),
        *scheduled_passes(target),
    ]


def scheduled_passes(target: Target) -> list[ModulePass]:
    """Returns the passes from scheduled kernels down to `wgsl`, or to `llvm` for native targets."""
    from tensorgrad.passes.buffers.overlap_collectives import OverlapCollectivesPass
    from tensorgrad.passes.buffers.plan_memory import PlanMemoryPass
    from tensorgrad.passes.codegen.common.expand_math import ExpandMathPass

    planning = [OverlapCollectivesPass(), PlanMemoryPass(target=target)]
    if target.native:
        from tensorgrad.passes.codegen.llvm.convert_to_llvm import ConvertToLlvmPass
        from tensorgrad.passes.codegen.llvm.lower_buf_to_cpu import LowerBufToCpuPass

        return [
            *planning,
            LowerBufToCpuPass(target=target),
            ExpandMathPass(target=target),
            ConvertToLlvmPass(target=target),
        ]
    from tensorgrad.passes.buffers.cut_grids import CutGridsPass
    from tensorgrad.passes.codegen.wgsl.keep_ieee import KeepIeeePass
    from tensorgrad.passes.codegen.wgsl.lower_buf_to_wgsl import LowerBufToWgslPass
    from tensorgrad.passes.codegen.wgsl.relay_loops import RelayLoopsPass

    return [
        *planning,
        CutGridsPass(target=target),
        LowerBufToWgslPass(target=target),
        RelayLoopsPass(target=target),
        KeepIeeePass(),
        ExpandMathPass(),
    ]


def training_passes(
    function: str | None,
    optimizer: ModulePass | None,
    target: Target = WEBGPU_DEFAULT,
    precision: LevelPass | None = None,
) -> list[ModulePass]:
    """Returns the passes from a loss on `tg` to the kernels of a training step: `tensor_passes`, then `device_passes`.

    Args:
        function: The loss; may be `None` if the module has one function.
        optimizer: The pass that adds the update functions, if any.
        target: The device's limits and features.
        precision: The pass that rounds values between kernels, or factors of products, if any.
    """
    from tensorgrad.passes.tensors.append_updates import AppendUpdatesPass
    from tensorgrad.passes.tensors.pack_updates import PackUpdatesPass

    if optimizer is None:
        return [*tensor_passes(function, [], target=target), *device_passes(target, precision=precision)]
    passes = [PackUpdatesPass(function), AppendUpdatesPass(function)]
    updating = tensor_passes(function, passes, target=target)
    return [optimizer, *updating, *device_passes(target, precision=precision)]


def forward_passes(target: Target | None = None) -> list[ModulePass]:
    """Returns the passes on `tg` for functions that run as traced, without derivatives; `target` may be unknown."""
    from tensorgrad.passes.tensors.outline_attention import OutlineAttentionPass
    from tensorgrad.passes.tensors.simplify import SimplifyPass

    return [SimplifyPass(), OutlineAttentionPass(target=target)]


def inlined_passes(target: Target | None = None) -> list[ModulePass]:
    """Returns the passes on `tg` for functions that may contain calls; `target` may be unknown."""
    from tensorgrad.passes.tensors.inline_calls import InlineCallsPass

    return [InlineCallsPass(recompute=False), *forward_passes(target)]


def inference_passes(target: Target = WEBGPU_DEFAULT, precision: LevelPass | None = None) -> list[ModulePass]:
    """Returns the passes from functions on `tg` to the kernels that compute them."""
    return [*inlined_passes(target), *device_passes(target, precision=precision)]


@dataclass(frozen=True)
class Pipeline(ABC):
    """A named sequence of passes, whose options become options of its passes."""

    name: ClassVar[str]

    @classmethod
    @abstractmethod
    def from_spec(cls, spec: ArgSpec, available: Available) -> Self:
        """Returns the pipeline with the given options, whose names may have dashes in place of underscores.

        Args:
            spec: The name and the options.
            available: The passes by name.

        Raises:
            ValueError: An option is unknown, missing or of the wrong type.
        """

    @abstractmethod
    def expand(self) -> tuple[ModulePass, ...]:
        """Returns the passes, in order."""


@dataclass(frozen=True)
class TrainingPipeline(Pipeline):
    """Lowers a loss to the kernels of a training step.

    As text, `training-pipeline{function=loss optimizer="adam(1e-3)" target=webgpu-default}`: the optimizer is an
    argument of `trace-optimizer`, or `none`. `precision=f16` adds `lower-precision` after `fuse`, and `loss-scale=1024`
    sets its scale; `precision=bf16-products` adds `round-factors`.

    Attributes:
        optimizer: The pass that adds the update functions, if any.
        function: The loss; may be omitted if there is only one function.
        target: The device; in text a profile, a file or JSON.
        precision: The pass that rounds values between kernels, or factors of products, if any.
    """

    name = "training-pipeline"

    optimizer: ModulePass | None
    function: str | None = None
    target: Target = WEBGPU_DEFAULT
    precision: LevelPass | None = None

    @classmethod
    def from_spec(cls, spec: ArgSpec, available: Available) -> Self:
        options = dict(spec.normalize_parameter_names().parameters)
        target = Target.from_spec(_text(cls.name, "target", options.pop("target", (WEBGPU_DEFAULT.name,))))
        precision = _precision(cls.name, options)
        check_options(cls.name, options, ("optimizer", "function", "target", "precision", "loss_scale"))
        chosen = _text(cls.name, "optimizer", options.pop("optimizer", ()))
        function = _text(cls.name, "function", options["function"]) if "function" in options else None
        if chosen == "none":
            return cls(None, function, target, precision)
        settings: dict[str, ParameterListType] = {"optimizer": (chosen,), **options}
        return cls(read_pass(ArgSpec("trace-optimizer", settings), available), function, target, precision)

    def expand(self) -> tuple[ModulePass, ...]:
        return tuple(training_passes(self.function, self.optimizer, self.target, self.precision))


@dataclass(frozen=True)
class InferencePipeline(Pipeline):
    """Lowers functions on `tg` to the kernels that compute them: `inference-pipeline{target=webgpu-default}`.

    `precision=f16` adds `lower-precision` after `fuse`, and `precision=bf16-products` adds `round-factors`.

    Attributes:
        target: The device; in text a profile, a file or JSON.
        precision: The pass that rounds values between kernels, or factors of products, if any.
    """

    name = "inference-pipeline"

    target: Target = WEBGPU_DEFAULT
    precision: LevelPass | None = None

    @classmethod
    def from_spec(cls, spec: ArgSpec, available: Available) -> Self:
        options = dict(spec.normalize_parameter_names().parameters)
        target = Target.from_spec(_text(cls.name, "target", options.pop("target", (WEBGPU_DEFAULT.name,))))
        precision = _precision(cls.name, options)
        check_options(cls.name, options, ("target", "precision", "loss_scale"))
        return cls(target, precision)

    def expand(self) -> tuple[ModulePass, ...]:
        return tuple(inference_passes(self.target, self.precision))


PIPELINES: dict[str, type[Pipeline]] = {kind.name: kind for kind in (TrainingPipeline, InferencePipeline)}
"""The pipelines by name."""


PRECISIONS: dict[str, ArgSpec | None] = {
    "f32": None,
    "f16": ArgSpec("lower-precision", {"element": ("f16",)}),
    "bf16": ArgSpec("lower-precision", {"element": ("bf16",), "scale": (1.0,)}),
    "bf16-products": ArgSpec("round-factors", {"element": ("bf16",)}),
}
"""The pass after `fuse` that implements each precision."""


def _precision(pipeline: str, options: dict[str, ParameterListType]) -> LevelPass | None:
    """Removes the options of a precision; returns the pass that implements it, if there is one."""
    precision = _text(pipeline, "precision", options.pop("precision", ("f32",)))
    scale = options.pop("loss_scale", None)
    if precision not in PRECISIONS:
        raise ValueError(f"{pipeline}: precision must be one of {', '.join(PRECISIONS)}, not {precision}")
    if scale is not None and precision != "f16":
        raise ValueError(f"{pipeline}: loss-scale needs precision=f16")
    return precision_pass(precision, None if scale is None else cast(float, scale[0]))


def precision_pass(precision: str, scale: float | None = None) -> LevelPass | None:
    """Returns the pass that implements a precision, one of `PRECISIONS`; `None` if everything is f32.

    Args:
        precision: The precision.
        scale: The factor of cotangents that are stored with fewer bits.
    """
    spec = PRECISIONS[precision]
    if spec is None:
        return None
    settings: dict[str, ParameterListType] = {} if scale is None else {"scale": (scale,)}
    return cast("LevelPass", read_pass(ArgSpec(spec.name, {**spec.parameters, **settings}), PASSES))


def _text(pipeline: str, option: str, values: ParameterListType) -> str:
    if len(values) != 1 or not isinstance(values[0], str):
        raise ValueError(f"{pipeline}: {option} must be a single word or string")
    return values[0]


def read_passes(text: str, available: Available = PASSES) -> tuple[ModulePass, ...]:
    """Reads a comma-separated list of passes and pipelines, and expands the pipelines.

    For a float option, `1`, `0.001` and `1e-3` are all accepted.

    Raises:
        ValueError: A name or an option is unknown, an option is missing or has the wrong type.
    """
    passes: list[ModulePass] = []
    for spec in parse_pipeline(text):
        pipeline = PIPELINES.get(spec.name)
        passes += [read_pass(spec, available)] if pipeline is None else pipeline.from_spec(spec, available).expand()
    return tuple(passes)


def read_pass(spec: ArgSpec, available: Available) -> ModulePass:
    """Returns the pass that a specification names, with its options.

    Raises:
        ValueError: The name or an option is unknown, an option is missing or has the wrong type.
    """
    kind = find_pass(spec.name, available)
    spec = spec.normalize_parameter_names()
    check_options(spec.name, spec.parameters, option_names(kind))
    try:
        return kind.from_spec(ArgSpec(spec.name, as_declared(spec.parameters, kind)))
    except ValueError as error:
        raise ValueError(f"{spec.name}: {error}") from error


def find_pass(name: str, available: Available) -> type[ModulePass]:
    """Returns the class of the pass with a name.

    Raises:
        ValueError: There is none.
    """
    if name not in available:
        close = get_close_matches(name, [*available, *PIPELINES], n=1)
        raise ValueError(f"there is no pass or pipeline {name!r}{f'; did you mean {close[0]}?' if close else ''}")
    return available[name]()


def option_names(kind: type[ModulePass]) -> tuple[str, ...]:
    """Returns the names of a pass's options, with underscores."""
    return tuple(field.name for field in fields(kind) if field.name != "_")


def check_options(name: str, names: Iterable[str], *allowed: Iterable[str]) -> None:
    """Checks that options exist.

    Args:
        name: The pass or pipeline, for the message.
        names: The names of the options, with underscores.
        allowed: The names of the options that exist.

    Raises:
        ValueError: An option does not exist; the message suggests the closest one and lists all.
    """
    known = [option.replace("_", "-") for options in allowed for option in options]
    for option in names:
        written = option.replace("_", "-")
        if written not in known:
            close = get_close_matches(written, known, n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            options = f"its options are {', '.join(sorted(known))}" if known else "it has no options"
            raise ValueError(f"{name} has no option {written!r}{hint} ({options})")


def as_declared(parameters: Mapping[str, ParameterListType], kind: type) -> dict[str, ParameterListType]:
    """Returns options converted to the types of a class's fields."""
    hints = get_type_hints(kind)
    return {name: _as_declared(values, hints.get(name)) for name, values in parameters.items()}


def _as_declared(values: ParameterListType, hint: Any) -> ParameterListType:
    """Converts option values to a declared type: xDSL parses `1` as an int, `1e-3` as a word, `{flag}` as empty."""
    allowed = {hint, *get_args(hint)}
    if hint is bool and not values:
        return (True,)
    if float in allowed and not allowed & {int, str}:
        return tuple(_as_float(value) for value in values)
    return values


def _as_float(value: ParameterType) -> ParameterType:
    try:
        return value if isinstance(value, bool) else float(value)
    except ValueError:
        return value
