"""Batches to train on: from arrays, from functions or from any iterable, prepared while the step before runs.

What a training run takes is any iterable of dicts that have an array for each input; going through it once is an epoch.
`batches` and `generated` know their place, so that a run which was stopped finds its way back: a batch is a function of
the epoch and of its number in it, and of nothing else.
"""

from __future__ import annotations

import abc
import math
import queue
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import numpy as np

from tensorgrad.errors import InputError, OptionError
from tensorgrad.ops import random
from tensorgrad.runtime.conversion import to_numpy
from tensorgrad.tracing.location import user_line

__all__ = ["Ahead", "Batches", "Generated", "Seekable", "batches", "generated", "prefetch"]

Batch = dict[str, np.ndarray]
LAST = ("drop", "pad", "keep")


@runtime_checkable
class Seekable(Protocol):
    """Data that knows its place, which a checkpoint can hold."""

    def state_dict(self) -> dict[str, Any]:
        """Returns the position, and what must be equal to resume there, as JSON."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes to where another was.

        Raises:
            InputError: That one's batches were others. Then nothing has changed.
        """
        ...


class Placed(abc.ABC):
    """Data whose batches can be found by epoch and number.

    Attributes:
        epoch: How many epochs have been gone through.
        index: How many batches of the present one.
    """

    def __init__(self) -> None:
        self.epoch: int = 0
        self.index: int = 0

    @abc.abstractmethod
    def at(self, epoch: int, index: int) -> Batch:
        """Returns a batch."""

    def part_at(self, epoch: int, index: int, names: Collection[str], rank: int, size: int) -> Batch:
        """Returns a batch, of some inputs only this process's part, where that is cheaper to make than the whole.

        Args:
            epoch: The epoch.
            index: The batch's number in it.
            names: The inputs of which each process needs one of as many equal parts, along the first axis.
            rank: This process.
            size: How many there are.
        """
        return self.at(epoch, index)

    @abc.abstractmethod
    def check_parts(self) -> None:
        """Requires every batch to be as large as the others, since a group takes its parts of whole batches.

        Raises:
            InputError: The last one is smaller.
        """

    @abc.abstractmethod
    def _length(self) -> float:
        """Returns the number of batches of an epoch."""

    @abc.abstractmethod
    def _kind(self) -> dict[str, Any]:
        """Returns a fingerprint of the data that these batches come from."""

    def __iter__(self) -> Iterator[Batch]:
        """Yields the rest of the present epoch; then the next one is the present one."""
        return self.parts((), 0, 1)

    def parts(self, names: Collection[str], rank: int, size: int) -> Iterator[Batch]:
        """Yields the rest of the present epoch as one process of a group needs it; see `part_at`."""
        while self.index < self._length():
            batch = self.part_at(self.epoch, self.index, names, rank, size)
            self.index += 1
            yield batch
        self.epoch, self.index = self.epoch + 1, 0

    def state_dict(self) -> dict[str, Any]:
        """Returns the position, and a fingerprint of the data."""
        return {"epoch": self.epoch, "index": self.index, **self._kind()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes to where `state_dict` was taken.

        Raises:
            InputError: The state is of other data; lists what differs. Then nothing has changed.
        """
        if not isinstance(state, Mapping) or not all(isinstance(name, str) for name in state):
            raise InputError(f"{user_line()}: the data's place must be a dict by name, got {state!r}")
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
            raise InputError(f"{user_line()}: the data is not what it was: {'; '.join(wrong)}")
        self.epoch, self.index = int(state["epoch"]), int(state["index"])


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


class Batches(Placed):
    """Batches of arrays; `batches` makes it. Its length is the number of batches in an epoch."""

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
            InputError: There is none of that number.
        """
        return self.part_at(epoch, index, (), 0, 1)

    def part_at(self, epoch: int, index: int, names: Collection[str], rank: int, size: int) -> Batch:
        """Returns a batch, of some inputs only this process's part; all of it where it has no equal parts.

        Raises:
            InputError: There is no batch of that number.
        """
        if not 0 <= index < len(self):
            raise InputError(f"{user_line()}: there are {len(self)} batches in an epoch, none of number {index}")
        start = index * self._size
        there = min(self._size, self._examples - start)
        count = self._size if self._last == "pad" else there
        each, rest = divmod(count, size)
        part = slice(0, count) if rest else slice(rank * each, (rank + 1) * each)

        def rows(wanted: slice) -> Any:
            """Returns which examples are in a part of the batch; padding repeats those that are there."""
            moved: Any = slice(start + wanted.start, start + wanted.stop)
            if count > there:
                moved = start + np.arange(wanted.start, wanted.stop) % there
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
                f"{user_line()}: the last batch of an epoch has {rest} examples, the others {self._size}: a group "
                "takes its parts of equal batches; give last='pad' or last='drop'"
            )

    def _permutation(self, epoch: int) -> np.ndarray:
        """Returns the order of an epoch: `tg.random.permutation(tg.random.fold_in(key, epoch), examples)`."""
        if self._order is None or self._order[0] != epoch:
            assert self._key is not None
            self._order = epoch, _permutation(random.fold_in(self._key, epoch), self._examples)
        return self._order[1]

    def __repr__(self) -> str:
        return (
            f"Batches({', '.join(self._arrays)}; {len(self)} of {self._size}; epoch {self.epoch}, batch {self.index})"
        )


