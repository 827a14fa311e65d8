"""The cache of eager blocks by structure: variations of a loop don't reuse another block's program."""

from __future__ import annotations

import gc
import itertools
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from draws import generator

import tensorgrad as tg
from tensorgrad.driver.handles.eager_devices import eager_device_named, new_eager_device
from tensorgrad.eager import devices
from tensorgrad.eager.devices import EagerDevice, RecordingDevice
from tensorgrad.eager.values import Value
from tensorgrad.ops import recorded
from tensorgrad.runtime.cpu import CpuDevice

GENERATOR = generator(0)
X, W, B = (GENERATOR.normal(size=shape).astype(np.float32) for shape in ((4, 3), (3, 3), (3,)))


class Loop:
    """A model of two layers with the same weight, and a record of its gradients."""

    def __init__(self, eager_device: EagerDevice):
        self.eager_device = eager_device
        self.x = eager_device.made(X.copy())
        self.w, self.b = (eager_device.made(values.copy()).requires_grad_() for values in (W, B))
        self.seen: list[Any] = []

    def hidden(self, w: Any = None) -> Any:
        return tg.tanh(self.x @ (self.w if w is None else w) + self.b)

    def loss(self, hidden: Any) -> Any:
        return ((hidden @ self.w) ** 2).sum()

    def read(self, *others: Any) -> None:
        for tensor in (self.w, self.b, *others):
            self.seen.append(None if tensor.grad is None else tensor.grad.numpy())
            tensor.grad = None


def plain(loop: Loop) -> None:
    loop.loss(loop.hidden()).backward()
    loop.read()


def looked_at_before(loop: Loop) -> None:
    loss = loop.loss(loop.hidden())
    loop.seen.append(loss.numpy())
    loss.backward()
    loop.read()


def hooked(loop: Loop) -> None:
    handle = loop.w.register_hook(lambda gradient: gradient * 3)
    plain(loop)
    handle.remove()


def hooked_inside(loop: Loop) -> None:
    hidden = loop.hidden()
    hidden.register_hook(lambda gradient: gradient * 0.5)
    loop.loss(hidden).backward()
    loop.read()


def retained(loop: Loop) -> None:
    hidden = loop.hidden()
    hidden.retain_grad()
    loop.loss(hidden).backward()
    loop.read(hidden)


def without_gradient(loop: Loop) -> None:
    with tg.no_grad():
        hidden = loop.hidden()
    loop.loss(hidden).backward()
    loop.read()


def detached(loop: Loop) -> None:
    loop.loss(loop.hidden(loop.w.detach())).backward()
    loop.read()


def frozen(loop: Loop) -> None:
    loop.b.requires_grad_(False)
    plain(loop)
    loop.b.requires_grad_()


def another_leaf_of_the_same_value(loop: Loop) -> None:
    other = loop.w.detach().requires_grad_()
    loop.loss(loop.hidden(other)).backward()
    loop.read(other)


def another_leaf_of_equal_values(loop: Loop) -> None:
    other = loop.eager_device.made(loop.w.numpy()).requires_grad_()
    loop.loss(loop.hidden(other)).backward()
    loop.read(other)


def result_as_leaf(loop: Loop) -> None:
    hidden = loop.hidden().detach().requires_grad_()
    loop.loss(hidden).backward()
    loop.read(hidden)


def result_without_gradient_as_leaf(loop: Loop) -> None:
    with tg.no_grad():
        hidden = loop.hidden()
    hidden.requires_grad_()
    loop.loss(hidden).backward()
    loop.read(hidden)


def from_the_block_before(loop: Loop) -> None:
    hidden = loop.hidden()
    loop.seen.append(hidden.numpy())
    loop.loss(hidden).backward()
    loop.read()


def interrupted(loop: Loop) -> None:
    hidden = loop.hidden()
    if isinstance(loop.eager_device, RecordingDevice):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(loop.eager_device, "_compute", raise_interrupt)
            with pytest.raises(KeyboardInterrupt):
                hidden.numpy()
    loop.loss(hidden).backward()
    loop.read()


def raise_interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def twice(loop: Loop) -> None:
    loss = loop.loss(loop.hidden())
    loss.backward(retain_graph=True)
    loss.backward()
    loop.read()


