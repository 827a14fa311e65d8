"""Asynchronous collectives: where a plan starts and awaits them, their bits, and how they are cancelled."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from distributed_models import in_group
from xdsl.passes import ModulePass

import tensorgrad as tg
from tensorgrad.errors import GroupError, ProgramError
from tensorgrad.passes.buffers.overlap_collectives import OverlapCollectivesPass
from tensorgrad.passes.tensors.bucket_collectives import BucketCollectivesPass
from tensorgrad.runtime.group.background import Background
from tensorgrad.runtime.group.group import Group
from tensorgrad.runtime.plan import Binding, Collective, Copy, Dispatch, Exchange, Repeat, Step, Wait, runs
from tensorgrad.runtime.requests import check_requests

BATCH, LAYERS, WIDTH = 8, 4, 16
DEVICES: list[tg.DeviceName] = ["cpu", "wgpu"]


def in_buckets(passes: Sequence[ModulePass]) -> list[ModulePass]:
    """Makes gradients exchanged in buckets of about a layer."""
    limit, edited = 4 * WIDTH * (WIDTH + 1), list(passes)
    for place, pass_ in enumerate(edited):
        if isinstance(pass_, BucketCollectivesPass):
            edited[place] = replace(pass_, bucket_bytes=limit)
        elif isinstance(pass_, OverlapCollectivesPass):
            edited[place] = replace(pass_, message_bytes=limit)
    return edited


def at_once(passes: Sequence[ModulePass]) -> list[ModulePass]:
    """The same, without overlap."""
    return [pass_ for pass_ in in_buckets(passes) if not isinstance(pass_, OverlapCollectivesPass)]


def compiled(
    group: Group | None, device: Any = "cpu", edit: Any = in_buckets, width: int = WIDTH, **options: Any
) -> Any:
    settings: dict[str, Any] = {
        "loss": lambda model, x: tg.mean(tg.square(model(x))),
        "optimizer": tg.optim.adam(1e-2),
        "inputs": {"x": (BATCH, WIDTH)},
        "device": device,
        "edit_passes": edit,
        "group": group,
    }
    return tg.compile(tg.nn.MLP(WIDTH, (WIDTH,) * LAYERS, WIDTH), **{**settings, **options})


def batch(number: int) -> np.ndarray:
    return np.random.default_rng(number).normal(size=(BATCH, WIDTH)).astype(np.float32)


def trained(group: Group | None, steps: int = 4, **options: Any) -> tuple[list[float], dict[str, np.ndarray]]:
    training = compiled(group, **options)
    losses = [float(training.step(x=batch(number))) for number in range(steps)]
    return losses, training.state_dict()


def kernels_beside(plan: Sequence[Step]) -> list[int]:
    """Returns, for each asynchronous collective in order, how many kernels run until it is waited for."""
    beside: dict[int, int] = {}
    under_way: set[int] = set()
    for step, _ in runs(plan):
        if isinstance(step, Wait):
            under_way.remove(step.request)
        elif isinstance(step, Collective) and step.request is not None:
            beside[step.request] = 0
            under_way.add(step.request)
        elif isinstance(step, Dispatch):
            for request in under_way:
                beside[request] += 1
    return list(beside.values())


@pytest.mark.nightly
@pytest.mark.parametrize("clip", [None, 0.5])
@pytest.mark.parametrize("device", DEVICES)
def test_gradients_are_exchanged_while_others_are_computed(device: tg.DeviceName, clip: float | None) -> None:
    """The last layers' buckets start first, and overlap with the rest of the backward pass."""

    def plan(group: Group) -> tuple[list[int], int]:
        training = compiled(group, device, optimizer=tg.optim.adam(1e-2, clip_norm=clip))
        return kernels_beside(training.program.plan), training.stats()["overlapped"]

    for beside, overlapped in in_group(2, plan):
        assert overlapped == len(beside) >= LAYERS - 1
        assert beside == sorted(beside, reverse=True) and beside[-1] >= 1 and beside[0] > beside[-1]


