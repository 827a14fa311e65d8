"""Interprets one stage of a `buf.kernel` with NumPy: its iteration space at once, in tiles that bound memory.

In the body, each value is an array that broadcasts to the iteration space: an axis has extent 1 if the value doesn't
depend on that loop. This also identifies contractions: sums of products with a factor that is independent of a loop.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias, cast

import numpy as np
from xdsl.dialects import affine, arith, linalg, memref, scf
from xdsl.dialects.builtin import i1
from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap

from tensorgrad.dialects import buf
from tensorgrad.dialects.stages import Reduction, reductions_of
from tensorgrad.interpreters.scalars import COMBINERS, RULES, Array, Combiner, evaluate, scalar_dtype
from tensorgrad.runtime.errors import ExecutionError

TEMPORARY_BYTES = 64 << 20
"""The approximate limit on the bytes that the values of one tile of a stage take together."""

Ranges: TypeAlias = tuple[tuple[int, int], ...]

Perturb: TypeAlias = Callable[[Array, Array], Array]
"""Returns sums with errors, given the sums, and those of their terms' magnitudes."""

NONE: Mapping[SSAValue, int] = {}

_CONTROL = ("scf.if", "scf.for", "scf.yield", "linalg.yield", "linalg.index", "memref.load", "affine.apply")


@dataclass(frozen=True)
class _Output:
    """How an output of a stage is computed: as `value` itself, or as a reduction of `value` over the loops `folded`."""

    target: SSAValue
    map: AffineMap
    value: SSAValue
    combiner: Combiner | None
    folded: tuple[int, ...]
    factors: tuple[SSAValue, SSAValue] | None

    @property
    def element(self) -> Attribute:
        return buf.element_of(self.target)


def read(array: Array, element: Attribute) -> Array:
    """Returns stored elements as values: an `i1` is stored as a word, and true unless it is 0."""
    return array != 0 if element == i1 else array


def is_plain(affine_map: AffineMap) -> bool:
    """Returns whether a map's results are distinct loops or constants."""
    loops = [result.position for result in affine_map.results if isinstance(result, AffineDimExpr)]
    constants = [result for result in affine_map.results if isinstance(result, AffineConstantExpr)]
    return len(set(loops)) == len(loops) and len(loops) + len(constants) == len(affine_map.results)


def loops_of(affine_map: AffineMap) -> set[int]:
    """Returns the loops that a map's results depend on."""
    return {loop for result in affine_map.results for loop in result.used_dims()}


def apply_affine(expression: AffineExpr, loops: Sequence[Array], symbols: Sequence[Array] = ()) -> Array:
    """Returns the value of an affine expression on arrays of indices."""
    return np.asarray(expression.eval(cast(Any, loops), cast(Any, symbols)), np.int64)


def check_range(indices: Sequence[Array], shape: Sequence[int], what: str) -> None:
    """Raises unless every index lies in `shape`."""
    for axis, (index, extent) in enumerate(zip(indices, shape, strict=True)):
        if index.size and (index.min() < 0 or index.max() >= extent):
            raise ExecutionError(
                f"{what}: indices {index.min()} to {index.max()} are out of range for axis {axis} of {list(shape)}"
            )


def _window(array: Array, affine_map: AffineMap, ranges: Ranges, what: str) -> Array:
    """Returns the part of an array that a plain map addresses, as a view with one axis per loop."""
    bounds = [
        ranges[result.position]
        if isinstance(result, AffineDimExpr)
        else (cast(AffineConstantExpr, result).value, cast(AffineConstantExpr, result).value + 1)
        for result in affine_map.results
    ]
    for axis, ((low, high), extent) in enumerate(zip(bounds, array.shape, strict=True)):
        if low < high and (low < 0 or high > extent):
            raise ExecutionError(
                f"{what}: indices {low} to {high - 1} are out of range for axis {axis} of {list(array.shape)}"
            )
    loops = [result.position for result in affine_map.results if isinstance(result, AffineDimExpr)]
    fixed = [axis for axis, result in enumerate(affine_map.results) if isinstance(result, AffineConstantExpr)]
    part = array[(*(slice(low, high) for low, high in bounds), ...)]
    part = part.transpose([*fixed, *(affine_map.results.index(AffineDimExpr(loop)) for loop in sorted(loops))])
    part = part[(*(0 for _ in fixed), ...)]
    return part[(*(slice(None) if loop in loops else None for loop in range(len(ranges))), ...)]