def let_go(loop: Loop) -> None:
    loss = loop.loss(loop.hidden())
    loss.backward()
    with pytest.raises(tg.errors.GradientError, match="freed by an earlier backward pass"):
        loss.backward()
    loop.read()


def partly_let_go(loop: Loop) -> None:
    hidden = loop.hidden()
    loop.loss(hidden).backward()
    with pytest.raises(tg.errors.GradientError, match="freed by an earlier backward pass"):
        loop.loss(hidden).backward()
    loop.read()


def two_roots(loop: Loop) -> None:
    hidden = loop.hidden()
    first, second = loop.loss(hidden), hidden.sum()
    first.backward(retain_graph=True)
    second.backward()
    loop.read()


def added_up(loop: Loop) -> None:
    for _ in range(2):
        loop.loss(loop.hidden()).backward()
    loop.read()


def weighted(loop: Loop) -> None:
    loop.loss(loop.hidden()).backward(tg.array(2.5))
    loop.read()


def asked_for(loop: Loop) -> None:
    loop.loss(loop.hidden()).backward(inputs=[loop.b])
    loop.read()


def of_second_order(loop: Loop) -> None:
    loop.loss(loop.hidden()).backward(create_graph=True)
    slope = loop.w.grad
    assert slope is not None
    loop.w.grad = loop.b.grad = None
    (slope * slope).sum().backward()
    loop.read()


def changed_needed(loop: Loop) -> None:
    hidden = loop.hidden()
    loss = loop.loss(hidden)
    with tg.no_grad():
        hidden += 1
    with pytest.raises(tg.errors.GradientError, match="was changed in place"):
        loss.backward()
    loop.read()


def changed_parameter(loop: Loop) -> None:
    loss = loop.loss(loop.hidden())
    with tg.no_grad():
        loop.w.mul_(1.5)
    with pytest.raises(tg.errors.GradientError, match="was changed in place"):
        loss.backward()
    with tg.no_grad():
        loop.w.copy_(W)
    loop.read()


def changed_not_needed(loop: Loop) -> None:
    loss = loop.loss(loop.hidden())
    with tg.no_grad():
        loop.b.add_(0.25)
    loss.backward()
    loop.read()


def replaced(loop: Loop) -> None:
    """The recorded ops are the same, whichever tensor gets the new value."""
    other = loop.eager_device.made(W).requires_grad_()
    for changed in (other, loop.w):
        loss = loop.loss(loop.hidden())
        with tg.no_grad():
            changed.copy_(loop.eager_device.made(W))
        if changed is other:
            loss.backward()
        else:
            with pytest.raises(tg.errors.GradientError, match="was changed in place"):
                loss.backward()
        loop.read(other)


def through_a_view(loop: Loop) -> None:
    hidden = loop.hidden()
    loop.loss(hidden[:]).backward()
    loop.read()


def with_another_function(loop: Loop) -> None:
    loop.loss(tg.sigmoid(loop.x @ loop.w + loop.b)).backward()
    loop.read()


def with_other_numbers(loop: Loop) -> None:
    ((loop.hidden() @ loop.w) ** 3).sum().backward()
    loop.read()


VARIATIONS = (
    looked_at_before,
    hooked,
    hooked_inside,
    retained,
    without_gradient,
    detached,
    frozen,
    another_leaf_of_the_same_value,
    another_leaf_of_equal_values,
    result_as_leaf,
    result_without_gradient_as_leaf,
    from_the_block_before,
    interrupted,
    twice,
    let_go,
    partly_let_go,
    two_roots,
    added_up,
    weighted,
    asked_for,
    of_second_order,
    changed_needed,
    changed_parameter,
    changed_not_needed,
    replaced,
    through_a_view,
    with_another_function,
    with_other_numbers,
)


def check_equal(rounds: list[Callable[[Loop], None]], eager_device: RecordingDevice) -> None:
    ours, theirs = Loop(eager_device), Loop(eager_device_named("numpy"))
    for round_ in rounds:
        for loop in (ours, theirs):
            loop.seen = []
            round_(loop)
        assert len(ours.seen) == len(theirs.seen)
        for actual, expected in zip(ours.seen, theirs.seen, strict=True):
            assert (actual is None) == (expected is None), round_.__name__
            if expected is not None:
                np.testing.assert_allclose(actual, expected, rtol=2e-4, atol=2e-5, err_msg=round_.__name__)


