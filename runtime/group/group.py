"""The operations of a group of ranks, independent of the transport.

A transport only implements three methods that move bytes. Arithmetic is done here, in rank order, so results are
bit-identical on every transport and every rank, for a given group size.
"""

from __future__ import annotations

import abc
import os
import pickle
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorgrad.runtime.conversion import kind_of
from tensorgrad.runtime.errors import GroupError, InputError
from tensorgrad.runtime.group.background import Background, Task
from tensorgrad.runtime.group.reductions import COMBINED_BY, DTYPE_NAMES, REDUCTIONS_OF, Array, reduce_in_rank_order

TIMEOUT_VARIABLE = "TG_GROUP_TIMEOUT"
DEFAULT_TIMEOUT = 300.0
"""How long a rank waits for the others, in seconds."""

SMALL_BYTES = 16 << 10
"""Smaller arrays are sent whole to every rank: one exchange instead of two, with the same bits."""

SEGMENT_BYTES = 64 << 20
"""Longer arrays are reduced in segments, to bound the scratch memory for the parts of other ranks."""

LARGEST_COUNT = 2**31 - 1
"""The most elements in one exchange: MPI counts are 32-bit."""


@dataclass
class Traffic:
    """Statistics of a rank's communication.

    Attributes:
        bytes_sent: Bytes passed to the transport for other ranks.
        calls: Calls of the group's operations.
        seconds: Seconds spent in them, including waiting.
        stalled: Seconds during which steps waited for them, which is less if exchanges overlap kernels.

    Example:
        >>> traffic = tg.distributed.simulate(2, lambda group: (group.barrier(), group.traffic.calls)[1])
        >>> traffic
        [1, 1]
    """

    bytes_sent: int = 0
    calls: int = 0
    seconds: float = 0.0
    stalled: float = 0.0

    def reset(self) -> None:
        """Resets all counters."""
        self.bytes_sent, self.calls, self.seconds, self.stalled = 0, 0, 0.0, 0.0


def timeout_seconds(chosen: float | None = None) -> float:
    """Returns how long a rank waits for the others, in seconds: `chosen`, `TG_GROUP_TIMEOUT`, or 300.

    Raises:
        GroupError: It is not a positive number.
    """
    what = "timeout" if chosen is not None else TIMEOUT_VARIABLE
    setting: object = chosen if chosen is not None else os.environ.get(TIMEOUT_VARIABLE) or DEFAULT_TIMEOUT
    try:
        seconds = float(str(setting))
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise GroupError(f"{what} must be a positive number of seconds, got {setting!r}")
    return seconds


def parts_of(count: int, size: int) -> list[int]:
    """Splits `count` elements among the ranks as equally as possible, longer parts first; returns the part sizes."""
    least, longer = divmod(count, size)
    return [least + (rank < longer) for rank in range(size)]


