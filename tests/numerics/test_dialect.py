"""Completeness of `tg`: every op has semantics, a shape rule, a derivative or reason, a lowering, and samples."""

from __future__ import annotations

import ast
import math
import sys
from abc import ABC
from collections.abc import Callable
from typing import Any

import cases
import numpy as np
import pytest
import test_lit_coverage
from differences import central
from harness import NumpyArray, assert_same, levels, reference, scalar_function, traced, with_gradient
from layers import MODULES
from xdsl.dialects.builtin import AnyFloat
from xdsl.traits import IsTerminator

import tensorgrad as tg
from tensorgrad.dialects.tg import OPS, Tg
from tensorgrad.dialects.tg.base import TensorOp, numpy_dtype
from tensorgrad.dialects.tg.build import shape_of
from tensorgrad.dialects.tg.call import CallOp
from tensorgrad.dialects.tg.collective import CollectiveOp
from tensorgrad.dialects.tg.control import REGION_OPS, CondOp, ScanOp
from tensorgrad.dialects.tg.elementwise.functions import SinOp
from tensorgrad.dialects.tg.leaves import ConstantOp
from tensorgrad.dialects.tg.shape import PackOp
from tensorgrad.dialects.tg.traits import Elementwise, KeepsNan, Leaf, Rearrangement, keeps_nan
from tensorgrad.exporters.onnx import rules as onnx_rules
from tensorgrad.passes.buffers.lower_tg_to_buf import rules as lowering
from tensorgrad.passes.stablehlo.exporting import rules as stablehlo_rules
from tensorgrad.passes.tensors import batch
from tensorgrad.passes.tensors.grad import rules as derivatives

FEWEST_SAMPLES = 3
CASTS = "tg.cast"
"""Its derivative is that of a copy, or none; both are checked wherever dtypes are mixed."""


def _has_derivative(op: type[TensorOp]) -> bool:
    reason = derivatives.NO_DERIVATIVE.get(op)
    return (op in derivatives.RULES) != bool(reason)


def _has_lowering(op: type[TensorOp]) -> bool:
    return op in {*lowering.RULES, *lowering.VIEWS, *lowering.SEQUENCES, ConstantOp, PackOp}


def _is_differentiated(op: type[TensorOp]) -> bool:
    return op not in derivatives.RULES or op.name == CASTS or any(case.op is op for case in cases.SMOOTH)


def _has_batching(op: type[TensorOp]) -> bool:
    return op.has_trait(Leaf) or op in batch.RULES or op.has_trait(Elementwise)


def _emitted() -> set[str]:
    """Returns the identifiers in the API's modules, which include the class names of the ops that they emit."""
    modules = [path for name, (_, path) in MODULES.items() if name.startswith("tensorgrad.ops.")]
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in modules]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    attributes = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    return attributes | {node.id for node in nodes if isinstance(node, ast.Name)}


EMITTED = _emitted()
NOT_CALLED: dict[type[TensorOp], str] = {
    ConstantOp: "numbers and arrays become one where a tensor is expected",
    PackOp: "passes lay parameters out in rows",
}
"""The ops that no function of the API emits, each with its reason."""


def _has_function(op: type[TensorOp]) -> bool:
    return (op.__name__ in EMITTED) != (op in NOT_CALLED)


NEEDED: dict[str, Callable[[type[TensorOp]], bool]] = {
    "meaning": lambda op: (op.evaluate, op.prepare) != (TensorOp.evaluate, TensorOp.prepare),
    "shape rule": lambda op: "infer" not in op.__abstractmethods__,
    "derivative or reason": _has_derivative,
    "batching": _has_batching,
    "lowering": _has_lowering,
    "nodes of ONNX": lambda op: op in onnx_rules.RULES,
    "StableHLO": lambda op: (op in stablehlo_rules.RULES) != issubclass(op, CollectiveOp),
    "function": _has_function,
    "round trip": lambda op: op.name in test_lit_coverage.words(roundtrips=True),
    "samples": lambda op: sum(case.op is op for case in cases.CASES) >= FEWEST_SAMPLES,
    "samples of the derivative": _is_differentiated,
    "docstring with an example": lambda op: "Example:" in (op.__doc__ or ""),
}
"""What an op without regions has to have."""


def missing(op: type[TensorOp]) -> list[str]:
    return [name for name, has in NEEDED.items() if not has(op)]


def test_nothing_is_missing() -> None:
    assert {op.name: missing(op) for op in OPS if missing(op)} == {}


def test_the_walk_is_over_the_whole_dialect() -> None:
    assert {*OPS, *REGION_OPS} == set(Tg.operations)
    assert PackOp in OPS
    assert {op for op in REGION_OPS if not op.has_trait(IsTerminator)} == set(REGIONS)


def loses_nan(op: TensorOp, arrays: list[NumpyArray]) -> list[int]:
    """Returns the operands whose NaNs are missing from the result, although they should propagate."""
    lost: list[int] = []
    for place, array in enumerate(arrays):
        for index in np.ndindex(array.shape) if array.dtype.kind == "f" and keeps_nan(op, place) else ():
            arguments = [other.copy() for other in arrays]
            arguments[place][index] = np.nan
            with np.errstate(all="ignore"):
                lost += [] if np.isnan(op.evaluate(*arguments)).any() else [place]
    return lost


