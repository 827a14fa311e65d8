"""Contractions by labels or axes: `einsum`, `tensordot`, `outer`. All are lowered to `tg.dot_general`."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from tensorgrad.dialects.tg import contract
from tensorgrad.dialects.tg.base import ints, size_of
from tensorgrad.errors import ShapeError
from tensorgrad.ops.promotion import broadcast_to, common_numbers
from tensorgrad.ops.recorded import recorded_whole
from tensorgrad.ops.reduce import sum as sum_over
from tensorgrad.ops.shape import normalized_axis, reshape, transpose
from tensorgrad.tracing.checks import checked_extent
from tensorgrad.tracing.likes import Axes, TensorLike
from tensorgrad.tracing.tensor import Tensor
from tensorgrad.tracing.tracer import emit


def contracted(
    left: Tensor, right: Tensor, batch: tuple[Sequence[int], Sequence[int]], inner: tuple[Sequence[int], Sequence[int]]
) -> Tensor:
    """Returns the sum of products over `inner`, batched over `batch`, followed by the free axes of both, in order."""
    return emit(
        contract.DotGeneralOp,
        [left, right],
        lhs_batch=ints(batch[0]),
        rhs_batch=ints(batch[1]),
        lhs_contracting=ints(inner[0]),
        rhs_contracting=ints(inner[1]),
    )


def tensordot(x: TensorLike, y: TensorLike, axes: int | Sequence[Axes] = 2) -> Tensor:
    """Sums products over pairs of axes: the last `axes` of `x` with the first of `y`, or two lists of axes.

    The result has the other axes of `x`, then those of `y`.

    Raises:
        ShapeError: The axes don't pair up, or their extents differ.

    Example:
        >>> tg.tensordot(tg.ones((2, 3, 4)), tg.ones((4, 3, 5)), axes=([1, 2], [1, 0])).shape
        (2, 5)
    """
    left, right = common_numbers("tensordot", x, y)
    if isinstance(axes, (tuple, list)):
        if len(axes) != 2:
            raise ShapeError(f"tensordot: axes must be a number or two lists, got {axes!r}")
        axis_lists = [list(part) if isinstance(part, (tuple, list)) else [part] for part in axes]
    else:
        count = checked_extent(axes, "tensordot: axes")
        if not 0 <= count <= min(left.ndim, right.ndim):
            raise ShapeError(f"tensordot: {left.shape} and {right.shape} do not share {count} axes")
        axis_lists = [list(range(left.ndim - count, left.ndim)), list(range(count))]
    first = [normalized_axis(axis, left.ndim, "tensordot") for axis in axis_lists[0]]
    second = [normalized_axis(axis, right.ndim, "tensordot") for axis in axis_lists[1]]
    named_twice = len(set(first)) != len(first) or len(set(second)) != len(second)
    if named_twice or [left.shape[axis] for axis in first] != [right.shape[axis] for axis in second]:
        raise ShapeError(f"tensordot: axes {first} of {left.shape} do not match axes {second} of {right.shape}")
    return contracted(left, right, ([], []), (first, second))


@recorded_whole
def outer(x: TensorLike, y: TensorLike) -> Tensor:
    """Returns the products of each element of `x` with each of `y`; both are flattened, as in NumPy.

    Example:
        >>> tg.outer([1.0, 2.0], [10.0, 20.0, 30.0])
        Array([[10., 20., 30.],
         [20., 40., 60.]], dtype=f32)
    """
    left, right = common_numbers("outer", x, y)
    return contracted(reshape(left, -1), reshape(right, -1), ([], []), ([], []))


@dataclass(frozen=True, eq=False)
class _Term:
    """A tensor whose axes carry labels, each once."""

    tensor: Tensor
    labels: tuple[str, ...]


def einsum(subscripts: str, *operands: TensorLike) -> Tensor:
    """Sums products by Einstein's convention, as `numpy.einsum`.

    `"ij,jk->ik"` is a matrix product: a label that the output lacks is summed over. A repeated label in one operand
    takes its diagonal. `...` stands for further axes that broadcast; if the output lacks it they are summed over, as in
    PyTorch. Without `->` the output has the labels that occur once, in alphabetical order. Two operands become one
    `tg.dot_general`; more are contracted pairwise, the pair with the smallest result first.

    Raises:
        ShapeError: The subscripts are malformed or don't match the operands.
        DTypeError: The operands have no common dtype, or it is bool.

    Example:
        >>> tg.einsum("ij,j->i", [[1.0, 2.0], [3.0, 4.0]], [1.0, 10.0])
        Array([21., 43.], dtype=f32)
        >>> tg.einsum("bij,bjk->bik", tg.ones((5, 2, 3)), tg.ones((5, 3, 4))).shape
        (5, 2, 4)
    """
    if not isinstance(subscripts, str):
        raise ShapeError(f"einsum: the subscripts must be a string such as 'ij,jk->ik', got {subscripts!r}")
    if not operands:
        raise ShapeError("einsum: needs an operand")
    tensors = common_numbers("einsum", *operands)
    inputs, output = _parsed(subscripts, tensors)
    sizes = _sizes(subscripts, tensors, inputs)
    unknown = [label for label in output if label not in sizes]
    if unknown or len(set(output)) != len(output):
        shown = "".join(label for label in output if len(label) == 1)
        raise ShapeError(f"einsum: the output {shown!r} must name labels of the operands, each once")
    terms = [_diagonal(tensor, labels, sizes) for tensor, labels in zip(tensors, inputs, strict=True)]
    while len(terms) > 1:
        first, second = _next_pair(terms, output, sizes)
        needed = {*output}.union(*(term.labels for term in terms if term not in (first, second)))
        terms = [term for term in terms if term is not first and term is not second]
        terms.append(_pair(first, second, needed))
    return _arranged(terms[0], output, sizes)


def _parsed(subscripts: str, tensors: Sequence[Tensor]) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
    """Returns the labels of all operands and of the output; axes under `...` are `...1`, `...2`, from the last on."""
    text = subscripts.replace(" ", "")
    operand_labels, arrow, result_labels = text.partition("->")
    parts = operand_labels.split(",")
    for part in (*parts, result_labels):
        letters = part.replace("...", "", 1)
        if not (letters == "" or (letters.isascii() and letters.isalpha())):
            raise ShapeError(f"einsum: {part!r} in {subscripts!r} is not made of letters and one '...'")
    if len(parts) != len(tensors):
        raise ShapeError(f"einsum: {subscripts!r} names {len(parts)} operands, got {len(tensors)}")
    inputs: list[tuple[str, ...]] = []
    broad = 0
    for part, tensor in zip(parts, tensors, strict=True):
        hidden = tensor.ndim - len(part.replace("...", ""))
        if hidden < 0 or (hidden and "..." not in part):
            raise ShapeError(f"einsum: {part!r} does not name the {tensor.ndim} axes of {tensor.shape}")
        inputs.append(_spelled(part, hidden))
        broad = max(broad, hidden if "..." in part else 0)
    if arrow:
        return inputs, _spelled(result_labels, broad)
    letters = [label for labels in inputs for label in labels if len(label) == 1]
    single = sorted(label for label in set(letters) if letters.count(label) == 1)
    return inputs, (*_spelled("...", broad), *single)


def _spelled(part: str, hidden: int) -> tuple[str, ...]:
    before, dots, after = part.partition("...")
    middle = [f"...{number}" for number in range(hidden, 0, -1)] if dots else []
    return (*before, *middle, *after)


def _sizes(subscripts: str, tensors: Sequence[Tensor], inputs: Sequence[tuple[str, ...]]) -> dict[str, int]:
    """Returns the extent of each label; 1 broadcasts to any other."""
    sizes: dict[str, int] = {}
    for tensor, labels in zip(tensors, inputs, strict=True):
        own = dict(zip(labels, tensor.shape, strict=True))
        for label, extent in zip(labels, tensor.shape, strict=True):
            if own[label] != extent:
                raise ShapeError(f"einsum: {tensor.shape} has no diagonal along label {label!r}")
            known = sizes.setdefault(label, extent)
            if known == 1:
                sizes[label] = extent
            elif extent not in (1, known):
                raise ShapeError(f"einsum: {subscripts!r}: label {label!r} has extents {known} and {extent}")
    return sizes


def _diagonal(tensor: Tensor, labels: tuple[str, ...], sizes: dict[str, int]) -> _Term:
    """Returns the operand with unique labels: diagonals of repeated ones, and without axes that only broadcast."""
    full_axes = [i for i, label in enumerate(labels) if tensor.shape[i] == sizes[label]]
    tensor = reshape(tensor, [tensor.shape[i] for i in full_axes])
    names = [labels[i] for i in full_axes]
    while len(set(names)) < len(names):
        twice = next(label for label in names if names.count(label) > 1)
        first, second = [i for i, label in enumerate(names) if label == twice][:2]
        rest = [i for i in range(len(names)) if i not in (first, second)]
        moved = transpose(tensor, [*rest, first, second])
        extent = sizes[twice]
        flat = reshape(moved, (*moved.shape[:-2], extent * extent))
        tensor = flat[..., :: extent + 1] if extent else reshape(moved, (*moved.shape[:-2], 0))
        names = [*(names[i] for i in rest), twice]
    return _Term(tensor, tuple(names))


def _next_pair(terms: Sequence[_Term], output: Sequence[str], sizes: dict[str, int]) -> tuple[_Term, _Term]:
    """Returns the pair whose contraction shrinks the data most (or grows it least)."""
    if len(terms) == 2:
        return terms[0], terms[1]

    def cost(pair: tuple[int, int]) -> tuple[int, int]:
        first, second = (terms[i] for i in pair)
        needed = {*output}.union(*(term.labels for i, term in enumerate(terms) if i not in pair))
        joint = {*first.labels, *second.labels}
        result = size_of([sizes[label] for label in joint & needed])
        return result - first.tensor.size - second.tensor.size, size_of([sizes[label] for label in joint])

    best = min(itertools.combinations(range(len(terms)), 2), key=cost)
    return terms[best[0]], terms[best[1]]


def _summed(term: _Term, needed: set[str]) -> _Term:
    """Sums over the labels that are not needed elsewhere."""
    gone = [i for i, label in enumerate(term.labels) if label not in needed]
    if not gone:
        return term
    total = sum_over(term.tensor, gone, dtype=term.tensor.dtype)
    return _Term(total, tuple(label for label in term.labels if label in needed))


def _pair(first: _Term, second: _Term, needed: set[str]) -> _Term:
    """Contracts two terms, keeping the labels in `needed`, which the output or another term has."""
    left = _summed(first, needed | set(second.labels))
    right = _summed(second, needed | set(left.labels))
    shared = [label for label in left.labels if label in right.labels]
    batch = [label for label in shared if label in needed]
    inner = [label for label in shared if label not in needed]

    def places(labels: Sequence[str]) -> tuple[list[int], list[int]]:
        return [left.labels.index(label) for label in labels], [right.labels.index(label) for label in labels]

    free = [label for label in (*left.labels, *right.labels) if label not in shared]
    product = contracted(left.tensor, right.tensor, places(batch), places(inner))
    return _Term(product, (*batch, *free))


def _arranged(term: _Term, output: tuple[str, ...], sizes: dict[str, int]) -> Tensor:
    """Returns the last term in the output's order, broadcast along labels whose axes all had extent 1."""
    term = _summed(term, set(output))
    present = [label for label in output if label in term.labels]
    moved = transpose(term.tensor, [term.labels.index(label) for label in present]) if present else term.tensor
    extents = [sizes[label] for label in output]
    return broadcast_to(reshape(moved, [sizes[label] if label in present else 1 for label in output]), extents)
