"""A step is whole or has not been, wherever an exception from outside ends it, and whichever thread runs it."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import numpy as np
import pytest
from models import MLP, batch, compiled

import tensorgrad as tg
from tensorgrad.driver.handles.call_count import CallCount
from tensorgrad.errors import DivergenceError
from tensorgrad.runtime.counting import RunCount, completed

pytestmark = pytest.mark.usefixtures("kept_programs")

DEVICES = ["numpy", "cpu", "wgpu"]
STEPS = 3
POINTS, NEAR = 15, 25
"""At how many bytecodes an exception is raised: all over a step, and on each side of the one that changes the state."""


class Interrupt(BaseException):
    """What a signal handler might raise."""


def noisy(model: Any, x: Any, y: Any, key: Any) -> Any:
    return tg.mse(model(x) + 0.1 * tg.random.normal(key, y.shape), y)


def training(device: tg.DeviceName, **options: Any) -> Any:
    rate = tg.optim.schedules.cosine(1e-2, 6, warmup=2)
    return compiled(loss=noisy, optimizer=tg.optim.adam(rate), device=device, **options)


def bits(values: dict[str, np.ndarray]) -> dict[str, bytes]:
    return {name: value.tobytes() for name, value in values.items()}


@contextlib.contextmanager
def interrupted(at: int, look: Callable[[], object] = lambda: None) -> Iterator[list[int]]:
    """Raises `Interrupt` at one of the package's bytecodes that run in the block.

    Yields a list with how many have run, and how many had when what `look` returns first changed.
    """
    count, first = [0, 0], look()

    def trace(frame: FrameType, event: str, _: object) -> Callable[..., Any] | None:
        if f"{os.sep}tensorgrad{os.sep}" not in frame.f_code.co_filename:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode":
            count[0] += 1
            if not count[1] and look() != first:
                count[1] = count[0]
            if count[0] == at:
                raise Interrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield count
    finally:
        sys.settrace(before)


def points(count: list[int]) -> list[int]:
    """Returns at which bytecodes to raise an exception."""
    total, changed = count
    return sorted({*range(1, total, max(1, total // POINTS)), *range(max(1, changed - NEAR), changed + NEAR)})


def released(handle: Any) -> None:
    """Releases the lock of a training: tracing raises at places where Python doesn't, such as the end of `with`."""
    lock = handle._state.lock if isinstance(handle, tg.Training) else handle._lock
    with contextlib.suppress(RuntimeError):
        while True:
            lock.release()


def check_interrupted(training_: Any, calls: int = 1) -> None:
    """Interrupts a step, after `calls` - 1 others, everywhere, and compares the state with that of whole steps."""
    start, reference = training_.state_dict(), []
    losses = []
    for number in range(calls + 1):
        reference.append(bits(training_.state_dict()))
        losses.append(np.asarray(training_.step(**batch(number))).tobytes())
    reference.append(bits(training_.state_dict()))
    training_.load_state_dict(start)
    for number in range(calls - 1):
        training_.step(**batch(number))
    before = training_.state_dict()
    with interrupted(0, lambda: training_._state.calls.number) as count:
        training_.step(**batch(calls - 1))
    seen = set()
    for at in points(count):
        training_.load_state_dict(before)
        with contextlib.suppress(Interrupt), interrupted(at):
            training_.step(**batch(calls - 1))
        released(training_)
        done = training_.step_count * training_.accumulate + training_.accumulated
        seen.add(done)
        assert bits(training_.state_dict()) == reference[done], at
        for number in range(done, calls + 1):
            assert np.asarray(training_.step(**batch(number))).tobytes() == losses[number], at
        assert bits(training_.state_dict()) == reference[calls + 1], at
    assert seen == {calls - 1, calls}


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("device", DEVICES)
def test_a_step_is_whole_or_has_not_been(device: tg.DeviceName) -> None:
    """Parameters, the optimizer's state, the key and the schedule agree, and the next steps give the same bits."""
    check_interrupted(training(device))


@pytest.mark.nightly
@pytest.mark.parametrize("calls", [1, 2])
def test_so_is_a_micro_batch(calls: int) -> None:
    check_interrupted(training("cpu", accumulate=2), calls)


def test_so_is_a_step_that_can_be_repeated_on_another_device() -> None:
    check_interrupted(training("wgpu", on_device_lost="restart", snapshot_every=2))


@pytest.mark.nightly
@pytest.mark.parametrize("device", ["cpu", "wgpu"])
def test_so_is_a_step_that_is_profiled(device: tg.DeviceName) -> None:
    """Its kernels run one by one: an exception between two of them takes the step back."""
    subject = training(device)
    before = subject.state_dict()
    states = [bits(before)]
    with subject.profile():
        with interrupted(0, lambda: subject._state.calls.number) as count:
            subject.step(**batch(0))
        states.append(bits(subject.state_dict()))
        for at in points(count):
            subject.load_state_dict(before)
            with contextlib.suppress(Interrupt), interrupted(at):
                subject.step(**batch(0))
            released(subject)
            assert bits(subject.state_dict()) == states[subject.step_count], at


