"""Converts blocks of `tg` to StableHLO, op by op, with a rule for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from xdsl.dialects.builtin import (
    BoolAttr,
    IntegerAttr,
    LocationAttr,
    StringAttr,
    SymbolRefAttr,
    UnknownLoc,
    i1,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tensorgrad.dialects.locations import line_of
from tensorgrad.dialects.stablehlo import Chlo, Stablehlo
from tensorgrad.dialects.stablehlo.attributes import (
    ComparisonDirection,
    ComparisonDirectionAttr,
    ComparisonType,
    ComparisonTypeAttr,
    GatherAttr,
    ScatterAttr,
)
from tensorgrad.dialects.stablehlo.base import int_array
from tensorgrad.dialects.tg.base import NumpyArray, Tensor, dense, numpy_dtype, tensor
from tensorgrad.dialects.tg.build import element_of, shape_of, type_of
from tensorgrad.dialects.tg.index import identity_of
from tensorgrad.passes.stablehlo.correspondence import SCATTERS

OPS: dict[str, type[Operation]] = {op.name: op for dialect in (Stablehlo, Chlo) for op in dialect.operations}

Rule: TypeAlias = "Callable[[Writer, Any], SSAValue | Sequence[SSAValue]]"
"""Converts an op, of the class for which it is in the table, and returns its results."""


@dataclass
class Writer:
    """A conversion of a block: what its values are in StableHLO, and where ops are appended.

    Attributes:
        target: The block to which ops are appended.
        rules: The rule of each class of ops.
        faults: What can't be converted, with its place; shared by the writers of a module.
        decompositions: The functions that composites stand for, by their name and type; shared too.
        values: The converted values; a region knows those from outside.
        location: The location of the next ops.
    """

    target: Block
    rules: Mapping[type[Operation], Rule]
    faults: list[str]
    decompositions: dict[tuple[str, Tensor], FuncOp]
    values: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    location: LocationAttr = field(default_factory=UnknownLoc)

    def inside(self, target: Block) -> Writer:
        """Returns a writer that appends to a block inside of a region, which sees all values so far."""
        return Writer(target, self.rules, self.faults, self.decompositions, dict(self.values), self.location)

    def __getitem__(self, value: SSAValue) -> SSAValue:
        """Returns what a value is in StableHLO."""
        return self.values[value]

    def operands(self, op: Operation) -> list[SSAValue]:
        """Returns what an op's operands are in StableHLO."""
        return [self.values[operand] for operand in op.operands]

    def block(self, block: Block, arguments: Sequence[SSAValue]) -> list[SSAValue]:
        """Converts a block, and returns what its terminator's operands are."""
        self.values.update(zip(block.args, arguments, strict=True))
        for op in block.ops:
            if op is block.last_op:
                return self.operands(op)
            self._convert(op)
        return []

    def _convert(self, op: Operation) -> None:
        self.location = op.location
        rule = self.rules.get(type(op))
        if rule is None:
            self.faults.append(f"{op.name} ({line_of(op.location)})")
            results: Sequence[SSAValue] = [self.full(type_of(result), 0) for result in op.results]
        else:
            converted = rule(self, op)
            results = [converted] if isinstance(converted, SSAValue) else list(converted)
        self.values.update(zip(op.results, results, strict=True))

    # Ops

    def emit(
        self,
        name: str,
        /,
        operands: Sequence[SSAValue],
        kinds: Sequence[Attribute],
        regions: Sequence[Region] = (),
        **properties: Attribute | None,
    ) -> list[SSAValue]:
        """Appends an op of StableHLO, and returns its results."""
        op = OPS[name].create(
            operands=operands,
            result_types=kinds,
            properties={key: value for key, value in properties.items() if value is not None},
            regions=regions,
        )
        op.location = self.location
        self.target.add_op(op)
        return list(op.results)

    def one(
        self, name: str, /, operands: Sequence[SSAValue], kind: Attribute | None = None, **properties: Attribute | None
    ) -> SSAValue:
        """Appends an op of one result, by default of the first operand's type."""
        (result,) = self.emit(name, operands, [operands[0].type if kind is None else kind], (), **properties)
        return result

    def composite(self, name: str, x: SSAValue, body: Callable[[Writer, SSAValue], SSAValue]) -> SSAValue:
        """Appends a composite: what `body` appends for `x`, under a name that says more to those who know it."""
        key = (name, type_of(x))
        if key not in self.decompositions:
            function = f"{name.rpartition('.')[2]}.{len(self.decompositions)}"
            self.decompositions[key] = self._decomposition(function, type_of(x), body)
        symbol = SymbolRefAttr(self.decompositions[key].sym_name)
        return self.one("stablehlo.composite", [x], name=StringAttr(name), decomposition=symbol)

    def _decomposition(self, name: str, kind: Tensor, body: Callable[[Writer, SSAValue], SSAValue]) -> FuncOp:
        """Returns a private function of one argument, which keeps its type."""
        block = Block(arg_types=[kind])
        end = ReturnOp(body(self.inside(block), block.args[0]))
        block.add_op(end)
        function = FuncOp(name, ([kind], [kind]), Region(block), StringAttr("private"))
        end.location = function.location = self.location
        return function

    def constant(self, array: NumpyArray) -> SSAValue:
        """Returns a constant."""
        return self.one(
            "stablehlo.constant", [], tensor(array.shape, dense(array).get_element_type()), value=dense(array)
        )

    def full(self, kind: Tensor, number: float) -> SSAValue:
        """Returns a tensor of a type, filled with a number."""
        return self.constant(np.broadcast_to(np.asarray(number).astype(numpy_dtype(kind)), kind.get_shape()))

    def full_like(self, x: SSAValue, number: float) -> SSAValue:
        """Returns a tensor of `x`'s type, filled with a number."""
        return self.full(type_of(x), number)

    def binary(self, name: str, x: SSAValue, y: SSAValue | float) -> SSAValue:
        """Returns an elementwise op on two values of a type, or on one and a number."""
        return self.one(f"stablehlo.{name}", [x, y if isinstance(y, SSAValue) else self.full_like(x, y)])

    def unary(self, name: str, x: SSAValue) -> SSAValue:
        """Returns an elementwise op on a value."""
        return self.one(f"stablehlo.{name}", [x])

    def convert(self, x: SSAValue, element: Attribute) -> SSAValue:
        """Returns `x` with elements of another type."""
        return x if element_of(x) == element else self.one("stablehlo.convert", [x], tensor(shape_of(x), element))

    def compare(
        self, direction: str, x: SSAValue, y: SSAValue | float, order: ComparisonType | None = None
    ) -> SSAValue:
        """Returns the booleans of a comparison, by default in the order of the elements' type."""
        return self.one(
            "stablehlo.compare",
            [x, y if isinstance(y, SSAValue) else self.full_like(x, y)],
            tensor(shape_of(x), i1),
            comparison_direction=ComparisonDirectionAttr(ComparisonDirection(direction.upper())),
            compare_type=None if order is None else ComparisonTypeAttr(order),
        )

    def select(self, condition: SSAValue, on_true: SSAValue, on_false: SSAValue) -> SSAValue:
        """Returns `on_true` where a condition holds, else `on_false`."""
        return self.one("stablehlo.select", [condition, on_true, on_false], on_true.type)

    def reshape(self, x: SSAValue, shape: Sequence[int]) -> SSAValue:
        """Returns `x` in another shape."""
        return x if shape_of(x) == tuple(shape) else self.one("stablehlo.reshape", [x], tensor(shape, element_of(x)))

    def transpose(self, x: SSAValue, permutation: Sequence[int]) -> SSAValue:
        """Returns `x` with its axes permuted."""
        if list(permutation) == list(range(len(permutation))):
            return x
        kind = tensor([shape_of(x)[axis] for axis in permutation], element_of(x))
        return self.one("stablehlo.transpose", [x], kind, permutation=int_array(permutation))

    def broadcast(self, x: SSAValue, shape: Sequence[int], dims: Sequence[int]) -> SSAValue:
        """Returns `x` broadcast to a shape."""
        return self.one(
            "stablehlo.broadcast_in_dim", [x], tensor(shape, element_of(x)), broadcast_dimensions=int_array(dims)
        )

    def iota(self, shape: Sequence[int], axis: int, element: Attribute) -> SSAValue:
        """Returns positions along an axis."""
        return self.one("stablehlo.iota", [], tensor(shape, element), iota_dimension=IntegerAttr(axis, i64))

    def applying(self, name: str, element: Attribute) -> Region:
        """Returns the region that applies an op to its two arguments."""
        scalar = tensor([], element)
        block = Block(arg_types=[scalar, scalar])
        inner = self.inside(block)
        inner.finish(inner.emit(name, block.args, [scalar]))
        return Region(block)

    def finish(self, values: Sequence[SSAValue]) -> None:
        """Ends a region, which returns values."""
        self.emit("stablehlo.return", values, [])

    def read(self, x: SSAValue, indices: SSAValue, axis: int) -> SSAValue:
        """Returns the slices of `x` at indices along an axis, which must be inside."""
        shape, rank = shape_of(x), len(shape_of(indices))
        kind = tensor([*shape[:axis], *shape_of(indices), *shape[axis + 1 :]], element_of(x))
        numbers = GatherAttr.of(
            offset_dims=[place for place in range(len(kind.get_shape())) if not axis <= place < axis + rank],
            collapsed_slice_dims=[axis],
            start_index_map=[axis],
            index_vector_dim=rank,
        )
        sizes = [1 if place == axis else extent for place, extent in enumerate(shape)]
        return self.one("stablehlo.gather", [x, indices], kind, dimension_numbers=numbers, slice_sizes=int_array(sizes))

    def reduced(self, updates: SSAValue, indices: SSAValue, axis: int, extent: int, reduction: str = "sum") -> SSAValue:
        """Returns updates reduced at indices along an axis; those that are not inside are dropped."""
        shape, rank = shape_of(updates), len(shape_of(indices))
        kind = tensor([*shape[:axis], extent, *shape[axis + rank :]], element_of(updates))
        numbers = ScatterAttr.of(
            update_window_dims=[place for place in range(len(shape)) if not axis <= place < axis + rank],
            inserted_window_dims=[axis],
            scatter_dims_to_operand_dims=[axis],
            index_vector_dim=rank,
        )
        return self.scattered(updates, indices, kind, numbers, reduction)

    def scattered(
        self, updates: SSAValue, indices: SSAValue, kind: Tensor, numbers: ScatterAttr, reduction: str
    ) -> SSAValue:
        """Returns identity elements of a type with which updates are combined."""
        (combine,) = (name for name, meant in SCATTERS.items() if meant == reduction)
        (result,) = self.emit(
            "stablehlo.scatter",
            [self.full(kind, identity_of(reduction, numpy_dtype(kind))), indices, updates],
            [kind],
            [self.applying(combine, kind.get_element_type())],
            scatter_dimension_numbers=numbers,
            indices_are_sorted=BoolAttr.from_bool(False),
            unique_indices=BoolAttr.from_bool(False),
        )
        return result
