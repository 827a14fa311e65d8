"""`fuse`: where a producer is inlined, each of its loops is read back from the index at which it writes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import pytest
from symbolic import Number, Path, Refuted, explore, term
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap

from tensorgrad.passes.buffers.fuse import inline


def prove_inverse(loops: int, results: Sequence[AffineExpr]) -> int:
    """Proves of a placement that its inverse gives each loop; returns whether it has one."""
    back = inline.inverse(AffineMap(loops, 0, tuple(results)))
    if back is None:
        return 0

    def run(path: Path) -> None:
        values = [path.fresh("loop") for _ in range(loops)]

        def value(expression: AffineExpr, at: Sequence[Number]) -> Number:
            if isinstance(expression, AffineDimExpr):
                return at[expression.position]
            assert isinstance(expression, AffineConstantExpr)
            return Number(term(expression.value))

        index = [value(result, values) for result in results]
        for loop, expression in zip(values, back, strict=True):
            path.prove(value(expression, index).term == loop.term, "inverse")

    return explore(run)


@pytest.mark.parametrize("loops", [1, 2, 3])
def test_inverse(loops: int) -> None:
    """Every placement of up to three loops in as many axes and one more."""
    proved = 0
    entries = [*(AffineDimExpr(loop) for loop in range(loops)), AffineConstantExpr(0), AffineDimExpr(0) + 1]
    for axes in range(loops, loops + 2):
        proved += sum(prove_inverse(loops, results) for results in product(entries, repeat=axes))
    assert proved


def test_a_wrong_rule_has_a_counterexample(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops in the order of the axes, whatever the placement."""
    monkeypatch.setattr(inline, "inverse", lambda written: [AffineDimExpr(loop) for loop in range(written.num_dims)])
    with pytest.raises(Refuted, match=r"inverse: loop\.1 = "):
        prove_inverse(2, [AffineDimExpr(1), AffineDimExpr(0)])
