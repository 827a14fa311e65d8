"""Random small programs of API functions, as Hypothesis strategies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from harness import NumpyArray
from hypothesis import strategies as st
from xdsl.ir import Operation

import tensorgrad as tg
from tensorgrad.dialects.tg import convolution, index, shape
from tensorgrad.dialects.tg.base import TensorOp, integer, ints
from tensorgrad.dialects.tg.call import CallOp
from tensorgrad.dialects.tg.control import RegionOp
from tensorgrad.dialects.tg.leaves import ConstantOp
from tensorgrad.ops import cumulative, joining
from tensorgrad.ops import reduce as reductions
from tensorgrad.ops import shape as shaping
from tensorgrad.ops import sort as sorting
from tensorgrad.tracing.dtypes import NAMES, Spec
from tensorgrad.tracing.tensor import Array, Tensor
from tensorgrad.tracing.tracer import emit, trace
from tensorgrad.transforms.checkpoint import checkpoint
from tensorgrad.transforms.control import cond, scan
from tensorgrad.transforms.custom_vjp import custom_vjp

Shape = tuple[int, ...]
MOST_ELEMENTS = 72
FEWEST_OPS, MOST_OPS = 5, 40
"""The minimum and maximum number of `tg` ops in a program, without those of its gradient."""


@dataclass(frozen=True)
class Step:
    """A call: the function's name, the indices of its operands among the values so far, and its other arguments."""

    name: str
    operands: tuple[int, ...]
    arguments: tuple[Any, ...] = ()

    def __repr__(self) -> str:
        listed = ", ".join([*(f"v{i}" for i in self.operands), *map(repr, self.arguments)])
        return f"{self.name}({listed})"