SMALL = 64
"""The most elements of operands in which a NaN is put at each place."""


@pytest.mark.parametrize("each", [7, pytest.param(1, marks=pytest.mark.nightly)])
def test_a_nan_stays_where_the_trait_says_so(each: int) -> None:
    seen: set[str] = set()
    for case in cases.spread(cases.CASES, each):
        for op in traced(case.function, case.inputs).walk():
            if not isinstance(op, TensorOp) or not op.operands or not keeps_nan(op, 0):
                continue
            if not isinstance(op.type.element_type, AnyFloat) or not op.type.element_count():
                continue
            shapes = [(shape_of(operand), numpy_dtype(operand.type)) for operand in op.operands]
            if sum(math.prod(shape) for shape, _ in shapes) <= SMALL:
                seen.add(op.name)
                assert not loses_nan(op, [np.ones(*kind) for kind in shapes]), f"{case.id}: {op}"
    has_trait = {op.name for op in OPS if op.has_trait(KeepsNan) or op.has_trait(Rearrangement)}
    assert seen == has_trait - {"tg.not", "tg.is_finite"}  # of bools, and to bools


class Nothing(TensorOp, ABC):
    """An op without an example."""

    name = "tg.nothing"


def test_an_op_with_nothing_misses_everything_but_a_derivative_to_check() -> None:
    assert missing(Nothing) == [name for name in NEEDED if name != "samples of the derivative"]


LOSSES: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "meaning": lambda patch: patch.setattr(SinOp, "prepare", TensorOp.prepare),
    "shape rule": lambda patch: patch.setattr(SinOp, "__abstractmethods__", frozenset({"infer"})),
    "derivative or reason": lambda patch: patch.delitem(derivatives.RULES, SinOp),
    "batching": lambda patch: patch.setattr(SinOp, "has_trait", lambda trait: False),
    "lowering": lambda patch: patch.delitem(lowering.RULES, SinOp),
    "nodes of ONNX": lambda patch: patch.delitem(onnx_rules.RULES, SinOp),
    "StableHLO": lambda patch: patch.delitem(stablehlo_rules.RULES, SinOp),
    "function": lambda patch: patch.setattr(sys.modules[__name__], "EMITTED", EMITTED - {SinOp.__name__}),
    "round trip": lambda patch: patch.setattr(test_lit_coverage, "words", _without_sin),
    "samples": lambda patch: patch.setattr(cases, "CASES", [case for case in cases.CASES if case.op is not SinOp]),
    "samples of the derivative": lambda patch: patch.setattr(cases, "SMOOTH", []),
    "docstring with an example": lambda patch: patch.setattr(SinOp, "__doc__", "The sine."),
}


def _without_sin(*, roundtrips: bool, words: Callable[..., set[str]] = test_lit_coverage.words) -> set[str]:
    return words(roundtrips=roundtrips) - {SinOp.name}


@pytest.mark.parametrize("what", NEEDED)
def test_each_loss_is_noticed(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert missing(SinOp) == []
    LOSSES[what](monkeypatch)
    assert missing(SinOp) == [what]


def _scanned(x: Any) -> Any:
    return tg.scan(lambda c, row: ((new := tg.tanh(c * 0.5 + row)), new * c), x[0], x)[1]


def _np_scanned(x: NumpyArray) -> NumpyArray:
    rows, carry = [], x[0]
    for row in x:
        new = np.tanh(carry * 0.5 + row)
        rows.append(new * carry)
        carry = new
    return np.stack(rows)


REGIONS: dict[type[Any], tuple[Callable[[Any], Any], Callable[[NumpyArray], Any]]] = {
    CallOp: (tg.checkpoint(lambda x: tg.sin(x) * x), lambda x: np.sin(x) * x),
    ScanOp: (_scanned, _np_scanned),
    CondOp: (
        lambda x: tg.cond(tg.sum(x) > 0, lambda y: tg.sin(y) * 2, lambda y: y * y, x),
        lambda x: np.sin(x) * 2 if x.sum() > 0 else x * x,
    ),
}
"""A sample for each op with regions, and what it means: a body may end in anything, so `tg.return` has none."""


@pytest.mark.parametrize("op", REGIONS, ids=lambda op: op.name)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_ops_with_regions_have_all_of_it(op: type[Any], sign: float) -> None:
    function, meaning = REGIONS[op]
    x = sign * np.random.default_rng(0).uniform(0.1, 1.0, (4, 3))
    assert op.name in test_lit_coverage.words(roundtrips=True)
    assert "Example:" in (op.__doc__ or "")
    plain = traced(lambda v: tg.sum(tg.cos(function(v)) * v), [x])
    assert any(isinstance(nested, op) for nested in plain.walk())
    assert_same(reference(traced(function, [x]), [x])[0], np.asarray(meaning(x)), 1e-12, "tg")
    module = with_gradient(traced(lambda v: tg.sum(tg.cos(function(v)) * v), [x]), [0])
    (_, expected), *below = levels(module, [x])
    slopes = central(scalar_function(plain), [x], 0)
    np.testing.assert_allclose(expected[1].reshape(-1), slopes, rtol=0, atol=1e-8)
    for level, results in below:
        for actual, correct in zip(results, expected, strict=True):
            assert_same(actual, correct, 1e-11, level)