def _indices(ranges: Ranges) -> list[Array]:
    """Returns the indices of each loop, each along the loop's own axis."""
    rank = len(ranges)
    return [
        np.arange(low, high, dtype=np.int64).reshape([-1 if axis == loop else 1 for axis in range(rank)])
        for loop, (low, high) in enumerate(ranges)
    ]


def gather(array: Array, affine_map: AffineMap, ranges: Ranges, what: str) -> Array:
    """Returns the elements that a map addresses at each point of `ranges`."""
    if is_plain(affine_map):
        return _window(array, affine_map, ranges, what)
    loops = _indices(ranges)
    indices = [apply_affine(result, loops) for result in affine_map.results]
    check_range(indices, array.shape, what)
    return array[tuple(indices)]


def scatter(array: Array, affine_map: AffineMap, extents: Sequence[int], values: Array, what: str) -> None:
    """Writes the values of a whole iteration space through a map.

    Raises:
        ExecutionError: The map is not injective, or an index is out of range.
    """
    ranges = tuple((0, extent) for extent in extents)
    missing = set(range(len(extents))) - loops_of(affine_map)
    if any(extents[loop] > 1 for loop in missing):
        raise ExecutionError(f"{what}: several points write one element, {affine_map} misses loops {missing}")
    if math.prod(extents) == 0:
        return
    if is_plain(affine_map):
        _window(array, affine_map, ranges, what)[...] = values
        return
    indices = [apply_affine(result, _indices(ranges)) for result in affine_map.results]
    check_range(indices, array.shape, what)
    flat = np.ravel_multi_index(tuple(np.broadcast_arrays(*indices)), array.shape)
    if np.unique(flat).size != math.prod(extents):
        raise ExecutionError(f"{what}: several points write one element through {affine_map}")
    array[tuple(indices)] = values


def contract(x: Array, y: Array, folded: Sequence[int]) -> Array:
    """Returns `x * y` summed over the axes `folded`, which remain with extent 1, by one batched matrix product."""
    extents = np.broadcast_shapes(x.shape, y.shape)
    rank = len(extents)

    def kept(present: bool, other: bool) -> list[int]:
        return [
            axis
            for axis in range(rank)
            if axis not in folded and (x.shape[axis] > 1) == present and (y.shape[axis] > 1) == other
        ]

    batch = kept(True, True) + kept(False, False)
    rows, columns, inner = kept(True, False), kept(False, True), list(folded)
    inner_shape = [extents[axis] for axis in inner]

    def matrices(values: Array, own: list[int], last: bool) -> Array:
        shape = [extents[axis] if axis in inner else values.shape[axis] for axis in range(rank)]
        others = [axis for axis in range(rank) if axis not in (*batch, *own, *inner)]
        order = [*batch, *own, *inner, *others] if last else [*batch, *inner, *own, *others]
        moved = np.broadcast_to(values, shape).transpose(order)
        sizes = [math.prod(shape[axis] for axis in own), math.prod(inner_shape)]
        return moved.reshape(math.prod(shape[axis] for axis in batch), *(sizes if last else sizes[::-1]))

    product = np.matmul(matrices(x, rows, True), matrices(y, columns, False))
    order = [*batch, *rows, *columns, *inner]
    shape = [1 if axis in inner else extents[axis] for axis in order]
    return product.reshape(shape).transpose(np.argsort(order))


def _full_rank(value: Array, rank: int) -> Array:
    return value.reshape((1,) * (rank - value.ndim) + value.shape)


