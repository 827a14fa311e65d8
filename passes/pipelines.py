"""Named sequences of passes, for `tg-opt` and for the Python API, and how pass specifications are read from text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias, cast, get_args, get_type_hints

from xdsl.passes import ModulePass
from xdsl.utils.arg_spec import ArgSpec, ParameterListType, ParameterType, parse_pipeline

from tensorgrad.passes.registry import PASSES
from tensorgrad.runtime.target import WEBGPU_DEFAULT, Target

if TYPE_CHECKING:
    from tensorgrad.passes.buffers.lower_precision import LowerPrecisionPass


Available: TypeAlias = Mapping[str, Callable[[], type[ModulePass]]]
"""Passes by name."""

LOWERINGS = ("lower-buf-to-wgsl", "lower-buf-to-cpu")
"""The passes that leave the level `buf`."""


def tensor_passes(
    function: str | None,
    updates: Sequence[ModulePass],
    segments: int = 1,
    wrt: Sequence[tuple[int, ...] | None] = (None,),
    target: Target | None = None,
) -> list[ModulePass]:
    """Returns the passes on `tg` that make a training step of a loss.

    Args:
        function: The loss; may be `None` where the module has one function.
        updates: What makes updates of gradients, if anything does.
        segments: Into how many runs `remat` divides the loss, all but the last of which are computed twice.
        wrt: For each loss among the function's results, which come first, the places of the parameters to differentiate
            it by among the arguments; all of them for `None`. Without any, nothing is differentiated.
        target: Where it is to run, if that is known.
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
    precision: LowerPrecisionPass | None = None,
) -> list[ModulePass]:
    """Returns the passes from `tg` down to `wgsl`, or to `llvm` where the target is native code.

    Args:
        target: The device's limits and features.
        tuned: A file of schedules that were measured on the target.
        frugal: Whether kernels run in an order that needs little memory, rather than in few dispatches.
        precision: The pass that stores values between kernels with fewer bits, if they are to be.
    """
    from tensorgrad.passes.buffers.fuse.fuse_pass import RULES, FusePass
    from tensorgrad.passes.buffers.lower_tg_to_buf import LowerTgToBufPass
    from tensorgrad.passes.buffers.order_kernels import OrderKernelsPass
    from tensorgrad.passes.buffers.schedule import SchedulePass
    from tensorgrad.passes.buffers.split_reductions import SplitReductionsPass
    from tensorgrad.passes.tensors.inline_calls import InlineCallsPass
    from tensorgrad.passes.tensors.recompute import RecomputePass

    # What runs side by side keeps the operands of all of it in use.
    rules = tuple(rule for rule in RULES if rule != "siblings") if frugal else ()
    fusing: list[ModulePass] = [LowerTgToBufPass(), FusePass(target=target, only=rules)]
    fusing += [] if precision is None else [precision]
    fusing.append(SplitReductionsPass(target=target))
    scheduling: list[ModulePass] = [SchedulePass(target=target, tuned=tuned), *([OrderKernelsPass()] if frugal else [])]
    if target.native:
        inlining = [InlineCallsPass(target=target), RecomputePass()]
        return [*inlining, *fusing, *scheduling, *scheduled_passes(target)]
    from tensorgrad.passes.buffers.share_dispatches import ShareDispatchesPass
    from tensorgrad.passes.buffers.split_kernels import SplitKernelsPass
    from tensorgrad.passes.tensors.widen_integers import WidenIntegersPass

    return [
        InlineCallsPass(target=target),
        WidenIntegersPass(target=target),
        RecomputePass(),
        *fusing,
        SplitKernelsPass(target=target),
        *scheduling,
        ShareDispatchesPass(target=target, slack=0) if frugal else ShareDispatchesPass(target=target),
        *scheduled_passes(target),
    ]