@pytest.mark.nightly
@pytest.mark.parametrize("options", [{}, {"optimizer": tg.optim.adamw(1e-2, clip_norm=0.5)}, {"shard": "optimizer"}])
@pytest.mark.parametrize("device", DEVICES)
def test_an_overlap_changes_no_bits(device: tg.DeviceName, options: dict[str, Any]) -> None:
    overlapped = in_group(2, lambda group: trained(group, device=device, **options))
    plain = in_group(2, lambda group: trained(group, device=device, edit=at_once, **options))
    for (losses, state), (others, expected) in zip(overlapped, plain, strict=True):
        assert losses == others
        for name, value in state.items():
            np.testing.assert_array_equal(value, expected[name])


@pytest.mark.nightly
def test_buckets_change_no_bits() -> None:
    """On the reference, which computes each op separately."""

    def unpacked(passes: Sequence[ModulePass]) -> list[ModulePass]:
        return [pass_ for pass_ in passes if not isinstance(pass_, BucketCollectivesPass)]

    bucketed = in_group(3, lambda group: trained(group, device="numpy", inputs={"x": (BATCH + 1, WIDTH)}, steps=0))
    assert bucketed
    runs = [
        in_group(2, lambda group, edit=edit: trained(group, device="numpy", edit=edit))
        for edit in (in_buckets, unpacked)
    ]
    for (losses, state), (others, expected) in zip(*runs, strict=True):
        assert losses == others
        for name, value in state.items():
            np.testing.assert_array_equal(value, expected[name])


def followed(plan: Sequence[Step]) -> list[bool]:
    """Returns, for each asynchronous collective in order, whether another one begins before it is waited for."""
    waited: list[bool] = []
    under_way: dict[int, int] = {}
    for step, _ in runs(plan):
        if isinstance(step, Wait):
            del under_way[step.request]
        elif isinstance(step, Collective) and (under_way or step.request is not None):
            for number in under_way.values():
                waited[number] = True
            if step.request is not None:
                under_way[step.request] = len(waited)
            waited.append(False)
    return waited


@pytest.mark.nightly
def test_a_step_goes_on_while_values_are_exchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    """A collective blocks until the step starts the next one, so a synchronous start would deadlock."""
    begin = Group.begin
    begun: dict[int, list[threading.Event]] = {0: [], 1: []}
    waits: dict[int, list[bool]] = {}

    def waiting(group: Group, act: Callable[[], None]) -> Any:
        events, number = begun[group.rank], len(begun[group.rank])
        events.append(threading.Event())
        if number:
            events[number - 1].set()

        def acts() -> None:
            assert not waits[group.rank][number] or events[number].wait(30), "the step stands still"
            act()

        return begin(group, acts)

    monkeypatch.setattr(Group, "begin", waiting)

    def run(group: Group) -> None:
        training = compiled(group)
        waits[group.rank] = followed(training.program.plan)
        float(training.step(x=batch(0)))
        assert len(begun[group.rank]) == len(waits[group.rank])
        assert sum(waits[group.rank]) >= LAYERS - 1

    in_group(2, run)


@pytest.mark.nightly
def test_without_threads_a_start_exchanges() -> None:
    def run(group: Group) -> tuple[list[float], dict[str, np.ndarray]]:
        group.has_threads = False
        trained_state = trained(group)
        assert group._background is None
        return trained_state

    plain = in_group(2, lambda group: trained(group, edit=at_once))
    for (losses, state), (others, expected) in zip(in_group(2, run), plain, strict=True):
        assert losses == others
        for name, value in state.items():
            np.testing.assert_array_equal(value, expected[name])


@pytest.mark.nightly
def test_a_rank_that_ends_ends_what_is_under_way() -> None:
    """The step raises once nothing accesses its memory any more; the group can't be used afterwards."""

    def run(group: Group) -> str:
        training = compiled(group)
        float(training.step(x=batch(0)))
        if group.rank == 1:
            return ""
        with pytest.raises(GroupError, match="rank 1 returned") as caught:
            training.step(x=batch(1))
        assert not training._executable._exchanges._under_way
        with pytest.raises(GroupError, match="the group is over"):
            training.step(x=batch(2))
        return str(caught.value)

    assert in_group(2, run)[0].startswith("rank 0 of 2 waited in all_reduce of ")