@pytest.fixture(scope="module")
def eager_device() -> RecordingDevice:
    """A device that interprets blocks on first use, as the CPU does; shared by all tests of the module."""
    return new_eager_device("cpu", CpuDevice(), 2)


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("variation", VARIATIONS)
def test_a_variation_between_plain_rounds(variation: Callable[[Loop], None], eager_device: RecordingDevice) -> None:
    check_equal([plain, plain, variation, plain, variation, variation, plain], eager_device)


def test_variations_in_any_order(eager_device: RecordingDevice) -> None:
    order = np.random.default_rng(1).permutation([i for i, _ in itertools.product(range(len(VARIATIONS)), range(3))])
    check_equal([VARIATIONS[i] for i in order], eager_device)


def test_a_plain_round_is_known_by_its_structure(
    eager_device: RecordingDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = Loop(eager_device)
    for _ in range(3):  # passes through new graphs go node by node at first
        plain(loop)
    monkeypatch.setattr(devices.Graph, "behind", None)  # is not computed again
    before = eager_device._recording.structure.total
    plain(loop)
    assert eager_device._recording.structure.total == before


def test_structures_that_are_too_many_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "MOST_STRUCTURES", 30)
    eager_device = new_eager_device("cpu", CpuDevice(), 2)
    check_equal([plain, *VARIATIONS, plain], eager_device)
    assert eager_device._recording.structure.total < 30 + 40


def hidden_after(x: Any, w: Any, steps: int = 3) -> Any:
    """Returns the state of a recurrent cell, which takes views and changes a tensor in place."""
    hidden = x
    for _ in range(steps):
        left, right = tg.split(x @ tg.concat([w, w], axis=1) + tg.concat([hidden, hidden], axis=1), 2, axis=1)
        changed = (left * hidden).detach()
        changed.add_(1.0)
        hidden = tg.tanh(left) * tg.sigmoid(right[:, ::1]) + changed
    return hidden


def test_no_value_waits_for_the_garbage_collector() -> None:
    """Otherwise, when it runs decides what blocks of the same ops return, and so how many programs they have."""
    eager_device = new_eager_device("cpu", CpuDevice(), 2)
    w = eager_device.made(W.copy()).requires_grad_()
    gc.collect()
    gc.disable()
    try:
        hidden_after(eager_device.made(X.copy()), w).sum().backward()
        w.grad = None
        values = [weakref.ref(value) for value in gc.get_objects() if type(value) is Value]
        before = sum(value() is not None for value in values)
        gc.collect()
        assert before == sum(value() is not None for value in values)
    finally:
        gc.enable()


COLUMNS = np.array([2, 0])
SHARED: dict[str, tuple[Callable[[Any, Any, int], Any], int]] = {
    "an integer beside an array": (lambda x, key, i: x[i % 4, COLUMNS], 1),
    "a slice beside an array": (lambda x, key, i: x[i % 3 : i % 3 + 2, COLUMNS], 1),
    "arrays": (lambda x, key, i: x[np.array([i % 4, 0]), COLUMNS], 1),
    "added by arrays": (lambda x, key, i: x.at[np.array([i % 4, 0])].add(1.0), 1),
    "a mask": (lambda x, key, i: x[np.arange(4) <= i % 4], 0),
    "a categorical draw": (lambda x, key, i: tg.random.categorical(tg.random.key(i), x), 1),
    "a draw below a bound that grows": (lambda x, key, i: tg.random.randint(key, (3,), 0, i + 1), 0),
}
"""For each, the number of functions that are traced, however often it is computed."""


@pytest.mark.parametrize("name", SHARED)
def test_what_changes_at_each_call_traces_nothing_anew(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Positions, bounds and keys are operands, or the function isn't recorded as a whole."""
    call, expected = SHARED[name]
    traced: list[str] = []
    original = recorded.trace_call

    def counted(function: str, *arguments: Any) -> Any:
        traced.append(function)
        return original(function, *arguments)

    monkeypatch.setattr(recorded, "trace_call", counted)
    device = new_eager_device("cpu", CpuDevice(), 2)
    x, key = device.made(X.copy()), device.made(np.asarray(tg.random.key(3)))
    for i in range(12):
        ours = np.asarray(call(x, key, i))
        np.testing.assert_array_equal(ours, np.asarray(call(tg.array(X), tg.random.key(3), i)))
    assert len(traced) == expected
