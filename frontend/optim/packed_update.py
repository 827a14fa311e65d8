"""The update of eager parameters as one function, with state and scalars packed into a few tensors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Region, SSAValue

from tensorgrad.dialects.signature import Role, Slot, arguments_of, results_of, slots_attribute
from tensorgrad.dialects.tg.base import ELEMENT_TYPES, numpy_dtype, tensor
from tensorgrad.dialects.tg.build import TensorBuilder, type_of
from tensorgrad.dialects.tg.shape import PACK_ALIGNMENT
from tensorgrad.optim.tracing import add_updates
from tensorgrad.optim.transforms import Optimizer
from tensorgrad.passes.functions import return_of
from tensorgrad.passes.tensors.append_updates import AppendUpdatesPass
from tensorgrad.passes.tensors.moving import moved
from tensorgrad.passes.tensors.pack_updates import PackUpdatesPass
from tensorgrad.runtime.inputs import ScalarInputs
from tensorgrad.runtime.slots import ArraySlot
from tensorgrad.tracing.dtypes import SHORT, DType, Spec
from tensorgrad.tracing.tensor import Array

GRADIENT = "gradient/"

ROW_BYTES = 1 << 26
"""The size limit of a row of state, unless one tensor is larger; any device can bind it."""


@dataclass
class Row:
    """State of several parameters packed into one tensor, since each argument and result of a step costs time.

    Attributes:
        dtype: The dtype of its elements.
        places: The offset and shape of each state.
        size: The number of elements.
    """

    dtype: DType
    places: dict[str, tuple[int, tuple[int, ...]]] = field(default_factory=dict[str, tuple[int, tuple[int, ...]]])
    size: int = 0

    def add(self, name: str, shape: tuple[int, ...]) -> bool:
        """Reserves space for a state; returns whether it fits."""
        step = PACK_ALIGNMENT // self.dtype.itemsize
        start = -(-self.size // step) * step
        if self.places and (start + math.prod(shape)) * self.dtype.itemsize > ROW_BYTES:
            return False
        self.places[name] = start, shape
        self.size = start + math.prod(shape)
        return True

    def split(self, values: np.ndarray) -> dict[str, np.ndarray]:
        """Returns the states contained in its values."""
        return {
            name: values[start : start + math.prod(shape)].reshape(shape).copy()
            for name, (start, shape) in self.places.items()
        }

    def joined(self, states: Mapping[str, np.ndarray]) -> np.ndarray:
        """Returns its values from states; missing ones are zero."""
        result = np.zeros(self.size, self.dtype)
        for name, (start, shape) in self.places.items():
            if name in states:
                result[start : start + math.prod(shape)] = states[name].reshape(-1)
        return result


class Vector:
    """Named scalars of one dtype, packed into one tensor."""

    def __init__(self, names: Sequence[str], dtype: DType):
        self.names, self.dtype = names, dtype
        self._known: list[np.ndarray | None] = [None] * len(names)
        self._values = np.zeros(len(names), dtype)

    def of(self, values: Mapping[str, np.ndarray]) -> Array:
        """Returns the packed scalars; the previous tensor if they are the same arrays as last time."""
        for place, name in enumerate(self.names):
            value = values[name]
            if value is not self._known[place]:
                self._values[place] = self._known[place] = value
        return Array(self._values.copy())


@dataclass(frozen=True)
class PackedUpdate:
    """The traced update of some parameters.

    Attributes:
        function: Takes parameters, rows of state, read-only values, and vectors of scalars; returns new parameters and
            rows.
        parameters: The parameters it updates.
        rows: The rows it updates.
        read: The read-only values: the role and name of each gradient, and of parameters that it doesn't update.
        scalars: Computes the scalars.
        vectors: Packs them.
    """

    function: FuncOp
    parameters: Sequence[str]
    rows: Sequence[int]
    read: Sequence[tuple[Role, str]]
    scalars: ScalarInputs
    vectors: Sequence[Vector]

    def scalars_at(self, settings: Mapping[str, float], step: int) -> list[Array]:
        """Returns the scalars of a step.

        Raises:
            InputError: A value is not a number that fits its dtype.
        """
        numbers = {**settings, "step": float(step)}
        values = self.scalars.evaluate({name: numbers[name] for name in self.scalars.names})
        return [vector.of(values) for vector in self.vectors]


def traced_update(parameters: Mapping[str, Spec], optimizer: Optimizer, among: Mapping[str, Spec]) -> FuncOp:
    """Returns the update of parameters by gradients in the compiler's form: one tensor for each state and scalar.

    Args:
        parameters: The parameters.
        optimizer: The optimizer.
        among: All parameters that the optimizer's patterns select from.
    """
    types = [tensor(parameter.shape, ELEMENT_TYPES[parameter.dtype]) for parameter in parameters.values()]
    block = Block(arg_types=[*types, *types])
    gradients = list(block.args[len(types) :])
    block.add_op(func.ReturnOp(*gradients))
    function = FuncOp("step", FunctionType.from_lists([*types, *types], types), Region(block))
    slots = [Slot(name, Role.PARAMETER) for name in parameters] + [
        Slot(GRADIENT + name, Role.INPUT) for name in parameters
    ]
    function.properties["arg_attrs"] = slots_attribute(slots)
    function.properties["res_attrs"] = slots_attribute([Slot(name, Role.GRADIENT) for name in parameters])
    module = ModuleOp([function])
    add_updates(module, optimizer, parameters, among=among)
    for pass_ in (PackUpdatesPass("step"), AppendUpdatesPass("step")):
        pass_.apply(Context(), module)
    function.detach()
    return function


def state_specs(function: FuncOp) -> dict[str, Spec]:
    """Returns the state of a traced update."""
    pairs = zip(arguments_of(function), function.body.block.args, strict=True)
    return {slot.name: _spec_of(value) for slot, value in pairs if slot.role == Role.STATE}


def rows_of(states: Mapping[str, Spec]) -> list[Row]:
    """Returns the rows that states are packed into."""
    rows: list[Row] = []
    for name, spec in states.items():
        alike = [row for row in rows if row.dtype == spec.dtype]
        if not alike or not alike[-1].add(name, spec.shape):
            rows.append(Row(spec.dtype))
            rows[-1].add(name, spec.shape)
    return rows


def packed_update(function: FuncOp, rows: Sequence[Row]) -> PackedUpdate:
    """Returns a traced update with its state packed into rows and its scalars into vectors.

    Args:
        function: The traced update; consumed.
        rows: The layout of all state, which may include that of parameters that this update does not change.
    """
    slots, block = arguments_of(function), function.body.block
    specs = {slot.name: _spec_of(value) for slot, value in zip(slots, block.args, strict=True)}
    results = {
        result.name: value for result, value in zip(results_of(function), return_of(function).operands, strict=True)
    }
    changed = [slot.name for slot in slots if slot.role == Role.PARAMETER and slot.name in results]
    used = [number for number, row in enumerate(rows) if not row.places.keys().isdisjoint(specs)]
    read = [slot for slot in slots if slot.role not in (Role.STATE, Role.SCALAR) and slot.name not in changed]
    scalars = [slot for slot in slots if slot.role == Role.SCALAR]
    vectors = _vectors({scalar.name: specs[scalar.name].dtype for scalar in scalars})
    packed = [(rows[number].size, rows[number].dtype) for number in used]
    kinds = [
        *(specs[name] for name in changed),
        *(Spec((size,), dtype) for size, dtype in packed),
        *(specs[slot.name] for slot in read),
        *(Spec((len(layout.names),), layout.dtype) for layout in vectors),
    ]
    body = Block(arg_types=[tensor(spec.shape, ELEMENT_TYPES[spec.dtype]) for spec in kinds])
    builder, arguments = TensorBuilder(body), iter(body.args)
    known = {name: next(arguments) for name in changed}
    for number in used:
        row, places = next(arguments), rows[number].places
        known |= {name: builder.part(row, start, shape) for name, (start, shape) in places.items()}
    known |= {slot.name: next(arguments) for slot in read}
    for layout in vectors:
        vector = next(arguments)
        known |= {name: builder.part(vector, place, ()) for place, name in enumerate(layout.names)}
    updated = moved(block, [known[slot.name] for slot in slots], list(results.values()), builder)
    new = {**known, **dict(zip(results, updated, strict=True))}
    outputs = [new[name] for name in changed] + [_joined(rows[number], new, builder) for number in used]
    body.add_op(func.ReturnOp(*outputs))
    kind = FunctionType.from_lists([argument.type for argument in body.args], [output.type for output in outputs])
    return PackedUpdate(
        FuncOp("step", kind, Region(body)),
        changed,
        used,
        [_source(slot) for slot in read],
        ScalarInputs(
            [ArraySlot(scalar.name, (), SHORT[specs[scalar.name].dtype], scalar.formula) for scalar in scalars]
        ),
        vectors,
    )


def _source(slot: Slot) -> tuple[Role, str]:
    return (Role.GRADIENT, slot.name.removeprefix(GRADIENT)) if slot.role == Role.INPUT else (slot.role, slot.name)


def _vectors(scalars: Mapping[str, DType]) -> list[Vector]:
    dtypes = dict.fromkeys(scalars.values())
    return [Vector([name for name, scalar in scalars.items() if scalar == dtype], dtype) for dtype in dtypes]


def _joined(row: Row, states: Mapping[str, SSAValue], builder: TensorBuilder) -> SSAValue:
    return builder.pack([states[name] for name in row.places], [start for start, _ in row.places.values()], row.size)


def _spec_of(value: SSAValue) -> Spec:
    kind = type_of(value)
    return Spec(kind.get_shape(), numpy_dtype(kind))