def scheduled_passes(target: Target) -> list[ModulePass]:
    """Returns the passes from scheduled kernels down to `wgsl`, or to `llvm` where the target is native code."""
    from tensorgrad.passes.buffers.overlap_collectives import OverlapCollectivesPass
    from tensorgrad.passes.buffers.plan_memory import PlanMemoryPass
    from tensorgrad.passes.kernels.expand_math import ExpandMathPass

    planning = [OverlapCollectivesPass(), PlanMemoryPass(target=target)]
    if target.native:
        from tensorgrad.passes.kernels.convert_to_llvm import ConvertToLlvmPass
        from tensorgrad.passes.kernels.lower_buf_to_cpu import LowerBufToCpuPass

        return [
            *planning,
            LowerBufToCpuPass(target=target),
            ExpandMathPass(target=target),
            ConvertToLlvmPass(target=target),
        ]
    from tensorgrad.passes.buffers.cut_grids import CutGridsPass
    from tensorgrad.passes.kernels.keep_ieee import KeepIeeePass
    from tensorgrad.passes.kernels.lower_buf_to_wgsl import LowerBufToWgslPass
    from tensorgrad.passes.kernels.relay_loops import RelayLoopsPass

    return [
        *planning,
        CutGridsPass(target=target),
        LowerBufToWgslPass(target=target),
        RelayLoopsPass(target=target),
        KeepIeeePass(),
        ExpandMathPass(),
    ]


def lowering_in(passes: Sequence[ModulePass]) -> int:
    """Returns the number of the pass that leaves the level `buf`."""
    return next(number for number, one in enumerate(passes) if one.name in LOWERINGS)


def training_passes(
    function: str | None,
    optimizer: ModulePass | None,
    target: Target = WEBGPU_DEFAULT,
    precision: LowerPrecisionPass | None = None,
) -> list[ModulePass]:
    """Returns the passes from a loss on `tg` to the kernels of a training step: `tensor_passes`, then `device_passes`.

    Args:
        function: The loss; may be `None` where the module has one function.
        optimizer: The pass that adds the update functions, if there are to be any.
        target: The device's limits and features.
        precision: The pass that stores values between kernels with fewer bits, if they are to be.
    """
    from tensorgrad.passes.tensors.append_updates import AppendUpdatesPass
    from tensorgrad.passes.tensors.pack_updates import PackUpdatesPass

    if optimizer is None:
        return [*tensor_passes(function, [], target=target), *device_passes(target, precision=precision)]
    passes = [PackUpdatesPass(function), AppendUpdatesPass(function)]
    updating = tensor_passes(function, passes, target=target)
    return [optimizer, *updating, *device_passes(target, precision=precision)]


def forward_passes(target: Target | None = None) -> list[ModulePass]:
    """Returns the passes on `tg` for functions that are run as they were traced, on a target if that is known."""
    from tensorgrad.passes.tensors.outline_attention import OutlineAttentionPass
    from tensorgrad.passes.tensors.simplify import SimplifyPass

    return [SimplifyPass(), OutlineAttentionPass(target=target)]


def inlined_passes(target: Target | None = None) -> list[ModulePass]:
    """Returns the passes on `tg` for functions that may call others, on a target if that is known."""
    from tensorgrad.passes.tensors.inline_calls import InlineCallsPass

    return [InlineCallsPass(recompute=False), *forward_passes(target)]


def inference_passes(target: Target = WEBGPU_DEFAULT, precision: LowerPrecisionPass | None = None) -> list[ModulePass]:
    """Returns the passes from functions on `tg` to the kernels that compute them."""
    return [*inlined_passes(target), *device_passes(target, precision=precision)]


@dataclass(frozen=True)
class Pipeline(ABC):
    """A name for a sequence of passes; its options become options of theirs."""

    name: ClassVar[str]

    @classmethod
    @abstractmethod
    def from_spec(cls, spec: ArgSpec, available: Available) -> Self:
        """Returns the pipeline with options as written, dashes for underscores or not.

        Args:
            spec: The name and the options.
            available: The passes that there are.

        Raises:
            ValueError: An option is unknown, missing or of the wrong type.
        """

    @abstractmethod
    def expand(self) -> tuple[ModulePass, ...]:
        """Returns the passes, in order."""


