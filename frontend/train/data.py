"""Training batches: from arrays, functions or any iterable, prefetched while the previous step runs.

A training run takes any iterable of batches, which have an array for each input; one pass over it is an epoch.
`batches` and `generated` know their position, so that a run can be resumed: a batch depends only on the epoch and on
its number within the epoch.
"""

from __future__ import annotations

import abc
import copy
import dataclasses
import math
import queue
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, ClassVar, Generic, Protocol, TypeVar, runtime_checkable

import numpy as np

from tensorgrad.errors import InputError, OptionError, UserError
from tensorgrad.ops import random
from tensorgrad.runtime.conversion import to_numpy
from tensorgrad.tracing import trees
from tensorgrad.tracing.checks import checked_integer
from tensorgrad.tracing.location import user_line

__all__ = ["Ahead", "Batches", "Generated", "Seekable", "batches", "generated", "prefetch"]

Batch = dict[str, np.ndarray]
LAST = ("drop", "pad", "keep")


@runtime_checkable
class Seekable(Protocol):
    """Data that knows its position, which a checkpoint can hold.

    Example:
        >>> isinstance(tg.data.batches({"x": np.arange(5)}, 2), tg.data.Seekable), isinstance([], tg.data.Seekable)
        (True, False)
    """

    def state_dict(self) -> dict[str, Any]:
        """Returns the position, and what must be equal to resume there, as JSON."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores the position of a state.

        Raises:
            InputError: It belongs to different batches. Nothing is changed then.
        """
        ...