def _permutation(key: random.Key, count: int) -> np.ndarray:
    """As `tg.random.permutation`, by numpy's sort."""
    order = np.arange(count, dtype=np.int64)
    for _ in range(math.ceil(3 * math.log(max(1, count)) / math.log(random.WORD))):
        key, own = np.asarray(random.split(key))
        order = order[np.argsort(np.asarray(random.bits(own, count)), kind="stable")]
    return order


def batches(
    arrays: Mapping[str, Any], size: int, *, shuffle: Any = None, last: str = "drop", mask: str = "mask"
) -> Batches:
    """Batches of arrays.

    Args:
        arrays: An array for each input, by name, all with as many examples along their first axis.
        size: How many examples a batch has.
        shuffle: A seed or key, by which each epoch has another order; in order by default.
        last: What becomes of the examples that fill no batch: "drop" leaves them out; "keep" gives them as a smaller
            batch, for functions that are attached; "pad" repeats some of them to fill one, and every batch gets a mask.
        mask: With "pad", the input that is 1.0 for examples and 0.0 for padding, f32 `[size]`; the loss has to weight
            by it.

    Returns:
        An iterable that goes on where it stopped.

    Raises:
        InputError: There are no arrays, they have other numbers of examples, or one is called as the mask.
        OptionError: Another setting is out of range, or no batch is full with "drop".
    """
    if not isinstance(arrays, Mapping) or not arrays:
        given = "none" if isinstance(arrays, Mapping) else type(arrays).__name__
        raise InputError(f"{user_line()}: batches: takes arrays by name, got {given}")
    found = {name: to_numpy(value, f"{user_line()}: {name!r}") for name, value in arrays.items()}
    counts = {name: len(array) if array.ndim else None for name, array in found.items()}
    if len(set(counts.values())) > 1 or None in counts.values() or 0 in counts.values():
        raise InputError(f"{user_line()}: batches: arrays need one number of examples, not zero, there are {counts}")
    wrong = {name: array.dtype for name, array in found.items() if array.dtype.kind in "OSU"}
    if wrong:
        raise InputError(f"{user_line()}: batches: arrays must be of numbers, there are {wrong}")
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise OptionError(f"{user_line()}: batches: size must be a positive integer, got {size!r}")
    if last not in LAST:
        raise OptionError(f"{user_line()}: batches: last must be one of {', '.join(LAST)}, got {last!r}")
    if last == "pad" and mask in found:
        raise InputError(f"{user_line()}: batches: there is an array called {mask!r} already; give mask= another name")
    made = Batches(found, size, _key(shuffle), last, mask)
    if not len(made):
        examples = next(iter(counts.values()))
        raise OptionError(
            f"{user_line()}: batches: {examples} examples fill no batch of {size}; give last='pad' or 'keep'"
        )
    return made