@pytest.mark.nightly
def test_a_step_that_is_interrupted_ends_what_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """By Ctrl-C, for example, while the step waits."""

    def interrupted(request: int) -> None:
        raise KeyboardInterrupt

    def run(group: Group) -> bool:
        training = compiled(group)
        float(training.step(x=batch(0)))
        exchanges = training._executable._exchanges
        if group.rank == 0:
            monkeypatch.setattr(exchanges, "_wait", interrupted)
        with pytest.raises(KeyboardInterrupt if group.rank == 0 else GroupError):
            for number in (1, 2):  # all of the first may have been exchanged before the interrupt
                training.step(x=batch(number))
        return not exchanges._under_way

    assert all(in_group(2, run))


def test_tasks_run_in_order_on_one_thread() -> None:
    background, order = Background(), list[Any]()
    gate = threading.Event()

    def act(number: int) -> None:
        assert gate.wait(30)
        order.append((number, threading.current_thread().name))
        if number == 1:
            raise ValueError("1")

    tasks = [background.begin(lambda number=number: act(number)) for number in range(3)]
    assert order == []
    gate.set()
    tasks[2].result()
    assert order == [(number, "tensorgrad exchanges") for number in range(3)]
    with pytest.raises(ValueError, match="1"):
        tasks[1].result()


def test_the_thread_ends_with_what_began_tasks() -> None:
    threads: list[threading.Thread] = []
    background = Background()
    background.begin(lambda: threads.append(threading.current_thread())).result()
    assert threads[0].is_alive()
    del background
    threads[0].join(30)
    assert not threads[0].is_alive()


def collective(source: int, target: int, request: int | None = 0) -> Collective:
    """An exchange of 16 bytes of a buffer each, which is cut into such."""
    part = Exchange(0, 16 * source, 4, 0, 16 * target, 4)
    return Collective("all_reduce", "sum", 0, 2, "f32", (part,), "here", request)


def copy(source: int, target: int) -> Copy:
    return Copy(0, 16 * source, 0, 16 * target, 16)


def counted(offset: int) -> Dispatch:
    """A dispatch whose numbers of workgroups are the three words at an offset."""
    return Dispatch(0, (Binding(1, 0, 4, "read"),), (1, 1, 1), "there", indirect=(0, offset))


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ([Wait(0)], "a wait for request 0, which is not in flight"),
        ([collective(0, 1)], "nothing waits for request 0"),
        ([collective(0, 1), Wait(0), Wait(0)], "a wait for request 0, which is not in flight"),
        ([collective(0, 1), collective(2, 3)], "request 0 is that of another start"),
        ([collective(0, 1), copy(2, 0), Wait(0)], r"a step touches what request 0 \('here'\) exchanges"),
        ([collective(0, 1), copy(1, 2), Wait(0)], r"a step touches what request 0"),
        ([collective(0, 1), collective(2, 1, None), Wait(0)], r"a step touches what request 0"),
        ([collective(0, 1), counted(8), Wait(0)], r"a step touches what request 0"),
        ([collective(0, 1), Repeat(2, (copy(2, 3),)), Wait(0)], "a loop runs while values are exchanged"),
        ([Repeat(2, (collective(0, 1),)), Wait(0)], "nothing waits for request 0"),
    ],
)
def test_plans_that_are_refused(plan: list[Step], message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        check_requests(plan, is_native=True)


def test_plans_that_are_fine() -> None:
    check_requests([collective(0, 1), copy(0, 2), collective(2, 3, None), Wait(0), copy(1, 2)], is_native=True)
    check_requests([Repeat(2, (collective(0, 1), copy(0, 2), Wait(0)))], is_native=True)
