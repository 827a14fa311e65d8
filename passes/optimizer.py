"""What the optimizer passes share: appending an update rule to a function that returns gradients."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import reduce
from typing import TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, f16, f32, f64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.signature import Slot, arguments_of, results_of
from tensorgrad.dialects.tg.base import numpy_dtype, tensor
from tensorgrad.dialects.tg.build import TensorBuilder, element_of, shape_of
from tensorgrad.dialects.tg.unary import SqrtOp
from tensorgrad.passes.functions import find_function, order_parameters, return_of, set_returned, set_signature
from tensorgrad.passes.lower_tg_to_buf.outline import has_control
from tensorgrad.passes.packing import Chunk, Member, Row, packed
from tensorgrad.runtime.errors import FormulaError
from tensorgrad.runtime.formula import Formula

NORM_OFFSET = 1e-6
"""What is added to the norm that gradients are divided by; PyTorch's."""


@dataclass(frozen=True)
class Update:
    """What one parameter's update is written with.

    Attributes:
        builder: Appends to the function, at the gradient's location.
        parameter: The parameter's value before the step.
        gradient: The loss' derivative by it.
        state: The values of its state before the step, in the order of the rule's prefixes.
        scalars: What the host computed for this step.
        weight_decay: The factor of this parameter's decay; 0 where it has none.
    """

    builder: TensorBuilder
    parameter: SSAValue
    gradient: SSAValue
    state: tuple[SSAValue, ...]
    scalars: Mapping[str, SSAValue]
    weight_decay: float

    def decayed_gradient(self) -> SSAValue:
        """The gradient of the loss and of `weight_decay / 2` times the square of the parameter."""
        if not self.weight_decay:
            return self.gradient
        return self.builder.add(self.gradient, self.builder.scale(self.parameter, self.weight_decay))

    def running_mean(self, mean: SSAValue, value: SSAValue, kept: float) -> SSAValue:
        """`kept * mean + (1 - kept) * value`, a running mean."""
        b = self.builder
        return b.add(b.scale(mean, kept), b.scale(value, 1 - kept))

    def scalar(self, name: str) -> SSAValue:
        """A scalar, repeated to the parameter's shape."""
        value = self.builder.cast(self.scalars[name], element_of(self.parameter))
        return self.builder.broadcast(value, shape_of(self.parameter), [])


Write: TypeAlias = Callable[[Update], Sequence[SSAValue]]


@dataclass(frozen=True)
class Rule:
    """An optimizer, to `append_updates`.

    Attributes:
        states: The prefixes of the state that each parameter has, all of its shape and zero at first.
        scalars: The formula of each scalar, in terms of `step` (1 at first) and `learning_rate`.
        write: Gives one parameter's next value, and those of its state.
    """

    states: tuple[str, ...]
    scalars: Mapping[str, str]
    write: Write


@dataclass(frozen=True)
class OptimizerPass(ModulePass, ABC):
    """A pass that replaces a function's gradients by updates of its parameters.

    Where gradients are clipped, all of them are needed before any parameter changes. Then gradients, parameters and
    state are packed, each as rows in which one kernel works on all parameters that are updated alike, and those
    parameters come one behind another among the function's arguments. Else, and in functions with loops or branches,
    each parameter has an update of its own, which can run in the kernel that computes its gradient.

    Attributes:
        function: The function; may be absent where there is only one.
        learning_rate: A formula that stands for the learning rate, in terms of `step` and `learning_rate`.
        clip_norm: The norm of all gradients together above which they are scaled down to it; absent for never.
        weight_decay: The factor of the decay, which is added to the gradient unless the optimizer says otherwise.
        decay: The parameters that decay; absent for all.
        row_bytes: The most bytes of parameters, gradients or state that one kernel binds as one row: the target's
            limits on bindings and buffers.
    """

    function: str | None = None
    _: KW_ONLY
    learning_rate: str = "learning_rate"
    clip_norm: float | None = None
    weight_decay: float = 0.0
    decay: tuple[str, ...] | None = None
    row_bytes: int = 1 << 27

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        check_option(self.name, "weight_decay", self.weight_decay)
        if self.clip_norm is not None and not 0 < self.clip_norm < math.inf:
            raise DiagnosticException(f"{self.name}: clip_norm must be more than 0 and finite, got {self.clip_norm}")
        try:
            unknown = Formula(self.learning_rate).names - {"step", "learning_rate"}
        except FormulaError as error:
            raise DiagnosticException(f"{self.name}: learning_rate: {error}") from error
        if unknown:
            raise DiagnosticException(
                f"{self.name}: learning_rate is computed from step and learning_rate, not {', '.join(sorted(unknown))}"
            )
        append_updates(op, self, self.rule())

    @abstractmethod
    def rule(self) -> Rule:
        """What the optimizer does.

        Raises:
            DiagnosticException: An option is out of range.
        """

    def check(self, *options: str, below: float = math.inf) -> None:
        """Requires options to be numbers from 0 to just under `below`.

        Raises:
            DiagnosticException: One is not; names it.
        """
        for option in options:
            check_option(self.name, option, getattr(self, option), below=below)


