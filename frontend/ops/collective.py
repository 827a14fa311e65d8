"""Collectives: values combined across all processes of a group.

They are for functions that each process runs on its own values, such as one that `tg.jit` compiles. A step that
`tg.compile` divides among processes needs none of them: it sees the whole batch, and communicates by itself. Every
process has to call the same collectives in the same order.
"""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr

from tensorgrad.dialects.tg import collective
from tensorgrad.dialects.tg.base import integer
from tensorgrad.errors import DTypeError, OptionError, ShapeError
from tensorgrad.ops.elementwise.arithmetic import multiply
from tensorgrad.ops.promotion import as_tensor, check_numbers
from tensorgrad.ops.shape import normalized_axis
from tensorgrad.runtime.group.membership import current_group
from tensorgrad.tracing.checks import checked_integer
from tensorgrad.tracing.dtypes import SHORT, is_float
from tensorgrad.tracing.likes import TensorLike
from tensorgrad.tracing.tensor import Tensor
from tensorgrad.tracing.tracer import emit

MEAN = "mean"
REDUCTIONS = (*collective.COMBINERS, MEAN)


def all_reduce(x: TensorLike, reduction: str = "sum") -> Tensor:
    """Returns `x` reduced over all processes, element by element; bit-identical in every process.

    Sums are computed in rank order. The derivative is that of the sum of the results of all processes.

    Args:
        x: A tensor of numbers, of the same shape in every process.
        reduction: "sum", "mean" (of floats), "max" or "min".

    Raises:
        OptionError: The reduction is none of these.
        DTypeError: The mean of integers, or anything of booleans.

    Example:
        >>> tg.distributed.simulate(2, lambda group: float(tg.jit(tg.all_reduce, device="numpy")(group.rank + 1.0)))
        [3.0, 3.0]
    """
    tensor = as_tensor(x)
    if reduction not in REDUCTIONS:
        raise OptionError(f"all_reduce: reduction must be one of {', '.join(REDUCTIONS)}, not {reduction!r}")
    check_numbers("all_reduce", tensor.dtype)
    if reduction == MEAN and not is_float(tensor.dtype):
        raise DTypeError(f"all_reduce: a mean is of floats, not of {SHORT[tensor.dtype]}; cast first")
    size = current_group().size
    combiner = StringAttr("sum" if reduction == MEAN else reduction)
    reduced = emit(collective.AllReduceOp, [tensor], reduction=combiner, size=integer(size))
    return multiply(reduced, 1 / size) if reduction == MEAN else reduced


def reduce_scatter(x: TensorLike, axis: int = 0) -> Tensor:
    """Returns this process's part of the sum of `x` over all processes, which is divided equally in rank order.

    Args:
        x: A tensor of numbers, of the same shape in every process.
        axis: The axis to divide.

    Raises:
        ShapeError: There is no such axis, or it can't be divided equally.
        DTypeError: The elements are booleans.

    Example:
        >>> tg.distributed.simulate(2, lambda group: tg.jit(tg.reduce_scatter, device="numpy")(np.ones((4, 3))).shape)
        [(2, 3), (2, 3)]
    """
    tensor, size = as_tensor(x), current_group().size
    place = normalized_axis(axis, tensor.ndim, "reduce_scatter")
    check_numbers("reduce_scatter", tensor.dtype)
    if tensor.shape[place] % size:
        raise ShapeError(
            f"reduce_scatter: axis {axis} of shape {tensor.shape} is not divisible by {size}, one for each process"
        )
    return emit(collective.ReduceScatterOp, [tensor], axis=integer(place), size=integer(size))


def all_gather(x: TensorLike, axis: int = 0) -> Tensor:
    """Returns `x` of all processes concatenated along an axis, in rank order.

    Args:
        x: A tensor, of the same shape in every process.
        axis: The axis to concatenate along.

    Raises:
        ShapeError: There is no such axis.

    Example:
        >>> tg.distributed.simulate(2, lambda group: tg.jit(tg.all_gather, device="numpy")(np.ones((2, 3))).shape)
        [(4, 3), (4, 3)]
    """
    tensor = as_tensor(x)
    place = normalized_axis(axis, tensor.ndim, "all_gather")
    return emit(collective.AllGatherOp, [tensor], axis=integer(place), size=integer(current_group().size))


def broadcast_from(x: TensorLike, root: int = 0) -> Tensor:
    """Returns `x` of the process of rank `root`, in every process.

    Args:
        x: A tensor, of the same shape in every process.
        root: The rank of the source process.

    Raises:
        OptionError: There is no such rank.

    Example:
        >>> tg.distributed.simulate(2, lambda group: float(tg.jit(tg.broadcast_from, device="numpy")(group.rank + 5.0)))
        [5.0, 5.0]
    """
    size = current_group().size
    root = checked_integer(root, "broadcast_from: root, a rank of the group,", 0, size - 1)
    return emit(collective.CollectiveBroadcastOp, [as_tensor(x)], root=integer(root), size=integer(size))