@dataclass(frozen=True)
class TrainingPipeline(Pipeline):
    """From a loss to the kernels of a training step.

    As text, `training-pipeline{function=loss optimizer="adam(1e-3)" target=webgpu-default}`: the optimizer is what
    `trace-optimizer` takes, or `none`. `precision=f16` puts `lower-precision` behind `fuse`, `loss-scale=1024` gives it
    that scale.

    Attributes:
        optimizer: The pass that adds the update functions, if there are to be any.
        function: The loss; may be absent where there is only one function.
        target: The device; in text a profile, a file or JSON.
        precision: The pass that stores values between kernels with fewer bits, if they are to be.
    """

    name = "training-pipeline"

    optimizer: ModulePass | None
    function: str | None = None
    target: Target = WEBGPU_DEFAULT
    precision: LowerPrecisionPass | None = None

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
        given: dict[str, ParameterListType] = {"optimizer": (chosen,), **options}
        return cls(read_pass(ArgSpec("trace-optimizer", given), available), function, target, precision)

    def expand(self) -> tuple[ModulePass, ...]:
        return tuple(training_passes(self.function, self.optimizer, self.target, self.precision))


@dataclass(frozen=True)
class InferencePipeline(Pipeline):
    """From functions on `tg` to the kernels that compute them: `inference-pipeline{target=webgpu-default}`.

    `precision=f16` puts `lower-precision` behind `fuse`.

    Attributes:
        target: The device; in text a profile, a file or JSON.
        precision: The pass that stores values between kernels with fewer bits, if they are to be.
    """

    name = "inference-pipeline"

    target: Target = WEBGPU_DEFAULT
    precision: LowerPrecisionPass | None = None

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


def _precision(pipeline: str, options: dict[str, ParameterListType]) -> LowerPrecisionPass | None:
    """Takes the options of `lower-precision` out; the pass, if they ask for it."""
    element = _text(pipeline, "precision", options.pop("precision", ("f32",)))
    scale = options.pop("loss_scale", None)
    if element == "f32":
        if scale is not None:
            raise ValueError(f"{pipeline}: loss-scale is for precision=f16")
        return None
    given: dict[str, ParameterListType] = {"element": (element,)}
    if scale is not None:
        given["scale"] = scale
    return cast("LowerPrecisionPass", read_pass(ArgSpec("lower-precision", given), PASSES))


def _text(pipeline: str, option: str, values: ParameterListType) -> str:
    if len(values) != 1 or not isinstance(values[0], str):
        raise ValueError(f"{pipeline}: {option} must be given as one word or text")
    return values[0]


def read_passes(text: str, available: Available = PASSES) -> tuple[ModulePass, ...]:
    """Reads a comma-separated list of passes and pipelines, and expands the pipelines.

    Numbers may be written as anywhere else: `1`, `0.001` and `1e-3` are all floats where an option is one.

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
    if spec.name not in available:
        close = get_close_matches(spec.name, [*available, *PIPELINES], n=1)
        raise ValueError(f"there is no pass or pipeline {spec.name!r}{f', did you mean {close[0]}?' if close else ''}")
    kind = available[spec.name]()
    spec = spec.normalize_parameter_names()
    check_options(spec.name, spec.parameters, option_names(kind))
    try:
        return kind.from_spec(ArgSpec(spec.name, as_declared(spec.parameters, kind)))
    except ValueError as error:
        raise ValueError(f"{spec.name}: {error}") from error


def option_names(kind: type[ModulePass]) -> tuple[str, ...]:
    """Returns the options of a pass, as its fields are called."""
    return tuple(one.name for one in fields(kind) if one.name != "_")


def check_options(name: str, given: Iterable[str], *allowed: Iterable[str]) -> None:
    """Requires that options exist.

    Args:
        name: The pass or pipeline, for the message.
        given: The options, with underscores.
        allowed: Those that there are.

    Raises:
        ValueError: One does not; names it, what it may have meant, and those that there are.
    """
    known = [option.replace("_", "-") for options in allowed for option in options]
    for option in given:
        written = option.replace("_", "-")
        if written not in known:
            close = get_close_matches(written, known, n=1)
            hint = f", did you mean {close[0]}?" if close else ""
            options = f"its options are {', '.join(sorted(known))}" if known else "it takes none"
            raise ValueError(f"{name} has no option {written!r}{hint} ({options})")


def as_declared(parameters: Mapping[str, ParameterListType], kind: type) -> dict[str, ParameterListType]:
    """Options as the fields of a class want them."""
    hints = get_type_hints(kind)
    return {name: _as_declared(values, hints.get(name)) for name, values in parameters.items()}


def _as_declared(values: ParameterListType, hint: Any) -> ParameterListType:
    """Option values as their declaration wants them: xDSL reads `1` as an int, `1e-3` as a word, `{flag}` as empty."""
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