@dataclass(frozen=True)
class _Pair:
    """A parameter and its gradient, in the element type that the function has and in that of the update."""

    name: str
    parameter: SSAValue
    gradient: SSAValue

    @property
    def stored(self) -> Attribute:
        return element_of(self.parameter)

    @property
    def computed(self) -> Attribute:
        """The element type of state and arithmetic: half floats are updated in f32."""
        return f32 if self.stored == f16 else self.stored

    def decay(self, options: OptimizerPass) -> float:
        """The factor of its decay."""
        return options.weight_decay if options.decay is None or self.name in options.decay else 0.0

    def member(self, options: OptimizerPass) -> Member[_Pair]:
        """What is packed."""
        return Member(
            item=self,
            size=math.prod(shape_of(self.parameter)),
            stored=numpy_dtype(self.stored).itemsize,
            computed=numpy_dtype(self.computed).itemsize,
            group=(self.decay(options), self.stored),
            dtype=self.computed,
        )


def append_updates(module: ModuleOp, options: OptimizerPass, rule: Rule) -> None:
    """Replaces a function's gradients by updates of the parameters they belong to.

    New arguments come in groups, each in the order of the gradients: all state of one prefix, then that of the next,
    then the scalars. The updates come in the same order, behind the other results: parameters first, then state.

    Args:
        module: Holds the function.
        options: The pass.
        rule: The optimizer.

    Raises:
        DiagnosticException: There is no gradient, one without its parameter, an argument of a new one's name, or no
            parameter that is to decay.
    """
    function = find_function(module, options.function)
    where = f"{options.name}: @{function.sym_name.data}"
    together = options.clip_norm is not None and not has_control(function)
    if together:
        _bring_together(function, options)
    block, slots = function.body.block, arguments_of(function)
    entries = list(zip(results_of(function), return_of(function).operands, strict=True))
    pairs = _pairs(function, where)
    new_slots = [Slot(f"{prefix}/{pair.name}", "state") for prefix in rule.states for pair in pairs]
    new_slots += [Slot(name, "scalar", _scheduled(formula, options)) for name, formula in rule.scalars.items()]
    _check_names(slots, new_slots, pairs, options, where)
    wide = f64 if any(pair.stored == f64 for pair in pairs) else f32
    kinds = [tensor(shape_of(pair.parameter), pair.computed) for _ in rule.states for pair in pairs]
    kinds += [tensor((), wide) for _ in rule.scalars]
    added = [block.insert_arg(kind, len(block.args)) for kind in kinds]
    writing = _Writing(
        TensorBuilder(block, before=return_of(function), location=function.location),
        options,
        rule,
        {
            pair: tuple(added[i + group * len(pairs)] for group in range(len(rule.states)))
            for i, pair in enumerate(pairs)
        },
        dict(zip(rule.scalars, added[len(rule.states) * len(pairs) :], strict=True)),
    )
    written = writing.packed(pairs, wide) if together else writing.one_by_one(pairs, wide)
    names = [[pair.name, *(f"{prefix}/{pair.name}" for prefix in rule.states)] for pair in pairs]
    kept = [entry for entry in entries if entry[0].role != "gradient"]
    for group in range(1 + len(rule.states)):
        kept += [(Slot(names[i][group], "update"), written[pair][group]) for i, pair in enumerate(pairs)]
    set_returned(function, [value for _, value in kept])
    set_signature(function, [*slots, *new_slots], [slot for slot, _ in kept])