class PreparedStage:
    """One `linalg.generic` of a kernel, checked and ready to run on any arrays.

    Args:
        stage: The stage.
        in_order: Whether it folds into the present value of its outputs, in the order of its loops, as stages of tiles
            do; those of a `buf.kernel` have an implicit start, and any order.

    Raises:
        ExecutionError: The stage contains an unsupported op, type or reduction.
    """

    def __init__(self, stage: linalg.ops.GenericOp, in_order: bool = False):
        self.stage, self.in_order = stage, in_order
        self.block: Block = stage.body.block
        self.maps = buf.maps_of(stage)
        self.extents = buf.loop_extents(stage)
        self._check_ops()
        self.skipped: set[Operation] = set()
        self.outputs = [self._output(position) for position in range(len(stage.outputs))]
        self._dependencies = self._find_dependencies()

    def _check_ops(self) -> None:
        for op in self.stage.body.walk():
            if op.name not in RULES and op.name not in _CONTROL:
                raise ExecutionError(f"{op.name} is not supported in a stage")
            for result in op.results:
                scalar_dtype(result.type)
            if isinstance(op, scf.IfOp) and op.results and not op.false_region.blocks:
                raise ExecutionError("scf.if with results needs an else region")
        for position, operand in enumerate(self.stage.operands):
            if buf.is_shape_only(operand) and self.block.args[position].uses:
                raise ExecutionError("linalg.generic reads an operand that has only a shape")

    def _output(self, position: int) -> _Output:
        stage, inputs = self.stage, len(self.stage.inputs)
        target, affine_map = stage.outputs[position], self.maps[inputs + position]
        if not self.block.args[inputs + position].uses:
            yielded = cast(Operation, self.block.last_op).operands[position]
            return _Output(target, affine_map, yielded, None, (), None)
        reduction = reductions_of(stage)[position]
        if type(reduction.combine) not in COMBINERS:
            raise ExecutionError(f"linalg.generic: {reduction.combine.name} does not combine an accumulator")
        self.skipped.add(reduction.combine)
        folded = tuple(sorted(set(range(len(self.extents))) - loops_of(affine_map)))
        combiner, factors = COMBINERS[type(reduction.combine)], self._factors(reduction, folded)
        return _Output(target, affine_map, reduction.value, combiner, folded, factors)

    def _factors(self, reduction: Reduction, folded: tuple[int, ...]) -> tuple[SSAValue, SSAValue] | None:
        """Returns the factors of a sum of products, if the product has no other use and a matrix product is cheaper."""
        value, product = reduction.value, reduction.value.owner
        if self.in_order or not isinstance(reduction.combine, arith.AddfOp) or not folded:
            return None
        if not isinstance(product, arith.MulfOp) or value.uses.get_length() != 1 or product.parent is not self.block:
            return None
        dependencies = self._find_dependencies()
        sides = [dependencies[operand] for operand in product.operands]
        # If both factors depend on all loops, a matrix product saves nothing.
        if any(len(side) == len(self.extents) for side in sides) and sides[0] == sides[1]:
            return None
        self.skipped.add(product)
        return product.lhs, product.rhs

    def _find_dependencies(self) -> dict[SSAValue, set[int]]:
        """Returns the loops that each value of the body depends on."""
        results: dict[SSAValue, set[int]] = {}
        for argument, affine_map in zip(self.block.args, self.maps, strict=True):
            results[argument] = loops_of(affine_map)

        def visit(block: Block, condition: set[int]) -> None:
            for op in block.ops:
                loops = set().union(*(results.get(operand, set()) for operand in op.operands))
                if isinstance(op, linalg.ops.IndexOp):
                    loops = {op.dim.value.data}
                if isinstance(op, scf.IfOp):
                    for region in op.regions:
                        for inner in region.blocks:
                            visit(inner, condition | loops)
                    ends = [inner.last_op for region in op.regions for inner in region.blocks]
                    yielded = [results.get(value, set()) for end in ends if end for value in end.operands]
                    loops = loops.union(*yielded)
                if isinstance(op, scf.ForOp):
                    # Twice, since values yielded by one iteration are carried into the next.
                    for _ in range(2):
                        results.update((argument, loops | condition) for argument in op.body.block.args)
                        visit(op.body.block, condition | loops)
                        end = op.body.block.last_op
                        assert end is not None
                        loops = loops.union(*(results.get(value, set()) for value in end.operands))
                results.update((result, loops | condition) for result in op.results)

        visit(self.block, set())
        return results

    @cached_property
    def _pieces(self) -> list[Ranges]:
        """The tiles of the iteration space whose values fit in memory; reduction loops are tiled last, innermost."""
        kinds = buf.iterators_of(self.stage)
        order = sorted(range(len(self.extents)), key=lambda loop: kinds[loop] == IteratorType.REDUCTION)
        values = [
            loops
            for value, loops in self._dependencies.items()
            if not (isinstance(value.owner, Operation) and value.owner in self.skipped)
        ]
        values += [set(range(len(self.extents))) - set(output.folded) for output in self.outputs]
        budget = max(TEMPORARY_BYTES // (8 * (len(values) + 1)), 1 << 12)
        tile = list(self.extents)

        def too_large() -> int | None:
            for loops in values:
                if math.prod(tile[loop] for loop in loops) > budget:
                    return next(loop for loop in order if loop in loops and tile[loop] > 1)
            return None

        while (loop := too_large()) is not None:
            tile[loop] = -(-tile[loop] // 2)
        steps = [range(0, extent, max(step, 1)) for extent, step in zip(self.extents, tile, strict=True)]
        return [
            tuple((low, min(low + step, extent)) for low, step, extent in zip(lows, tile, self.extents, strict=True))
            for lows in itertools.product(*steps)
        ]

    def run(
        self, arrays: Mapping[SSAValue, Array], perturb: Perturb | None = None, indices: Mapping[SSAValue, int] = NONE
    ) -> None:
        """Computes the stage.

        Args:
            arrays: The arrays of the kernel's block arguments and locals; outputs are written in place.
            perturb: Perturbs f64 sums like rounding errors; `None` for no perturbation.
            indices: The indices around the stage that its body uses.
        """
        results = [self._initial(output, arrays[output.target]) for output in self.outputs]
        for ranges in self._pieces:
            values = _Evaluation(self, arrays, ranges, perturb, indices)
            for output, result in zip(self.outputs, results, strict=True):
                part = values.of_output(output)
                key = tuple(
                    slice(0, 1) if loop in output.folded else slice(*bounds) for loop, bounds in enumerate(ranges)
                )
                window = result[(*key, ...)]
                if output.combiner is None:
                    window[...] = part
                elif self.in_order:
                    window[...] = _folded_in_order(output, window, part)
                else:
                    window[...] = output.combiner.combine(window, part, output.element)
        for output, result in zip(self.outputs, results, strict=True):
            scatter(arrays[output.target], output.map, result.shape, result, "linalg.generic")

    def _initial(self, output: _Output, target: Array) -> Array:
        shape = [1 if loop in output.folded else extent for loop, extent in enumerate(self.extents)]
        if self.in_order and output.combiner is not None:
            held = gather(target, output.map, tuple((0, extent) for extent in shape), "linalg.generic")
            return np.broadcast_to(read(held, output.element), shape).copy()
        start = 0 if output.combiner is None else output.combiner.start(output.element)
        return np.full(shape, start, scalar_dtype(output.element))


def _folded_in_order(output: _Output, held: Array, terms: Array) -> Array:
    """Returns accumulators with terms folded in one by one, in the order of the loops."""
    combiner, folded = output.combiner, output.folded
    assert combiner is not None
    for term in np.ndindex(*(terms.shape[loop] for loop in folded)):
        at = dict(zip(folded, term, strict=True))
        key = tuple(slice(at[loop], at[loop] + 1) if loop in at else slice(None) for loop in range(terms.ndim))
        held = combiner.combine(held, terms[key], output.element)
    return held


class _Evaluation:
    """The values of a stage's body on one tile of its iteration space."""

    def __init__(
        self,
        stage: PreparedStage,
        arrays: Mapping[SSAValue, Array],
        ranges: Ranges,
        perturb: Perturb | None,
        indices: Mapping[SSAValue, int],
    ):
        self.stage, self.arrays, self.ranges, self.perturb = stage, arrays, ranges, perturb
        self.loops = _indices(ranges)
        self.values: dict[SSAValue, Array] = {value: np.asarray(at, np.int64) for value, at in indices.items()}
        generic = stage.stage
        for operand, argument, affine_map in zip(generic.inputs, stage.block.args, stage.maps, strict=False):
            if argument.uses:
                elements = gather(arrays[operand], affine_map, ranges, "linalg.generic")
                self.values[argument] = read(elements, buf.element_of(operand))
        self._run(stage.block, None)

    def of_output(self, output: _Output) -> Array:
        """Returns this tile's contribution to an output: its values, or their reduction."""
        rank = len(self.ranges)
        if output.factors is not None:
            x, y = (_full_rank(self.values[factor], rank) for factor in output.factors)
            x, y = self._spread(x, y, output.folded)
            product = contract(x, y, output.folded).astype(x.dtype, copy=False)
            if self.perturb is None or product.dtype != np.float64:
                return product
            return self.perturb(product, contract(np.abs(x), np.abs(y), output.folded))
        value = self.values[output.value]
        if output.combiner is None:
            return value
        value = np.broadcast_to(value, [high - low for low, high in self.ranges])
        if self.stage.in_order:
            return value
        total = output.combiner.reduce(value, output.folded, output.element)
        if self.perturb is None or output.combiner.op is not arith.AddfOp or total.dtype != np.float64:
            return total
        return self.perturb(total, output.combiner.reduce(np.abs(value), output.folded, output.element))

    def _spread(self, x: Array, y: Array, folded: tuple[int, ...]) -> tuple[Array, Array]:
        """Broadcasts `x` along the reduction loops that neither factor depends on."""
        shape = list(x.shape)
        for loop in folded:
            low, high = self.ranges[loop]
            if x.shape[loop] == 1 and y.shape[loop] == 1:
                shape[loop] = high - low
        return np.broadcast_to(x, shape), y

    def _run(self, block: Block, mask: Array | None) -> list[Array]:
        """Runs a block, and returns the operands of its `scf.yield`; under a mask, loads skip the false points."""
        for op in block.ops:
            if op in self.stage.skipped:
                continue
            if isinstance(op, scf.YieldOp):
                return [self.values[operand] for operand in op.operands]
            if isinstance(op, scf.IfOp):
                self._choose(op, mask)
            elif isinstance(op, scf.ForOp):
                self._repeat(op, mask)
            elif isinstance(op, memref.LoadOp):
                self.values[op.res] = self._load(op, mask)
            elif isinstance(op, linalg.ops.IndexOp):
                self.values[op.result] = self.loops[op.dim.value.data]
            elif isinstance(op, affine.ApplyOp):
                count = op.map.data.num_dims
                operands = [self.values[operand] for operand in op.mapOperands]
                self.values[op.result] = apply_affine(op.map.data.results[0], operands[:count], operands[count:])
            elif not isinstance(op, linalg.ops.YieldOp):
                operands = [self.values[operand] for operand in op.operands]
                self.values.update(zip(op.results, evaluate(op, operands), strict=True))
        return []

    def _choose(self, op: scf.IfOp, mask: Array | None) -> None:
        if not op.results:
            return
        condition = self.values[op.cond]
        branches: list[list[Array]] = []
        for region, holds in ((op.true_region, condition), (op.false_region, ~condition)):
            branches.append(self._run(region.block, holds if mask is None else holds & mask))
        for result, on_true, on_false in zip(op.results, *branches, strict=True):
            self.values[result] = np.where(condition, on_true, on_false)

    def _repeat(self, op: scf.ForOp, mask: Array | None) -> None:
        """Runs a loop at all points at once; points that have reached their own bound keep their carried values."""
        at, stop, step = (self.values[bound] for bound in (op.lb, op.ub, op.step))
        index, *arguments = op.body.block.args
        carried = [self.values[operand] for operand in op.iter_args]
        while True:
            active = (at < stop) if mask is None else (at < stop) & mask
            if not active.any():
                break
            self.values.update(zip((index, *arguments), (at, *carried), strict=True))
            after = self._run(op.body.block, active)
            carried = [np.where(active, new, old) for new, old in zip(after, carried, strict=True)]
            at = at + step
        self.values.update(zip(op.results, carried, strict=True))

    def _load(self, op: memref.LoadOp, mask: Array | None) -> Array:
        array = self.arrays.get(op.memref)
        if array is None:
            raise ExecutionError(f"{op.name} reads {op.memref.type}, which is not an operand of the kernel")
        indices = [self.values[index] for index in op.indices]
        if mask is not None:
            indices = [np.where(mask, index, 0) for index in indices]
            if array.size == 0 and not mask.any():
                return np.zeros(mask.shape, scalar_dtype(op.res.type))
        check_range(indices, array.shape, op.name)
        return read(np.asarray(array[tuple(indices)]), buf.element_of(op.memref))