@pytest.mark.nightly
@pytest.mark.parametrize("device", ["numpy", "cpu"])
def test_so_is_a_step_that_is_rolled_back(device: tg.DeviceName) -> None:
    """An exception while a divergent step is taken back leaves the state before or after it, not a mixture."""
    subject = compiled(device=device, check_numerics=True)
    subject.step(**batch())
    before = subject.state_dict()
    bad = {**batch(), "y": np.full((4, 2), 1e30, np.float32)}
    with interrupted(0, lambda: subject._state.calls._origin_and_runs[0]) as count, pytest.raises(DivergenceError):
        subject.step(**bad)
    states = {False: bits(before)}
    for at in points(count):
        subject.load_state_dict(before)
        with contextlib.suppress(Interrupt, DivergenceError), interrupted(at):
            subject.step(**bad)
        released(subject)
        is_done = subject.step_count > 1
        assert bits(subject.state_dict()) == states.setdefault(is_done, bits(subject.state_dict())), at


def test_a_state_is_loaded_wholly_or_not_at_all() -> None:
    subject = training("cpu")
    before = subject.state_dict()
    subject.step(**batch())
    after = subject.state_dict()
    with interrupted(0, lambda: subject._state.calls.number) as count:
        subject.load_state_dict(before)
    for at in points(count):
        subject.load_state_dict(after)
        with contextlib.suppress(Interrupt), interrupted(at):
            subject.load_state_dict(before)
        released(subject)
        assert bits(subject.state_dict()) in (bits(before), bits(after)), at


@pytest.mark.in_turns(2, 1)
@pytest.mark.parametrize("device", DEVICES)
def test_steps_of_several_threads_run_one_after_the_other(device: tg.DeviceName) -> None:
    """No update is lost: with the same batch in every step, it is as if one thread had run all."""
    shared = training(device)
    for _ in range(2 * STEPS):
        shared.step(**batch())
    expected = bits(shared.state_dict())
    shared.reset()
    sizes = [STEPS, STEPS]
    threads = [
        threading.Thread(target=lambda size=size: [shared.step(**batch()) for _ in range(size)]) for size in sizes
    ]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert shared.step_count == 2 * STEPS
    assert bits(shared.state_dict()) == expected


@pytest.mark.parametrize("device", ["numpy", "cpu"])
def test_a_constant_argument_is_written_again_after_an_exception(device: tg.DeviceName) -> None:
    """A call that ends early may have overwritten an argument that was there."""
    double = tg.jit(lambda x, y: x * 2 + y, device=device)
    first, second = tg.array([1.0, 2.0]), tg.array([3.0, 4.0])
    double(first, first)
    with interrupted(0) as count:
        double(second, second)
    for at in range(1, count[0], 13):
        double(first, first)
        with contextlib.suppress(Interrupt), interrupted(at):
            double(second, second)
        sums = np.asarray(double(first, first))
        assert sums.tolist() == [3.0, 6.0], at


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("device", ["cpu", "wgpu"])
def test_a_loaded_training_counts_as_one_with_the_step(device: tg.DeviceName, tmp_path: Any) -> None:
    saved = training(device)
    saved.save(tmp_path / "step.tgp")
    loaded: Any = tg.load(tmp_path / "step.tgp", device=device)
    with interrupted(0, lambda: loaded.step_count) as count:
        loaded.step(**batch(0))
    states = {1: bits(loaded._executable.read())}
    for at in points(count):
        loaded = tg.load(tmp_path / "step.tgp", device=device) if loaded.step_count else loaded
        with contextlib.suppress(Interrupt), interrupted(at):
            loaded.step(**batch(0))
        released(loaded)
        state = bits(loaded._executable.read())
        assert state == states.setdefault(loaded.step_count, state), at
    assert states.keys() == {0, 1}


def test_a_change_that_fails_is_not_counted() -> None:
    runs, changed = RunCount(), []
    runs.count_with(lambda: changed.append(1))
    with pytest.raises(ZeroDivisionError):
        runs.count_with(lambda: 1 // 0)
    assert (runs.number, changed) == (1, [1])


def test_executables_are_counted_from_when_they_are_added() -> None:
    first, second = RunCount(), RunCount()
    first.number, second.number = 2, 3
    calls = CallCount([first])
    first.number += 1
    calls.add([second])
    assert calls.number == 1
    second.number += 1
    calls.retire([first])
    assert calls.number == 2


def test_what_has_to_be_completed_is() -> None:
    attempts = []

    def act() -> None:
        attempts.append(1)
        if len(attempts) == 1:
            raise Interrupt

    with pytest.raises(Interrupt):
        completed(act)
    assert len(attempts) == 2


def test_an_exception_between_reads_keeps_the_loss() -> None:
    """A result whose read was interrupted can still be read."""
    subject = compiled(device="cpu", model=MLP(3, 5, 2))
    expected = float(subject.step(**batch()))
    subject.reset()
    loss = subject.step(**batch())
    with contextlib.suppress(Interrupt), interrupted(20):
        float(loss)
    assert float(loss) == expected