@dataclass(frozen=True)
class _Writing:
    """Writes updates of parameters into a function."""

    builder: TensorBuilder
    options: OptimizerPass
    rule: Rule
    states: Mapping[_Pair, tuple[SSAValue, ...]]
    scalars: Mapping[str, SSAValue]

    def one_by_one(self, pairs: Sequence[_Pair], wide: Attribute) -> dict[_Pair, list[SSAValue]]:
        """The next values of each parameter and its state, each computed on its own."""
        scale, limit, b = None, self.options.clip_norm, self.builder
        if limit is not None:
            flat = [b.reshape(pair.gradient, [math.prod(shape_of(pair.gradient))]) for pair in pairs]
            wider = [b.cast(one, pair.computed) for one, pair in zip(flat, pairs, strict=True)]
            scale = _clipping_scale(b, [b.cast(b.sum(b.mul(one, one), [0]), wide) for one in wider], limit)
        written: dict[_Pair, list[SSAValue]] = {}
        for pair in pairs:
            owner = pair.gradient.owner
            self.builder.location = owner.location if isinstance(owner, Operation) else self.builder.location
            written[pair] = self._update(pair, pair.parameter, pair.gradient, self.states[pair], scale)
        return written

    def packed(self, pairs: Sequence[_Pair], wide: Attribute) -> dict[_Pair, list[SSAValue]]:
        """The next values of each parameter and its state, computed in rows of them, with their gradients clipped."""
        b = self.builder
        # What has no elements needs no room, and is up to date.
        places: dict[SSAValue, int] = {argument: place for place, argument in enumerate(b.block.args)}
        ordered = sorted(pairs, key=lambda pair: places[pair.parameter])
        members = [pair.member(self.options) for pair in ordered if 0 not in shape_of(pair.parameter)]
        rows = packed(members, self.options.row_bytes)
        gradients = [self._gradients(row) for row in rows]
        assert self.options.clip_norm is not None
        norms = [_squares(b, gradient, row.columns, wide) for gradient, row in zip(gradients, rows, strict=True)]
        scale = _clipping_scale(b, norms, self.options.clip_norm) if norms else None
        written = {pair: [pair.parameter, *self.states[pair]] for pair in pairs}
        for gradient, row in zip(gradients, rows, strict=True):
            for chunk in row.chunks:
                written.update(self._chunk(chunk, gradient, scale))
        return written

    def _gradients(self, row: Row[_Pair]) -> SSAValue:
        """A row of gradients, with zeros at its end."""
        pairs = [member.item for chunk in row.chunks for member in chunk.members]
        offsets = [chunk.start + offset for chunk in row.chunks for offset in chunk.offsets]
        parts = [self.builder.cast(pair.gradient, pair.computed) for pair in pairs]
        return self.builder.pack(parts, offsets, row.padded)

    def _chunk(self, chunk: Chunk[_Pair], gradients: SSAValue, scale: SSAValue | None) -> dict[_Pair, list[SSAValue]]:
        """What `packed` gives, for the parameters of one chunk."""
        b, pairs = self.builder, [member.item for member in chunk.members]
        if len(pairs) == 1:
            pair = pairs[0]
            gradient = b.part(gradients, chunk.start, shape_of(pair.parameter))
            return {pair: self._update(pair, pair.parameter, gradient, self.states[pair], scale)}
        gradient = b.slice(gradients, [chunk.start], [chunk.start + chunk.size], [1])
        parameter = b.pack([pair.parameter for pair in pairs], chunk.offsets, chunk.size)
        state = tuple(
            b.pack(values, chunk.offsets, chunk.size) for values in zip(*(self.states[p] for p in pairs), strict=True)
        )
        written = self._update(pairs[0], parameter, gradient, state, scale)
        return {
            pair: [b.part(value, offset, shape_of(pair.parameter)) for value in written]
            for pair, offset in zip(pairs, chunk.offsets, strict=True)
        }

    def _update(
        self,
        pair: _Pair,
        parameter: SSAValue,
        gradient: SSAValue,
        state: tuple[SSAValue, ...],
        scale: SSAValue | None,
    ) -> list[SSAValue]:
        """The next values of parameters and their state, where all of them are updated as that of `pair` is."""
        b = self.builder
        parameter, gradient = b.cast(parameter, pair.computed), b.cast(gradient, pair.computed)
        if scale is not None:
            gradient = b.mul(gradient, b.broadcast(b.cast(scale, pair.computed), shape_of(gradient), []))
        first, *rest = self.rule.write(Update(b, parameter, gradient, state, self.scalars, pair.decay(self.options)))
        return [b.cast(first, pair.stored), *rest]


