"""Views: the index map of an op that only moves elements is what its NumPy semantics does, for all extents and indices.

Both run unchanged on symbols, the map of the pass and the op's own semantics, on ops that its type inference accepts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations, permutations
from typing import Any, cast

import pytest
from arrays import Op, any_place, on_symbols, prove_places
from symbolic import Number, Path, Refuted, explore, term, within
from xdsl.ir.affine import AffineMap

from tensorgrad.dialects.tg import convolution, shape
from tensorgrad.dialects.tg.base import TensorOp
from tensorgrad.dialects.tg.elementwise import arithmetic
from tensorgrad.passes.analyses import affine
from tensorgrad.passes.buffers.lower_tg_to_buf import lower_tg_to_buf
from tensorgrad.passes.buffers.lower_tg_to_buf.registry import VIEWS

assert lower_tg_to_buf, "registers the views"
Properties = dict[str, Any]
Case = tuple[type[TensorOp], int, Properties]
"""An op, the rank of its operand, and its properties: lists of known numbers, or the lengths of lists of symbols."""
RANKS = (1, 2, 3)


def cases() -> Iterator[Case]:
    """Returns each op of up to three axes; axes are known, all other properties and extents are symbols.

    Slices have up to two axes, and windows one of two: each axis is computed alone.
    """
    for rank in RANKS:
        axes = range(rank)
        subsets = [each for size in range(rank + 1) for each in combinations(axes, size)]
        yield arithmetic.StopGradientOp, rank, {}
        yield from ((shape.ReshapeOp, rank, {"shape": new}) for new in RANKS)
        yield from ((shape.TransposeOp, rank, {"permutation": each}) for each in permutations(axes))
        yield from ((shape.BroadcastOp, len(dims), {"shape": rank, "dims": dims}) for dims in subsets)
        yield from ((shape.ReverseOp, rank, {"axes": each}) for each in subsets)
    yield from ((shape.SliceOp, rank, {"start": rank, "stop": rank, "step": rank}) for rank in RANKS[:2])
    for axes in ((), (1,)):
        yield convolution.WindowsOp, 2, {"axes": axes, **dict.fromkeys(("size", "stride", "dilation"), len(axes))}


def named(case: Case) -> str:
    kind, rank, properties = case
    return "-".join([kind.name, str(rank), *(str(value).replace(" ", "") for value in properties.values())])


@pytest.fixture(autouse=True)
def symbols(monkeypatch: pytest.MonkeyPatch) -> None:
    on_symbols(monkeypatch)


def prove_view(monkeypatch: pytest.MonkeyPatch, case: Case) -> None:
    def run(path: Path) -> None:
        kind, rank, properties = case
        op = Op(kind, [rank], properties)
        result = op.moved()
        for extent, inferred in zip(result.shape, op.shape, strict=True):
            path.prove(term(extent) == term(inferred), "the extents that are inferred")
        index = any_place(op.shape)
        monkeypatch.setattr(affine, "dims", lambda rank: index[:rank])
        mapped = cast(AffineMap, VIEWS[kind](cast(Any, op)))
        places = result.at(index)
        assert mapped.num_dims == len(index)
        if kind is shape.ReshapeOp:
            prove_places(cast(Number, affine.linear_index(cast(Any, index), op.shape)), places, op.operand.type.shape)
        for place, expected, extent in zip(mapped.results, places, op.operand.type.shape, strict=True):
            at = cast(Number, place).term
            path.prove(at == expected.term, "the element")
            path.prove(within(at, 0, extent - 1), "within the operand")

    explore(run)


SLOW = ("tg.slice-2-2-2-2", "tg.reshape-3-1", "tg.reshape-3-3")
CASES = [
    pytest.param(case, id=named(case), marks=[pytest.mark.nightly] if named(case) in SLOW else []) for case in cases()
]


@pytest.mark.parametrize("case", CASES)
def test_the_map_of_a_view(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    prove_view(monkeypatch, case)


def wrong_map(results: Callable[[Any, list[Any]], list[Any]]) -> Callable[[Any], AffineMap]:
    """Returns the map of a view by its results from the op and the loops."""
    return lambda op: AffineMap(len(op.shape), 0, tuple(results(op, affine.dims(len(op.shape)))))


def listed(op: Any, name: str) -> tuple[Any, ...]:
    return op.properties[name].get_values()


WRONG: dict[str, tuple[Case, Callable[[Any], AffineMap]]] = {
    "the order of columns": (
        (shape.ReshapeOp, 2, {"shape": 1}),
        lambda op: affine.reshape_map(op.shape, op.operand.type.shape[::-1]),
    ),
    "the inverse permutation": (
        (shape.TransposeOp, 3, {"permutation": (1, 2, 0)}),
        wrong_map(lambda op, loops: [loops[axis] for axis in listed(op, "permutation")]),
    ),
    "the first axes": (
        (shape.BroadcastOp, 1, {"shape": 2, "dims": (1,)}),
        wrong_map(lambda op, loops: loops[: len(listed(op, "dims"))]),
    ),
    "no step": (
        (shape.SliceOp, 1, {"start": 1, "stop": 1, "step": 1}),
        wrong_map(lambda op, loops: [loop + start for loop, start in zip(loops, listed(op, "start"), strict=True)]),
    ),
    "one too far": (
        (shape.ReverseOp, 1, {"axes": (0,)}),
        wrong_map(lambda op, loops: [op.shape[0] - loops[0]]),
    ),
    "strides for dilations": (
        (convolution.WindowsOp, 1, {"axes": (0,), "size": 1, "stride": 1, "dilation": 1}),
        wrong_map(lambda op, loops: [(loops[0] + loops[1]) * listed(op, "stride")[0]]),
    ),
    "another axis": ((arithmetic.StopGradientOp, 2, {}), wrong_map(lambda op, loops: loops[::-1])),
}


@pytest.mark.parametrize("variant", WRONG)
def test_a_wrong_rule_has_a_counterexample(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case, wrong = WRONG[variant]
    monkeypatch.setitem(VIEWS, case[0], wrong)
    with pytest.raises(Refuted, match=r"the element: .*extent\.\d+ = "):
        prove_view(monkeypatch, case)
