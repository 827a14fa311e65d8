"""The garbage collector around compilations: nothing young is left to it, and nothing for long."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from tensorgrad.surface import collector
from tensorgrad.surface.collector import without_collector


class Cycle:
    """An object that only the garbage collector frees."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def thawed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Takes back that tests are frozen, as a user's objects aren't."""
    monkeypatch.setattr(collector, "_frozen", False)
    gc.unfreeze()
    gc.collect()
    yield
    gc.freeze()


@pytest.mark.usefixtures("thawed")
def test_what_is_left_is_old_and_collected_before_it_is_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector, "MOST_LEFT", 10_000)
    monkeypatch.setattr(collector, "_left", 0)
    with without_collector():
        assert not gc.isenabled()
        garbage = weakref.ref(Cycle())
        structure = [[number] for number in range(20_000)]
    assert gc.isenabled() and gc.get_count()[0] < 1_000
    gc.collect(1)
    assert garbage() is not None
    with without_collector():
        assert garbage() is None
    assert len(structure) == 20_000


@pytest.mark.usefixtures("thawed")
def test_little_is_not_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector, "_left", 0)
    before = gc.get_stats()[2]["collections"]
    for _ in range(10):
        with without_collector(), without_collector():
            Cycle()
    assert gc.get_stats()[2]["collections"] == before


def test_frozen_objects_stay_so_and_a_disabled_collector_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector, "_frozen", False)
    gc.freeze()
    before = gc.get_freeze_count()
    with without_collector():
        pass
    assert gc.get_freeze_count() == before > 0
    gc.disable()
    try:
        with without_collector():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
