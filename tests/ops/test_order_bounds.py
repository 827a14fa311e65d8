"""Orders name elements of their row whatever a device has compared, as kernels read at them without a test."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.ir import Attribute

import tensorgrad as tg
from tensorgrad.passes.buffers.lower_tg_to_buf.rules import sort
from tensorgrad.passes.buffers.lower_tg_to_buf.scalars import predicate
from tensorgrad.passes.scalars import Value

ROWS = np.random.default_rng(0).normal(size=(4, 300)).astype(np.float32)
ROWS[np.random.default_rng(1).random(ROWS.shape) < 0.3] = np.nan


def without_nan(left: Value, right: Value, element: Attribute, descending: bool) -> Value:
    """`keeps_order` as a device has it that takes no number for NaN: several elements have one rank."""
    return left.compare(predicate("ge" if descending else "le", element), right)


@pytest.mark.parametrize("length", [30, 256, 300])
def test_orders_stay_within_their_row(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sort, "keeps_order", without_nan)
    rows = ROWS[:, :length]
    order = np.asarray(tg.jit(lambda x: tg.argsort(x, axis=1), device="wgpu")(rows))
    assert order.min() >= 0 and order.max() < length
    assert any(len(set(row)) < length for row in order.tolist())  # the ranks are those of no order