def _bring_together(function: FuncOp, options: OptimizerPass) -> None:
    """Puts parameters that are updated alike one behind another among the arguments, and others behind them."""
    arguments = zip(arguments_of(function), function.body.block.args, strict=True)
    elements = {slot.name: element_of(value) for slot, value in arguments if slot.role == "parameter"}
    gradients = {slot.name for slot in results_of(function) if slot.role == "gradient"}
    groups: dict[Hashable, int] = {}

    def rank(name: str) -> int:
        if name not in gradients:
            return len(elements)
        decays = options.decay is None or name in options.decay
        return groups.setdefault((decays, elements[name]), len(groups))

    order_parameters(function, sorted(elements, key=rank))


def _scheduled(formula: str, options: OptimizerPass) -> str:
    """A scalar's formula, with the learning rate's in it."""
    if options.learning_rate == "learning_rate":
        return formula
    return re.sub(r"\blearning_rate\b", lambda _: f"({options.learning_rate})", formula)


def _check_names(
    slots: Sequence[Slot], new_slots: Sequence[Slot], pairs: Sequence[_Pair], options: OptimizerPass, where: str
) -> None:
    taken = {(slot.role, slot.name) for slot in slots} & {(slot.role, slot.name) for slot in new_slots}
    if taken:
        raise DiagnosticException(f"{where} has a {' '.join(min(taken))} already")
    missing = {*(options.decay or ())} - {pair.name for pair in pairs}
    if missing:
        raise DiagnosticException(f"{where} has no gradient of {min(missing)!r}, which is to decay")


def _squares(builder: TensorBuilder, row: SSAValue, columns: int, wide: Attribute) -> SSAValue:
    """The sum of the squares of a row, added up some at a time."""
    several = builder.reshape(row, [shape_of(row)[0] // columns, columns])
    sums = builder.sum(builder.mul(several, several), [1])
    return builder.cast(builder.sum(sums, [0]), wide)


def _clipping_scale(builder: TensorBuilder, squares: Sequence[SSAValue], limit: float) -> SSAValue:
    """The factor that brings the norm of all gradients down to a limit; 1 where it is below, NaN where it is NaN."""
    norm = builder.unary(SqrtOp, reduce(builder.add, squares))
    scale = builder.div(builder.full_like(norm, limit), builder.add(norm, builder.full_like(norm, NORM_OFFSET)))
    one = builder.full_like(scale, 1.0)
    return builder.select(builder.compare("gt", scale, one), one, scale)


def _pairs(function: FuncOp, where: str) -> list[_Pair]:
    arguments = zip(arguments_of(function), function.body.block.args, strict=True)
    parameters: dict[str, SSAValue] = {slot.name: value for slot, value in arguments if slot.role == "parameter"}
    results = zip(results_of(function), return_of(function).operands, strict=True)
    gradients = {slot.name: value for slot, value in results if slot.role == "gradient"}
    if not gradients:
        raise DiagnosticException(f"{where} returns no gradient; run grad first")
    for name, gradient in gradients.items():
        if name not in parameters:
            raise DiagnosticException(f"{where} has a gradient but no parameter {name!r}")
        if parameters[name].type != gradient.type:
            raise DiagnosticException(
                f"{where}: parameter {name!r} is {parameters[name].type}, its gradient {gradient.type}"
            )
    return [_Pair(name, parameters[name], gradient) for name, gradient in gradients.items()]


def check_option(pass_name: str, option: str, value: float, *, below: float = math.inf) -> None:
    """Requires a number from 0 to just under `below`.

    Raises:
        DiagnosticException: It is not; names the option.
    """
    if not 0 <= value < below:
        limit = "finite" if below == math.inf else f"less than {below:g}"
        raise DiagnosticException(f"{pass_name}: {option} must be at least 0 and {limit}, got {value}")
