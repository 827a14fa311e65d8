"""Converts blocks of StableHLO to `tg`, op by op, with a rule for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

import numpy as np
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, TensorType, bf16, f32, i32, i64
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from tensorgrad.dialects.locations import line_in, line_of
from tensorgrad.dialects.stablehlo.base import HloOp
from tensorgrad.dialects.stablehlo.shape import ConstantOp
from tensorgrad.dialects.tg.base import (
    NUMPY_DTYPES,
    NumpyArray,
    Tensor,
    dense_to_numpy,
    is_splat,
    numpy_dtype,
    tensor,
    ui32,
    ui64,
)
from tensorgrad.dialects.tg.build import TensorBuilder, shape_of, type_of

NARROW: dict[Attribute, Attribute] = {i64: i32, ui64: ui32}


class Unsupported(Exception):
    """An op, as it is used, has no counterpart in `tg`; the message says why."""


Rule: TypeAlias = "Callable[[Reader, Any], SSAValue | Sequence[SSAValue]]"
"""Converts an op, of the class for whose name it is in the table, and returns its results."""


@dataclass
class Reader:
    """A conversion of a block: what its values are in `tg`, and where ops are appended.

    Attributes:
        builder: Appends ops.
        rules: The rule of each op.
        narrow: Whether integers of 64 bits become those of 32.
        faults: What can't be converted, with its place; shared by the readers of a module.
        values: The converted values.
    """

    builder: TensorBuilder
    rules: Mapping[str, Rule]
    narrow: bool
    faults: list[str]
    values: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])

    def inside(self, block: Block) -> Reader:
        """Returns a reader that appends to another block, and knows none of its values yet."""
        return Reader(TensorBuilder(block, location=self.builder.location), self.rules, self.narrow, self.faults)

    def __getitem__(self, value: SSAValue) -> SSAValue:
        """Returns what a value is in `tg`; a constant from outside of a region is repeated inside."""
        if value not in self.values and isinstance(value.owner, ConstantOp):
            self.values[value] = self.constant(value.owner)
        return self.values[value]

    def operands(self, op: Operation) -> list[SSAValue]:
        """Returns what an op's operands are in `tg`."""
        return [self[operand] for operand in op.operands]

    def kind(self, of: Attribute) -> Tensor:
        """Returns the type of `tg` for one of StableHLO.

        Raises:
            Unsupported: There is none.
        """
        if not isinstance(of, TensorType):
            raise Unsupported(f"{of} is no tensor")
        source = cast(Tensor, of)
        element = source.get_element_type()
        if self.narrow:
            element = NARROW.get(element, element)
        if element not in NUMPY_DTYPES:
            raise Unsupported(f"elements of {element} are not supported")
        if not source.has_static_shape():
            raise Unsupported(f"the shape of {of} is not static")
        return tensor(source.get_shape(), element)

    def constant(self, op: ConstantOp) -> SSAValue:
        """Returns a constant.

        Raises:
            Unsupported: An integer doesn't fit 32 bits.
        """
        kind, array = self.kind(op.kind), constant_array(op)
        assert array is not None
        cast_array = array.astype(numpy_dtype(kind))
        if array.dtype.kind in "iu" and not np.array_equal(cast_array, array):
            raise Unsupported("an integer of 64 bits doesn't fit 32")
        return self.builder.constant(cast_array)

    def block(self, block: Block) -> Sequence[SSAValue]:
        """Converts the ops of a block whose arguments are known, and returns what its terminator's operands are."""
        for op in block.ops:
            if op is block.last_op:
                return self.operands(op)
            self.convert(op)
        return ()

    def convert(self, op: Operation) -> None:
        """Converts an op; one that can't be is noted, and its results are replaced by zeros."""
        line = line_in(op.location)
        if line is not None:
            self.builder.location = line
        try:
            rule = self.rules.get(op.name)
            if rule is None:
                raise Unsupported("it has no counterpart")
            results = rule(self, op)
            converted = [results] if isinstance(results, SSAValue) else list(results)
            for result, value in zip(op.results, converted, strict=True):
                if type_of(value) != self.kind(result.type):
                    raise Unsupported(f"its result is {self.kind(result.type)}, expected {value.type}")
        except (Unsupported, VerifyException) as error:
            self.faults.append(f"{described(op)}: {error} ({line_of(op.location)})")
            converted = [self.placeholder(result) for result in op.results]
        self.values.update(zip(op.results, converted, strict=True))

    def placeholder(self, result: SSAValue) -> SSAValue:
        """Returns zeros in place of a result that can't be computed."""
        try:
            return self.builder.full(self.kind(result.type), 0)
        except Unsupported:
            kind: Attribute = result.type
            shape = kind.get_shape() if isa(kind, TensorType[Attribute]) else ()
            return self.builder.full(tensor([max(extent, 0) for extent in shape], f32), 0)

    def spread(self, x: SSAValue, shape: Sequence[int]) -> SSAValue:
        """Returns a scalar repeated to a shape, or a tensor of that shape as it is."""
        return x if shape_of(x) == tuple(shape) else self.builder.broadcast(x, shape, [])


def described(op: Operation) -> str:
    """Returns an op's name for messages, with that of what it calls."""
    target = op.properties.get("call_target_name")
    return op.name if target is None else f"{op.name} @{getattr(target, 'data', target)}"


def constant_array(value: HloOp | SSAValue) -> NumpyArray | None:
    """Returns the array of a constant op, or of a value that is its result; `None` for any other."""
    op = value.owner if isinstance(value, SSAValue) else value
    if not isinstance(op, ConstantOp):
        return None
    attribute = cast("DenseIntOrFPElementsAttr[Any]", op.value)
    element = cast(Tensor, attribute.type).get_element_type()
    if element not in NUMPY_DTYPES:
        raise Unsupported(f"elements of {element} are not supported")
    array = dense_to_numpy(attribute)
    if element != bf16:
        return array
    compact = array[(slice(1),) * array.ndim] if is_splat(array) else array
    return np.broadcast_to(compact.astype(np.float32), array.shape)


def scalar_constant(value: SSAValue) -> float | int | bool | None:
    """Returns the scalar that a constant holds, or repeats; `None` for any other value."""
    array = constant_array(value)
    if array is None or not array.size or not (array == array.flat[0]).all():
        return None
    return array.flat[0].item()