@dataclass(frozen=True)
class Program:
    """Inputs by shape, and steps; every value that no later step uses is a result."""

    inputs: tuple[Shape, ...]
    steps: tuple[Step, ...]

    def values(self, *inputs: Tensor) -> list[Tensor]:
        """Returns every value, the inputs first."""
        known = list(inputs)
        for step in self.steps:
            known.append(FUNCTIONS[step.name](*(known[i] for i in step.operands), *step.arguments))
        return known

    def unread(self) -> list[int]:
        """Returns the indices of the results."""
        read = {i for step in self.steps for i in step.operands}
        return [i for i in range(len(self.inputs), len(self.inputs) + len(self.steps)) if i not in read]

    def function(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Returns a scalar that depends on every result, and the results."""
        known = self.values(*inputs)
        results = [known[i] for i in self.unread()]
        loss = reductions.sum(tg.sin(results[0]))
        for result in results[1:]:
            loss = loss + reductions.sum(tg.tanh(result) * result)
        return loss, *results

    def samples(self, seed: int) -> list[NumpyArray]:
        """Returns sample inputs in f64."""
        random = np.random.default_rng(seed)
        return [np.asarray(random.normal(size=extents)) for extents in self.inputs]


def _pad(x: Tensor, low: Sequence[int], high: Sequence[int], interior: Sequence[int]) -> Tensor:
    zero = Array(np.array(0.25, x.dtype))
    return emit(shape.PadOp, [x, zero], low=ints(low), high=ints(high), interior=ints(interior))


def _indices(values: Any) -> Array:
    return Array(np.array(values, np.int32))


def _scatter_add(x: Tensor, values: Sequence[int], axis: int, extent: int) -> Tensor:
    return emit(index.ScatterAddOp, [x, _indices(values)], axis=integer(axis), extent=integer(extent))


def _take_along(x: Tensor, values: Any, axis: int) -> Tensor:
    spread = np.reshape(values, [-1 if i == axis else 1 for i in range(x.ndim)])
    return shaping.take_along_axis(x, _indices(spread), axis)


@custom_vjp
def bounded(x: Tensor) -> Tensor:
    """Calls a function with a custom derivative, which equals the ordinary one."""
    return tg.sin(x)


bounded.defvjp(lambda x: (tg.sin(x), x), lambda x, g: (g * tg.cos(x),))


def _scanned(x: Tensor, axis: int) -> Tensor:
    """A recurrence over the rows along an axis."""
    rows = joining.moveaxis(x, axis, 0)
    return joining.moveaxis(scan(lambda c, row: ((new := tg.tanh(c + row)), new * c), rows[0], rows)[1], 0, axis)


def _counts(x: Tensor, axis: int) -> Tensor:
    """Returns comparisons and indices as numbers."""
    seen = reductions.sum(tg.cast(x > 0.0, NAMES["i32"]), axis, keepdims=True)
    return tg.cast(seen + reductions.argmax(x, axis, keepdims=True), x.dtype) * x


UNARY: dict[str, Callable[..., Tensor]] = {
    "sin": tg.sin,
    "tanh": tg.tanh,
    "sigmoid": tg.sigmoid,
    "negative": tg.negative,
    "relu": tg.relu,
    "abs": tg.abs,
    "affine": lambda x: x * 0.7 - 0.3,
    "double": lambda x: x + x,
    "exp": lambda x: tg.exp(-tg.square(x)),
    "root": lambda x: tg.sqrt(1.0 + tg.square(x)),
    "log": lambda x: tg.log(1.5 + tg.square(x)),
    "step": lambda x: tg.cast(x > 0.1, x.dtype) * x,
    "stopped": lambda x: tg.stop_gradient(x) * x,
    "rounded": lambda x: tg.floor(x * 1.7) * x,
    "remainders": lambda x: tg.cast(tg.cast(x * 8.0, NAMES["i32"]) % 5, x.dtype) + x,
    "bits": lambda x: tg.cast((tg.cast(x * 4.0, NAMES["i32"]) ^ 3) >> 1, x.dtype) * x,
    "finite": lambda x: tg.where(tg.logical_and(tg.isfinite(x), x > -0.4), x, 0.5),
    "called": checkpoint(lambda x: tg.tanh(x) * tg.sin(x)),
    "bounded": lambda x: bounded(x) * 0.5,
    "branched": lambda x: cond(reductions.sum(x) > 0.2, lambda y: tg.sin(y) * y, lambda y: y * 0.3, x),
    "repeated": lambda x: scan(lambda c, _: (tg.sin(c) + x * 0.5, None), x, length=3)[0],
}

BINARY: dict[str, Callable[..., Tensor]] = {
    "add": tg.add,
    "subtract": tg.subtract,
    "multiply": tg.multiply,
    "divide": lambda x, y: x / (1.0 + tg.square(y)),
    "maximum": tg.maximum,
    "minimum": tg.minimum,
    "select": lambda x, y: tg.where(x < y, x * y, y),
}

REDUCTIONS: dict[str, Callable[..., Tensor]] = {
    "sum": reductions.sum,
    "max": reductions.max,
    "min": reductions.min,
    "mean": reductions.mean,
    "prod": reductions.prod,
    "logsumexp": reductions.logsumexp,
}


ROWS = (
    "softmax",
    "log_softmax",
    "positions",
    "cumsum",
    "cumprod",
    "roll",
    "joined",
    "sort",
    "counts",
    "scanned",
)
"""What works along one axis."""


def _windows(x: Tensor, axis: int, size: int, stride: int, dilation: int) -> Tensor:
    return emit(
        convolution.WindowsOp,
        [x],
        axes=ints([axis]),
        size=ints([size]),
        stride=ints([stride]),
        dilation=ints([dilation]),
    )


def _fold(x: Tensor, axis: int, stride: int, dilation: int, extent: int) -> Tensor:
    return emit(
        convolution.FoldOp,
        [x],
        axes=ints([axis]),
        stride=ints([stride]),
        dilation=ints([dilation]),
        extents=ints([extent]),
    )


def _rows(x: Tensor) -> Tensor:
    return x.reshape(-1, 1, x.shape[-1] if x.ndim else 1)


def _convolve(x: Tensor, y: Tensor, stride: int, low: int, high: int, holes: tuple[int, int]) -> Tensor:
    """Convolves every row of `x` with every row of `y`."""
    return emit(
        convolution.ConvOp,
        [_rows(x), _rows(y)],
        stride=ints([stride]),
        low=ints([low]),
        high=ints([high]),
        lhs_dilation=ints([holes[0]]),
        rhs_dilation=ints([holes[1]]),
        groups=integer(1),
    )


SPREAD: dict[str, Callable[[Tensor], Tensor]] = {
    "plain": lambda x: x,
    "affine": lambda x: x * 0.7 + 1.0,
    "tanh": tg.tanh,
    "softmax": reductions.softmax,
    "twice": lambda x: joining.concat([x, x * 0.5], 0),
}
"""The ops applied to a repeated row before a contraction reads it."""


def _spread(x: Tensor, kind: str, count: int) -> Tensor:
    """Returns `count` rows that are equal, or whose halves are, so that a sum over them has nothing to reuse."""
    rows = count // 2 if kind == "twice" else count
    return SPREAD[kind](tg.broadcast_to(x, (rows, x.shape[-1])))


FUNCTIONS: dict[str, Callable[..., Tensor]] = {
    **UNARY,
    **BINARY,
    **REDUCTIONS,
    "softmax": reductions.softmax,
    "log_softmax": reductions.log_softmax,
    "cumsum": cumulative.cumsum,
    "cumprod": cumulative.cumprod,
    "sort": sorting.sort,
    "scanned": _scanned,
    "counts": _counts,
    "roll": lambda x, axis: joining.roll(x, 1, axis),
    "joined": lambda x, axis: joining.concat([x, x * 0.5], axis),
    "reshape": shaping.reshape,
    "transpose": shaping.transpose,
    "broadcast_to": tg.broadcast_to,
    "flip": shaping.flip,
    "slice": lambda x, bounds: x[tuple(slice(*bound) for bound in bounds)],
    "pad": _pad,
    "take": lambda x, values, axis: shaping.take(x, _indices(values), axis),
    "take_along": _take_along,
    "scatter_add": _scatter_add,
    "windows": _windows,
    "fold": _fold,
    "convolve": _convolve,
    "matmul": reductions.matmul,
    "gram": lambda x: x @ shaping.swapaxes(x, -1, -2),
    "transposed": lambda x, y: x @ shaping.swapaxes(y, -1, -2),
    "by_spread": lambda x, y, kind, count: x @ _spread(y, kind, count),
    "spread_by": lambda x, y, kind, count: _spread(y, kind, count) @ x,
    "positions": lambda x, axis: x * shaping.positions(x.shape, axis, x.dtype),
}


@st.composite
def programs(draw: st.DrawFn, most_steps: int = 16) -> Program:
    """Draws a program with 2 or 3 inputs, whose shapes can sometimes be broadcast or multiplied."""
    extent = st.sampled_from((1, 1, 2, 3, 3, 4))
    inputs = tuple(tuple(draw(st.lists(extent, max_size=3))) for _ in range(draw(st.integers(2, 3))))
    shapes: list[Shape] = list(inputs)
    steps: list[Step] = []
    for _ in range(draw(st.integers(1, most_steps))):
        step = draw(_step(shapes))
        if step is not None:
            steps.append(step)
            shapes.append(_shape_of(step, shapes))
    program = Program(inputs, tuple(steps or [Step("sin", (0,))]))
    while (count := ops_in(program)) < FEWEST_OPS:
        last = len(inputs) + len(program.steps) - 1
        program = Program(inputs, (*program.steps, Step("double", (last,))))
    while count > MOST_OPS and len(program.steps) > 1:
        program = Program(inputs, program.steps[:-1])
        count = ops_in(program)
    return program


def ops_in(program: Program) -> int:
    """Returns the number of `tg` ops in a program, without constants and custom derivatives."""
    return _ops_below(trace(program.function, *[Spec(extents, NAMES["f32"]) for extents in program.inputs]))


def _ops_below(op: Operation) -> int:
    regions = [op.body] if isinstance(op, CallOp) else op.regions
    inner = [nested for region in regions for block in region.blocks for nested in block.ops]
    counted = sum(isinstance(nested, TensorOp | RegionOp) and not isinstance(nested, ConstantOp) for nested in inner)
    return counted + sum(map(_ops_below, inner))


def _shape_of(step: Step, shapes: Sequence[Shape]) -> Shape:
    operands = [Array(np.ones(shapes[i])) for i in step.operands]
    return FUNCTIONS[step.name](*operands, *step.arguments).shape


DRAWN = (
    *("unary", "binary", "binary", "reduce", "reduce", "shape", "shape"),
    *("index", "contract", "spread", "row", "window"),
)
"""The kinds of steps, repeated by their relative frequency."""


@st.composite
def _step(draw: st.DrawFn, shapes: Sequence[Shape]) -> Step | None:
    kind = draw(st.sampled_from(DRAWN))
    x = len(shapes) - 1 - draw(st.integers(0, len(shapes) - 1))
    return draw(_KINDS[kind](x, shapes))


@st.composite
def _unary_step(draw: st.DrawFn, x: int, shapes: Sequence[Shape]) -> Step:
    return Step(draw(st.sampled_from(sorted(UNARY))), (x,))


@st.composite
def _binary_step(draw: st.DrawFn, x: int, shapes: Sequence[Shape]) -> Step | None:
    partners = [i for i, other in enumerate(shapes) if _broadcasts(shapes[x], other)]
    if not partners:  # The value has too many elements for further steps.
        return None
    y = draw(st.sampled_from(partners))
    return Step(draw(st.sampled_from(sorted(BINARY))), (x, y) if draw(st.booleans()) else (y, x))


def _broadcasts(x: Shape, y: Shape) -> bool:
    try:
        return int(np.prod(np.broadcast_shapes(x, y))) <= MOST_ELEMENTS
    except ValueError:
        return False


@st.composite
def _reduce_step(draw: st.DrawFn, x: int, shapes: Sequence[Shape]) -> Step:
    axes = tuple(axis for axis in range(len(shapes[x])) if draw(st.booleans()))
    return Step(draw(st.sampled_from(sorted(REDUCTIONS))), (x,), (axes, draw(st.booleans())))


@st.composite
def _row_step(draw: st.DrawFn, x: int, shapes: Sequence[Shape]) -> Step | None:
    if not shapes[x]:
        return None
    name = draw(st.sampled_from(ROWS))
    if name == "joined" and 2 * int(np.prod(shapes[x])) > MOST_ELEMENTS:
        return None
    return Step(name, (x,), (draw(st.integers(0, len(shapes[x]) - 1)),))


@st.composite
def _shape_step(draw: st.DrawFn, x: int, shapes: Sequence[Shape]) -> Step | None:
    old = shapes[x]
    name = draw(st.sampled_from(("reshape", "reshape", "transpose", "broadcast_to", "flip", "slice", "slice", "pad")))
    if name == "reshape":
        return Step(name, (x,), (tuple(draw(_factors(int(np.prod(old, dtype=int))))),))
    if name == "broadcast_to":
        new = (*draw(st.lists(st.integers(1, 3), max_size=2)), *(draw(st.integers(1, 3)) if n == 1 else n for n in old))
        return Step(name, (x,), (new,)) if int(np.prod(new)) <= MOST_ELEMENTS and len(new) <= 4 else None
    if name == "slice":
        bounds = [draw(_bounds(extent)) for extent in old]
        return Step(name, (x,), (tuple(bounds),))
    if not old:
        return None
    if name == "transpose":
        return Step(name, (x,), (tuple(draw(st.permutations(range(len(old))))),))
    if name == "flip":
        return Step(name, (x,), (tuple(axis for axis in range(len(old)) if draw(st.booleans())),))
    edges = [tuple(draw(st.integers(0, 2)) for _ in old) for _ in range(3)]
    grown = np.prod([a + n + (n - 1) * i + b for a, b, i, n in zip(*edges, old, strict=True)])
    return Step(name, (x,), tuple(edges)) if grown <= MOST_ELEMENTS else None


@st.composite
def _factors(draw: st.DrawFn, count: int) -> list[int]:
    factors: list[int] = []
    while count > 1 and len(factors) < 3:
        factor = draw(st.sampled_from([f for f in range(1, count + 1) if count % f == 0]))
        factors.append(factor)
        count //= factor
    return [*factors, count] if count > 1 or not factors else factors


@st.composite
def _bounds(draw: st.DrawFn, extent: int) -> tuple[int, int, int]:
    """Draws a slice of at least one element, sometimes reversed."""
    start = draw(st.integers(0, extent - 1))
    stop = draw(st.integers(start + 1, extent))
    step = draw(st.sampled_from((1, 1, 2, 3, -1)))
    return (start, stop, step) if step > 0 else (stop - 1, start - extent - 1, -1)


@st.composite
def _index_step(draw: st.DrawFn, x: int, shapes: Sequence[Shape]) -> Step | None:
    old = shapes[x]
    if not old:
        return None
    axis = draw(st.integers(0, len(old) - 1))
    name = draw(st.sampled_from(("take", "take_along", "scatter_add")))
    if name == "scatter_add":
        extent = draw(st.integers(1, 4))
        values = draw(st.lists(st.integers(-1, extent), min_size=old[axis], max_size=old[axis]))
        return Step(name, (x,), (tuple(values), axis, extent))
    values = draw(st.lists(st.integers(-old[axis], old[axis] - 1), min_size=1, max_size=3))
    if draw(st.booleans()):
        values = [values[0]] * len(values)
    return Step(name, (x,), (tuple(values), axis))


@st.composite
def _contract_step(draw: st.DrawFn, x: int, shapes: Sequence[Shape]) -> Step | None:
    name = draw(st.sampled_from(("matmul", "gram", "transposed")))
    if len(shapes[x]) < 2 and name != "matmul":
        return None
    if name == "gram":
        return Step(name, (x,))
    columns = [other if name == "matmul" else _transposed(other) for other in shapes]
    partners = [i for i, other in enumerate(columns) if _multiplies(shapes[x], other)]
    return Step(name, (x, draw(st.sampled_from(partners)))) if partners else None


@st.composite
def _spread_step(draw: st.DrawFn, x: int, shapes: Sequence[Shape]) -> Step | None:
    """Draws a product of a matrix and repetitions of one row, in either order."""
    name, old = draw(st.sampled_from(("by_spread", "spread_by"))), shapes[x]
    if len(old) < 2:
        return None
    rows = [i for i, other in enumerate(shapes) if len(other) in (1, 2) and other[:-1] in ((), (1,))]
    if name == "spread_by":
        rows = [i for i in rows if shapes[i][-1] == old[-2]]
    if not rows:
        return None
    count = old[-1] if name == "by_spread" else draw(st.integers(1, 4))
    kind = draw(st.sampled_from([kind for kind in sorted(SPREAD) if kind != "twice" or count % 2 == 0]))
    step = Step(name, (x, draw(st.sampled_from(rows))), (kind, count))
    return step if int(np.prod(_shape_of(step, shapes))) <= MOST_ELEMENTS else None


def _transposed(shape: Shape) -> Shape:
    return (*shape[:-2], shape[-1], shape[-2]) if len(shape) >= 2 else ()


@st.composite
def _window_step(draw: st.DrawFn, x: int, shapes: Sequence[Shape]) -> Step | None:
    old = shapes[x]
    name = draw(st.sampled_from(("windows", "fold", "convolve")))
    stride, dilation = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    if name == "convolve":
        y = draw(st.integers(0, len(shapes) - 1))
        low, high = draw(st.integers(-1, 2)), draw(st.integers(-1, 2))
        step = Step(name, (x, y), (stride, low, high, (draw(st.integers(1, 2)), dilation)))
    elif name == "fold" and len(old) >= 2:
        axis = draw(st.integers(0, len(old) - 2))
        extent = (old[axis] - 1) * stride + (old[-1] - 1) * dilation + 1
        step = Step(name, (x,), (axis, stride, dilation, extent + draw(st.integers(0, stride - 1))))
    elif name == "windows" and old:
        step = Step(name, (x,), (draw(st.integers(0, len(old) - 1)), draw(st.integers(1, 3)), stride, dilation))
    else:
        return None
    size = np.prod(_shape_of(step, shapes))
    return step if 0 < size <= MOST_ELEMENTS and len(_shape_of(step, shapes)) <= 4 else None


def _multiplies(x: Shape, y: Shape) -> bool:
    if not x or not y or x[-1] != y[0 if len(y) == 1 else -2]:
        return False
    return _broadcasts(x[:-2], y[:-2]) if len(x) > 2 and len(y) > 2 else True


_KINDS: dict[str, Callable[[int, Sequence[Shape]], st.SearchStrategy[Step | None]]] = {
    "unary": _unary_step,
    "binary": _binary_step,
    "reduce": _reduce_step,
    "shape": _shape_step,
    "index": _index_step,
    "contract": _contract_step,
    "spread": _spread_step,
    "window": _window_step,
    "row": _row_step,
}