class Placed(abc.ABC):
    """Data whose batches can be found by epoch and number.

    Attributes:
        epoch: The number of completed epochs.
        index: The number of batches of the current epoch that have been used.
        makes_copies: Whether the arrays of each batch are new ones that nothing else refers to.
    """

    makes_copies: ClassVar[bool] = False

    def __init__(self) -> None:
        self.epoch: int = 0
        self.index: int = 0

    @abc.abstractmethod
    def at(self, epoch: int, index: int) -> Batch:
        """Returns a batch by its epoch and number."""

    def part_at(self, epoch: int, index: int, names: Collection[str], rank: int, size: int) -> Batch:
        """Returns a batch, with only this process's part of some inputs if that is cheaper than the whole.

        Args:
            epoch: The epoch.
            index: The batch's number in it.
            names: The inputs that are divided among the processes, along the first axis.
            rank: The rank of this process.
            size: The number of processes.
        """
        return self.at(epoch, index)

    @abc.abstractmethod
    def check_parts(self) -> None:
        """Checks that all batches have the same size, since a group divides whole batches.

        Raises:
            InputError: The last one is smaller.
        """

    @abc.abstractmethod
    def _length(self) -> float:
        """Returns the number of batches of an epoch."""

    @abc.abstractmethod
    def _kind(self) -> dict[str, Any]:
        """Returns a fingerprint of the data behind these batches."""

    def __iter__(self) -> Iterator[Batch]:
        """Yields the rest of the current epoch, and then advances to the next."""
        return self.parts((), 0, 1)

    def parts(self, names: Collection[str], rank: int, size: int) -> Iterator[Batch]:
        """Yields the rest of the current epoch as one process of a group needs it; see `part_at`."""
        while self.index < self._length():
            batch = self.part_at(self.epoch, self.index, names, rank, size)
            self.index += 1
            yield batch
        self.epoch, self.index = self.epoch + 1, 0

    def state_dict(self) -> dict[str, Any]:
        """Returns the position, and a fingerprint of the data."""
        return {"epoch": self.epoch, "index": self.index, **self._kind()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores the position at which `state_dict` was taken.

        Raises:
            InputError: The state belongs to different data; lists the differences. Nothing is changed then.
        """
        if not isinstance(state, Mapping) or not all(isinstance(name, str) for name in state):
            raise InputError(f"the data's place must be a dict by name, got {state!r}")
        own = self.state_dict()
        wrong = [
            f"{name} is {own.get(name)!r}, it was {state.get(name)!r}"
            for name in sorted({*own, *state})
            if name not in ("epoch", "index") and own.get(name) != state.get(name)
        ]
        epoch, index = state.get("epoch"), state.get("index")
        if not (_is_count(epoch) and _is_count(index)) or (index or 0) > self._length():
            wrong.append(f"there is no batch {index!r} of epoch {epoch!r}")
        if wrong:
            raise InputError(f"the data is not what it was: {'; '.join(wrong)}")
        self.epoch, self.index = int(state["epoch"]), int(state["index"])


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


class Batches(Placed):
    """Batches of arrays, as `batches` returns them. The length is the number of batches in an epoch.

    Example:
        >>> data = tg.data.batches({"x": np.arange(6)}, 2, shuffle=0)
        >>> len(data), sorted(int(x) for batch in data for x in batch["x"])
        (3, [0, 1, 2, 3, 4, 5])
    """

    makes_copies = True

    def __init__(self, arrays: Mapping[str, np.ndarray], size: int, key: np.ndarray | None, last: str, mask: str):
        super().__init__()
        self._arrays = dict(arrays)
        self._examples = len(next(iter(self._arrays.values())))
        self._size, self._key, self._last, self._mask = size, key, last, mask
        self._order: tuple[int, np.ndarray] | None = None

    def __len__(self) -> int:
        rounded = math.floor if self._last == "drop" else math.ceil
        return rounded(self._examples / self._size)

    def _length(self) -> float:
        return len(self)

    def _kind(self) -> dict[str, Any]:
        key = None if self._key is None else [int(word) for word in self._key]
        return {"examples": self._examples, "size": self._size, "last": self._last, "shuffle": key}

    def at(self, epoch: int, index: int) -> Batch:
        """Returns a batch, by its number in an epoch.

        Raises:
            InputError: There is no batch of that number.
        """
        return self.part_at(epoch, index, (), 0, 1)

    def part_at(self, epoch: int, index: int, names: Collection[str], rank: int, size: int) -> Batch:
        """Returns a batch, with only this process's part of some inputs, or all of it if it can't be divided equally.

        Raises:
            InputError: There is no batch of that number.
        """
        if not 0 <= index < len(self):
            raise InputError(f"there are {len(self)} batches in an epoch, none of number {index}")
        start = index * self._size
        there = min(self._size, self._examples - start)
        count = self._size if self._last == "pad" else there
        each, rest = divmod(count, size)
        part = slice(0, count) if rest else slice(rank * each, (rank + 1) * each)

        def rows(local: slice) -> np.ndarray:
            """Returns which examples are in a part of the batch; padding repeats examples."""
            moved = start + np.arange(local.start, local.stop) % there
            return moved if self._key is None else self._permutation(epoch)[moved]

        batch = {name: array[rows(part if name in names else slice(0, count))] for name, array in self._arrays.items()}
        if self._last != "pad":
            return batch
        mask = np.ones(count, np.float32)
        mask[there:] = 0
        return {**batch, self._mask: mask[part] if self._mask in names else mask}

    def check_parts(self) -> None:
        """See `Placed`."""
        rest = self._examples % self._size
        if rest and self._last == "keep":
            raise InputError(
                f"the last batch of an epoch has {rest} examples, the others {self._size}: a group "
                "takes its parts of equal batches; give last='pad' or last='drop'"
            )

    def _permutation(self, epoch: int) -> np.ndarray:
        """Returns the order of an epoch: `tg.random.permutation(tg.random.fold_in(key, epoch), examples)`."""
        if self._order is None or self._order[0] != epoch:
            assert self._key is not None
            self._order = epoch, permutation(random.fold_in(self._key, epoch), self._examples)
        return self._order[1]

    def __repr__(self) -> str:
        return (
            f"Batches({', '.join(self._arrays)}; {len(self)} of {self._size}; epoch {self.epoch}, batch {self.index})"
        )


def permutation(key: random.Key, count: int) -> np.ndarray:
    """Returns the same as `tg.random.permutation`, using numpy's sort."""
    order = np.arange(count, dtype=np.int64)
    for _ in range(math.ceil(3 * math.log(max(1, count)) / math.log(random.WORD))):
        key, own = np.asarray(random.split(key))
        order = order[np.argsort(np.asarray(random.bits(own, count)), kind="stable")]
    return order


def batches(
    arrays: Mapping[str, Any], size: int, *, shuffle: Any = None, last: str = "drop", mask: str = "mask"
) -> Batches:
    """Returns batches of arrays. They are copies, in whatever order, so they may be changed in place.

    Args:
        arrays: An array for each input, by name, all with the same number of examples along their first axis.
        size: The number of examples in a batch.
        shuffle: A seed or key, with which each epoch has a different order; in order by default.
        last: What to do with the last examples if they don't fill a batch: "drop" leaves them out; "keep" yields them
            as a smaller batch, for attached functions; "pad" repeats some of them to fill it, and adds a mask to every
            batch.
        mask: With "pad", the input that is 1.0 for examples and 0.0 for padding, f32 `[size]`; the loss has to weight
            by it.

    Returns:
        An iterable that continues where it stopped.

    Raises:
        InputError: There are no arrays, they have different numbers of examples, or one has the name of the mask.
        OptionError: A setting is out of range, or no batch is full with "drop".

    Example:
        >>> data = tg.data.batches({"x": np.arange(5)}, 2)
        >>> [batch["x"].tolist() for batch in data]
        [[0, 1], [2, 3]]
    """
    if not isinstance(arrays, Mapping) or not arrays:
        kind = "none" if isinstance(arrays, Mapping) else type(arrays).__name__
        raise InputError(f"batches: takes arrays by name, got {kind}")
    host_arrays = {name: to_numpy(value, f"{user_line()}: {name!r}") for name, value in arrays.items()}
    counts = {name: len(array) if array.ndim else None for name, array in host_arrays.items()}
    if len(set(counts.values())) > 1 or None in counts.values() or 0 in counts.values():
        raise InputError(f"batches: arrays need one number of examples, not zero, there are {counts}")
    wrong = {name: array.dtype for name, array in host_arrays.items() if array.dtype.kind in "OSU"}
    if wrong:
        raise InputError(f"batches: arrays must be of numbers, there are {wrong}")
    size = checked_integer(size, "batches: size", 1)
    if last not in LAST:
        raise OptionError(f"batches: last must be one of {', '.join(LAST)}, got {last!r}")
    if last == "pad" and mask in host_arrays:
        raise InputError(f"batches: there is an array called {mask!r} already; give mask= another name")
    result = Batches(host_arrays, size, key_of("batches", shuffle), last, mask)
    if not len(result):
        examples = next(iter(counts.values()))
        raise OptionError(f"batches: {examples} examples fill no batch of {size}; give last='pad' or 'keep'")
    return result


def key_of(what: str, shuffle: Any) -> np.ndarray | None:
    """Returns the key of an order, of a seed or a key, or `None`.

    Raises:
        OptionError: It is neither.
    """
    if shuffle is None:
        return None
    if isinstance(shuffle, int) and not isinstance(shuffle, bool):
        return np.asarray(random.key(shuffle))
    key = np.asarray(shuffle)
    if key.dtype != np.uint32 or key.shape != (2,):
        raise OptionError(f"{what}: shuffle must be a seed or a key, such as tg.random.key(0) gives")
    return key


class Generated(Placed):
    """Batches made by a function, as `generated` returns them.

    Example:
        >>> len(tg.data.generated(lambda number: {"x": np.full(2, number)}, length=3))
        3
    """

    def __init__(self, function: Callable[[int], Mapping[str, Any]], length: int | None):
        super().__init__()
        self._function, self._count = function, length

    def check_parts(self) -> None:
        """See `Placed`; a step checks the shapes of the batches."""

    def __len__(self) -> int:
        if self._count is None:
            raise TypeError("the epochs of this data have no end")
        return self._count

    def _length(self) -> float:
        return math.inf if self._count is None else self._count

    def _kind(self) -> dict[str, Any]:
        return {"length": self._count}

    def at(self, epoch: int, index: int) -> Batch:
        """Returns a batch, by its number in an epoch."""
        batch = self._function(epoch * (self._count or 0) + index)
        if not isinstance(batch, Mapping):
            name = getattr(self._function, "__name__", "the function")
            raise InputError(f"generated: {name} must return a dict of inputs by name, got {type(batch).__name__}")
        return dict(batch)

    def __repr__(self) -> str:
        return f"Generated({self._count}; epoch {self.epoch}, batch {self.index})"


def generated(function: Callable[[int], Mapping[str, Any]], length: int | None = None) -> Generated:
    """Returns batches that a function makes from their number.

    `generated(lambda number: windows(text, tg.random.fold_in(key, number)))` never ends.

    Args:
        function: Called with 0, 1, 2, ...; returns an array for each input, which must depend only on the number.
        length: The number of batches in an epoch; `None` for an endless epoch.

    Returns:
        An iterable that continues where it stopped.

    Raises:
        OptionError: `function` can't be called, or the length is not a positive integer.

    Example:
        >>> data = tg.data.generated(lambda number: {"x": np.full(2, number)}, length=3)
        >>> [batch["x"].tolist() for batch in data]
        [[0, 0], [1, 1], [2, 2]]
    """
    if not callable(function):
        raise OptionError(f"generated: takes a function of a number, got {function!r}")
    return Generated(function, None if length is None else checked_integer(length, "generated: length", 1))


T = TypeVar("T")


def own_arrays(item: Any) -> Any:
    """Returns an item with copies of the dicts, lists, tuples, dataclasses and NumPy arrays that may change later."""
    kind = type(item)
    if isinstance(item, np.ndarray):
        return item.copy() if _may_change(item) else item
    if isinstance(item, dict):
        new = copy.copy(item)
        new.update({key: own_arrays(value) for key, value in item.items()})
        return new
    is_plain = kind in (list, tuple) or hasattr(kind, "_fields") or dataclasses.is_dataclass(kind)
    unpacked = trees.children(item) if is_plain and not hasattr(kind, "tree_children") else None
    return item if unpacked is None else unpacked[1]([own_arrays(child) for child in unpacked[0]])


def _may_change(array: np.ndarray) -> bool:
    """Returns whether the memory of an array can be written through it, or through what it is a view of."""
    owner: Any = array
    while isinstance(owner, np.ndarray):
        if owner.flags.writeable:
            return True
        owner = owner.base
    try:
        return owner is not None and not memoryview(owner).readonly
    except TypeError:  # it does not say
        return True


POLLING_SECONDS = 0.1
"""How often an iterator that waits for an item asks whether it should go on."""


class Ahead(Generic[T]):
    """An iterator whose items a thread prepares ahead, as `prefetch` returns it.

    An exception in the thread is raised here, in the place of the item.

    Args:
        items: The iterable.
        ahead: The largest number of prepared items.
        copies: Whether items are copied when they are prepared, by `own_arrays`.
        is_over: Whether to end instead of waiting for an item.

    Example:
        >>> items = tg.data.prefetch(range(3))
        >>> next(items), items.close()
        (0, True)
    """

    def __init__(
        self, items: Iterable[T], ahead: int, copies: bool = True, is_over: Callable[[], bool] = lambda: False
    ):
        self._items, self._copies, self._is_over = items, copies, is_over
        self._queue: queue.Queue[tuple[str, Any]] = queue.Queue(ahead)
        self._stopped = threading.Event()
        self._ended = False
        self._thread = threading.Thread(target=self._fill, name="tensorgrad data", daemon=True)
        self._thread.start()

    def _fill(self) -> None:
        try:
            for item in self._items:
                if not self._put("item", own_arrays(item) if self._copies else item):
                    return
            self._put("end", None)
        except BaseException as error:
            self._put("error", error)

    def _put(self, kind: str, value: Any) -> bool:
        """Puts a result into the queue, as soon as there is room; returns whether more are wanted."""
        self._queue.put((kind, value))
        return not self._stopped.is_set()

    def _get(self) -> tuple[str, Any]:
        """Returns the next result of the thread, as soon as there is one, or an end."""
        while True:
            with suppress(queue.Empty):
                return self._queue.get(timeout=POLLING_SECONDS)
            if self._is_over():
                return "end", None

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        if self._ended:
            raise StopIteration
        kind, value = self._get()
        if kind == "item":
            return value
        self._ended = True
        if kind == "error":
            if isinstance(value, UserError):  # a thread has no line of the user's
                value.location = value.location or user_line()
            raise value
        raise StopIteration

    def close(self, patience: float = 5.0) -> bool:
        """Stops the thread; returns whether it ended within the given number of seconds."""
        self._stopped.set()
        self._ended = True
        with suppress(queue.Empty):
            while True:  # makes room for what the thread may be putting, the last before it sees that it is stopped
                self._queue.get_nowait()
        self._thread.join(patience)
        return not self._thread.is_alive()


def prefetch(items: Iterable[T], ahead: int = 2) -> Ahead[T]:
    """Iterates over an iterable once, in a thread that is some items ahead.

    Steps are submitted without waiting, and their inputs are copied immediately, so the next batches are prepared and
    uploaded while the device is busy.

    NumPy arrays that may still change are copied when an item is prepared, with the dicts, lists, tuples and
    dataclasses around them, so an iterable may yield one buffer again and again. Batches of `batches` and `text` are
    copies already.

    Args:
        items: The iterable. Nothing else should use it meanwhile.
        ahead: The largest number of prepared items.

    Raises:
        OptionError: `ahead` is not a positive integer.

    Example:
        >>> list(tg.data.prefetch(range(3)))
        [0, 1, 2]
    """
    ahead = checked_integer(ahead, "prefetch: ahead", 1)
    return Ahead(items, ahead, copies=not are_copies(items))


def are_copies(data: object) -> bool:
    """Returns whether data makes new arrays for each batch."""
    return isinstance(data, Placed) and data.makes_copies