def _key(shuffle: Any) -> np.ndarray | None:
    if shuffle is None:
        return None
    if isinstance(shuffle, int) and not isinstance(shuffle, bool):
        return np.asarray(random.key(shuffle))
    key = np.asarray(shuffle)
    if key.dtype != np.uint32 or key.shape != (2,):
        raise OptionError(f"{user_line()}: batches: shuffle must be a seed or a key, such as tg.random.key(0) gives")
    return key


class Generated(Placed):
    """Batches that a function makes; `generated` makes it."""

    def __init__(self, function: Callable[[int], Mapping[str, Any]], length: int | None):
        super().__init__()
        self._function, self._count = function, length

    def check_parts(self) -> None:
        """See `Placed`; a step checks the shapes of what the function makes."""

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
            raise InputError(f"generated: {name} must give a dict of inputs by name, it gave {type(batch).__name__}")
        return dict(batch)

    def __repr__(self) -> str:
        return f"Generated({self._count}; epoch {self.epoch}, batch {self.index})"


def generated(function: Callable[[int], Mapping[str, Any]], length: int | None = None) -> Generated:
    """Batches that a function makes from their number.

    `generated(lambda number: windows(text, tg.random.fold_in(key, number)))` never ends.

    Args:
        function: Called with 0, 1, 2, ...; gives an array for each input. It must give the same for the same number.
        length: How many batches make an epoch; `None` for epochs without end.

    Returns:
        An iterable that goes on where it stopped.

    Raises:
        OptionError: `function` can't be called, or the length is not a positive integer.
    """
    if not callable(function):
        raise OptionError(f"{user_line()}: generated: takes a function of a number, got {function!r}")
    if length is not None and (isinstance(length, bool) or not isinstance(length, int) or length < 1):
        raise OptionError(f"{user_line()}: generated: length must be a positive integer, got {length!r}")
    return Generated(function, length)


T = TypeVar("T")


class Ahead(Generic[T]):
    """An iterator over what a thread prepares, some items ahead; `prefetch` makes it.

    What the thread raises is raised here, in its place.
    """

    def __init__(self, items: Iterable[T], ahead: int):
        self._items = items
        self._queue: queue.Queue[tuple[str, Any]] = queue.Queue(ahead)
        self._stopped = threading.Event()
        self._ended = False
        self._thread = threading.Thread(target=self._fill, name="tensorgrad data", daemon=True)
        self._thread.start()

    def _fill(self) -> None:
        try:
            for item in self._items:
                if not self._put("item", item):
                    return
            self._put("end", None)
        except BaseException as error:
            self._put("error", error)

    def _put(self, kind: str, value: Any) -> bool:
        while not self._stopped.is_set():
            try:
                self._queue.put((kind, value), timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        if self._ended:
            raise StopIteration
        kind, value = self._queue.get()
        if kind == "item":
            return value
        self._ended = True
        if kind == "error":
            raise value
        raise StopIteration

    def close(self, patience: float = 5.0) -> bool:
        """Stops the thread; says whether it has ended within so many seconds."""
        self._stopped.set()
        self._ended = True
        self._thread.join(patience)
        return not self._thread.is_alive()


def prefetch(items: Iterable[T], ahead: int = 2) -> Ahead[T]:
    """Goes through an iterable once, in a thread that is some items ahead.

    Steps are submitted without waiting, and what they are given is copied at once: so the next batches are prepared,
    and go to the device, while it is busy.

    Args:
        items: Anything to go through. Nothing else should use it meanwhile.
        ahead: How many items may wait.

    Raises:
        OptionError: `ahead` is not a positive integer.
    """
    if isinstance(ahead, bool) or not isinstance(ahead, int) or ahead < 1:
        raise OptionError(f"{user_line()}: prefetch: ahead must be a positive integer, got {ahead!r}")
    return Ahead(items, ahead)