class Group(abc.ABC):
    """Ranks that compute together: all call the same operations, in the same order, on arrays of the same sizes.

    Arrays are contiguous, of bf16, f16, f32, f64, i32, u32 or bool. When a call returns, this rank's arrays can be
    reused. Sums are taken in rank order. A group can't be used after a call has failed.

    Args:
        rank: The index of this process or thread, from 0.
        size: The number of ranks.
        timeout: Seconds to wait for the others; by default `TG_GROUP_TIMEOUT`, or 300.

    Attributes:
        rank: The index of this rank.
        size: The number of ranks.
        timeout: Seconds that a call waits for the others.
        traffic: Communication statistics.
        has_threads: Whether threads other than the one that made the group may call it, one at a time.

    Example:
        >>> tg.distributed.simulate(2, lambda group: float(group.all_reduce(np.float32([group.rank + 1]))[0]))
        [3.0, 3.0]
    """

    def __init__(self, rank: int, size: int, timeout: float | None = None):
        self.rank = rank
        self.size = size
        self.timeout: float = timeout_seconds(timeout)
        self.traffic = Traffic()
        self.has_threads = True
        self._background: Background | None = None
        self._ended: str = ""
        self._is_met = False  # whether the ranks are known to be in the same call
        self._kept = np.empty(0, np.uint8)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(rank={self.rank}, size={self.size})"

    # ----------------------------------------------------------------------------------------------------- operations

    def all_reduce(self, array: Array, reduction: str = "sum", out: Array | None = None, *, label: str = "") -> Array:
        """Returns the reduction of all ranks' arrays, on every rank.

        Args:
            array: This rank's array.
            reduction: sum, mean (the sum times 1/size), prod, max or min; for bools only max (logical or) and min
                (logical and).
            out: Receives the result; of the array's dtype and size. It may be the array itself.
            label: The array's name in error messages.

        Raises:
            InputError: The array, `out` or the reduction is not supported.
            GroupError: Another rank did not join, or ended.
        """
        out = np.empty_like(array, order="C") if out is None else out
        what = _described(_of("all_reduce", reduction), array, label)
        self._check_reduced(array, reduction, out, array.size, what)
        with self._call(what):
            flat, result = array.reshape(-1), out.reshape(-1)
            step = SEGMENT_BYTES // array.itemsize
            for start in range(0, array.size, step):
                segment = slice(start, start + step)
                self._all_reduce_segment(flat[segment], reduction, result[segment], what)
        return out

    def reduce_scatter(
        self, array: Array, reduction: str = "sum", out: Array | None = None, *, label: str = ""
    ) -> Array:
        """Returns this rank's part of the reduction of all ranks' arrays.

        Rank r gets the k elements from r * k on of the flat array of size * k elements.

        Args:
            array: This rank's array.
            reduction: As in `all_reduce`.
            out: Receives the part, of k elements. By default the array's first axis is divided, if possible.
            label: The array's name in error messages.

        Raises:
            InputError: The array can't be divided into equal parts, or as in `all_reduce`.
            GroupError: Another rank did not join, or ended.
        """
        what = _described(_of("reduce_scatter", reduction), array, label)
        part, rest = divmod(array.size, self.size)
        if rest:
            raise InputError(f"{what}: {array.size:,} elements do not divide among {self.size} ranks")
        if out is None:
            is_divided = array.ndim > 0 and array.shape[0] % self.size == 0
            out = np.empty((array.shape[0] // self.size, *array.shape[1:]) if is_divided else part, array.dtype)
        self._check_reduced(array, reduction, out, part, what)
        self._check_count(array.size, what)
        with self._call(what):
            self._reduce_scatter(array.reshape(-1), [part] * self.size, reduction, out.reshape(-1), what)
        return out

    def all_gather(self, array: Array, out: Array | None = None, *, label: str = "") -> Array:
        """Returns the arrays of all ranks, concatenated in rank order.

        Args:
            array: This rank's array; all have the same size.
            out: Receives the result, of `size` times as many elements. By default the first axis grows by that factor.
            label: The array's name in error messages.

        Raises:
            InputError: The array or `out` is not supported.
            GroupError: Another rank did not join, or ended.
        """
        if out is None:
            out = np.empty((array.shape[0] * self.size, *array.shape[1:]) if array.ndim else self.size, array.dtype)
        what = _described("all_gather", array, label)
        _check_arrays(array, out, array.size * self.size, what)
        self._check_count(out.size, what)
        with self._call(what):
            self._gather(array.reshape(-1), out.reshape(-1), [array.size] * self.size, what)
        return out

    def broadcast(self, array: Array, root: int = 0, *, label: str = "") -> Array:
        """Writes one rank's array to the arrays of all others, and returns it.

        Args:
            array: On `root` the array to send; on other ranks an array of the same dtype and size that receives it.
            root: The rank that sends.
            label: The array's name in error messages.

        Raises:
            InputError: There is no such rank, or the array is not supported.
            GroupError: Another rank did not join, or ended.
        """
        what = _described(f"broadcast from rank {root}", array, label)
        if not 0 <= root < self.size:
            raise InputError(f"{what}: root must be a rank from 0 to {self.size - 1}, got {root!r}")
        _check_arrays(array, array, array.size, what)
        self._check_count(array.size, what)
        with self._call(what):
            if array.size and self.size > 1:
                self.traffic.bytes_sent += array.nbytes * (self.size - 1) * (self.rank == root)
                self._broadcast(array.reshape(-1), root, what)
        return array

    def barrier(self, *, label: str = "") -> None:
        """Waits until every rank has reached this call.

        Raises:
            GroupError: Another rank did not join, or ended.
        """
        what = f"barrier ({label})" if label else "barrier"
        with self._call(what):
            everyone = np.zeros(self.size, np.uint8)
            self._gather(everyone[:1], everyone, [1] * self.size, what)

    def gather_objects(self, value: Any, *, label: str = "") -> list[Any]:
        """Returns the values of all ranks, in rank order, on every rank.

        Args:
            value: A small picklable value.
            label: The value's name in error messages.

        Raises:
            GroupError: Another rank did not join, or ended.
        """
        what = f"gather_objects ({label})" if label else "gather_objects"
        own = np.frombuffer(pickle.dumps(value), np.uint8)
        with self._call(what):
            sizes = np.zeros(self.size, np.int64)
            self._gather(np.array([own.size], np.int64), sizes, [1] * self.size, what)
            counts = [int(size) for size in sizes]
            self._check_count(sum(counts), what)
            texts = np.empty(sum(counts), np.uint8)
            self._gather(own, texts, counts, what)
        ends = np.cumsum(counts)
        return [pickle.loads(texts[end - count : end].tobytes()) for end, count in zip(ends, counts, strict=True)]

    def begin(self, act: Callable[[], None]) -> Task:
        """Runs a function that calls the group on a background thread, after those that were started before.

        The group must not be called directly until it has completed.
        """
        if self._background is None:
            self._background = Background()
        return self._background.begin(act)

    def abandon(self, reason: str) -> None:
        """Abandons the group, including a call in progress on another thread, which raises.

        Args:
            reason: The reason, for error messages.
        """
        self._ended = self._ended or reason

    def close(self) -> None:
        """Leaves the group, which can't be used afterwards."""
        self._ended = self._ended or "it was closed"

    # ------------------------------------------------------------------------------------------------------ transport

    @abc.abstractmethod
    def _all_to_all(
        self, send: Array, send_counts: Sequence[int], receive: Array, receive_counts: Sequence[int], what: str
    ) -> None:
        """Sends each rank its slice of `send`, and receives one from each; slices are concatenated in rank order.

        Args:
            send: The data to send, flat.
            send_counts: The number of elements for each rank.
            receive: Receives the data, flat, of the same dtype.
            receive_counts: The number of elements from each rank.
            what: The call's name in error messages.
        """

    @abc.abstractmethod
    def _all_gather(self, array: Array, counts: Sequence[int], what: str) -> None:
        """Fills a flat array with all ranks' parts, in rank order; this rank's part is already in place."""

    @abc.abstractmethod
    def _broadcast(self, array: Array, root: int, what: str) -> None:
        """Sends the flat array of `root` to all others, which write it to theirs."""

    # -------------------------------------------------------------------------------------------------------- helpers

    def _all_reduce_segment(self, flat: Array, reduction: str, out: Array, what: str) -> None:
        if self.size == 1:
            np.copyto(out, flat)
        elif flat.nbytes < SMALL_BYTES:
            everyone = self._scratch(flat.size * self.size, flat.dtype)
            self._gather(flat, everyone, [flat.size] * self.size, what)
            reduce_in_rank_order(everyone.reshape(self.size, -1), reduction, out)
        else:
            counts = parts_of(flat.size, self.size)
            start = sum(counts[: self.rank])
            part = out[start : start + counts[self.rank]]
            self._reduce_scatter(flat, counts, reduction, part, what)
            self._gather(part, out, counts, what)

    def _reduce_scatter(self, flat: Array, counts: Sequence[int], reduction: str, out: Array, what: str) -> None:
        if self.size == 1 or not flat.size:
            np.copyto(out, flat)
            return
        received = self._scratch(out.size * self.size, flat.dtype)
        self.traffic.bytes_sent += (flat.size - counts[self.rank]) * flat.itemsize
        self._all_to_all(flat, counts, received, [out.size] * self.size, what)
        reduce_in_rank_order(received.reshape(self.size, -1), reduction, out)

    def _gather(self, own: Array, everyone: Array, counts: Sequence[int], what: str) -> None:
        start = sum(counts[: self.rank])
        np.copyto(everyone[start : start + counts[self.rank]], own)
        self.traffic.bytes_sent += own.nbytes * (self.size - 1)
        if self.size > 1 and everyone.size:
            self._all_gather(everyone, counts, what)

    def _scratch(self, count: int, dtype: np.dtype[Any]) -> Array:
        """Returns scratch memory to receive data from all ranks, which the next call reuses."""
        needed = count * dtype.itemsize
        if self._kept.nbytes < needed:
            self._kept = np.empty(needed, np.uint8)
        return self._kept[:needed].view(dtype)

    @contextmanager
    def _call(self, what: str) -> Iterator[None]:
        """Counts a call. If it fails, so has the group: its ranks are no longer in step."""
        if self._ended:
            raise GroupError(f"rank {self.rank} of {self.size}: {what}: the group is over, since {self._ended}")
        start = time.perf_counter()
        self._is_met = False
        try:
            yield
        except BaseException as error:
            self._ended = f"{what} failed: {str(error) or type(error).__name__}"
            raise
        finally:
            self.traffic.calls += 1
            self.traffic.seconds += time.perf_counter() - start

    def _check_reduced(self, array: Array, reduction: str, out: Array, count: int, what: str) -> None:
        if reduction not in COMBINED_BY:
            raise InputError(f"{what}: reduction must be one of {', '.join(COMBINED_BY)}, not {reduction!r}")
        _check_arrays(array, out, count, what)
        if reduction not in REDUCTIONS_OF[kind_of(array.dtype)]:
            has = ", ".join(REDUCTIONS_OF[kind_of(array.dtype)])
            raise InputError(f"{what}: there is no {reduction} of {DTYPE_NAMES[array.dtype]}; there are {has}")

    def _check_count(self, count: int, what: str) -> None:
        if count > LARGEST_COUNT:
            raise InputError(f"{what}: {count:,} elements are more than {LARGEST_COUNT:,}; send it in pieces")


def _of(operation: str, reduction: str) -> str:
    return operation if reduction == "sum" else f"{operation} ({reduction})"


def _described(operation: str, array: Array, label: str = "") -> str:
    name = DTYPE_NAMES.get(array.dtype, array.dtype)
    return f"{operation} of {array.size:,} {name}{f' ({label})' if label else ''}"


def _check_arrays(array: Array, out: Array, count: int, what: str) -> None:
    """Raises an `InputError` unless the arrays can be passed to a transport unchanged."""
    if array.dtype not in DTYPE_NAMES:
        raise InputError(f"{what}: the dtype must be one of {', '.join(DTYPE_NAMES.values())}, not {array.dtype}")
    if not array.flags.c_contiguous:
        raise InputError(f"{what}: the array is not contiguous; give np.ascontiguousarray of it")
    if out.dtype != array.dtype or out.size != count or not out.flags.c_contiguous or not out.flags.writeable:
        raise InputError(
            f"{what}: out must be a contiguous array of {count:,} {DTYPE_NAMES[array.dtype]} that can be written, "
            f"got {out.size:,} {out.dtype}"
        )


def agree(group: Group, facts: Mapping[str, object]) -> None:
    """Checks that all ranks agree on facts such as versions, shapes, names and hashes.

    Args:
        group: The group.
        facts: Values by name; compared by their `repr`.

    Raises:
        GroupError: They differ: every rank raises the same error, which names the first such fact and its values.
    """
    everyone: list[dict[str, str]] = group.gather_objects(
        {name: repr(value) for name, value in facts.items()}, label="facts to agree on"
    )
    for name in dict.fromkeys(name for settings in everyone for name in settings):
        ranks_by_value: dict[str, list[int]] = {}
        for rank, settings in enumerate(everyone):
            ranks_by_value.setdefault(settings.get(name, "missing"), []).append(rank)
        if len(ranks_by_value) > 1:
            values = "; ".join(f"{value} on {_ranks(ranks)}" for value, ranks in ranks_by_value.items())
            raise GroupError(f"the ranks do not agree on {name}: {values}")


def _ranks(ranks: Sequence[int]) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"
