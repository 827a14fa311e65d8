"""The scripts that `test_mpi` launches: the operations of a group, and ways in which a process may end."""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import tensorgrad as tg
from tensorgrad.distributed import Group
from tensorgrad.runtime.group.launched import launched_as

COUNTS = (1, 1000, 50_001)
DTYPES = (np.float32, np.float64, np.float16, np.int32, np.uint32, np.bool_)


def operations(group: Group) -> list[str]:
    """Runs every operation on arrays of every dtype, and returns a digest of each result's bits."""
    results: list[str] = []

    def add(name: str, array: np.ndarray) -> None:
        results.append(f"{name} {array.dtype} {array.shape} {hashlib.sha256(array.tobytes()).hexdigest()}")

    for dtype in DTYPES:
        for count in COUNTS:
            values = np.random.default_rng(group.rank).standard_normal(count * group.size) * 100
            array = (np.abs(values) if dtype != np.bool_ else values > 0).astype(dtype)
            kinds = ["max", "min"] if dtype == np.bool_ else ["sum", "prod", "max", "min"]
            for reduction in kinds + ["mean"] * (dtype().dtype.kind == "f"):
                add(f"all_reduce {reduction}", group.all_reduce(array, reduction))
                own = group.reduce_scatter(array, reduction)
                add(f"reduce_scatter {reduction}", group.all_gather(own))
            add("broadcast", group.broadcast(array.copy(), root=group.size - 1))
    group.barrier()
    results.append(str(group.gather_objects({"rank": group.rank, "text": "x" * group.rank})))
    return results


def agreed(group: Group) -> None:
    """Prints one rank's results, once all ranks have found theirs equal."""
    results = operations(group)
    assert group.gather_objects(results) == [results] * group.size
    if group.rank == 0:
        print("\n".join(results))


def raising(group: Group) -> None:
    """One rank raises an exception while the others wait for it."""
    if group.rank == 1:
        raise ValueError("a mistake of rank 1")
    group.barrier()


def killed(group: Group) -> None:
    """One rank is killed while the others wait for it."""
    if group.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    group.barrier()


def hanging(group: Group) -> None:
    """One rank does not join."""
    if group.rank == 1:
        time.sleep(600)
    group.all_reduce(np.ones(100_000, np.float32), label="gradient of w1")


def exiting(group: Group) -> None:
    """One rank exits with a nonzero status while the others wait for it."""
    if group.rank == 1:
        sys.exit(7)
    group.barrier()


def caught(group: Group) -> None:
    """One rank does not join, and the ranks that wait for it catch the error and finish the program."""
    tg.distributed.group(timeout=1)
    if group.rank == 1:
        time.sleep(600)
    try:
        group.barrier()
    except tg.errors.GroupError:
        print("it goes on")


def resuming(group: Group) -> None:
    """A run that dies twice, each time one step later, and resumes from the file in the first argument."""
    path = Path(sys.argv[2])
    step = int(path.read_text(encoding="utf-8")) if path.exists() else 0
    group.barrier()
    print(f"step {step} of {group.size} processes")
    if group.rank == 0:
        path.write_text(str(step + 1), encoding="utf-8")
    group.barrier()
    if step < 2 and group.rank == group.size - 1:
        raise RuntimeError(f"died at step {step}")


def differing(group: Group) -> None:
    """One rank's array is longer than the other's."""
    group.all_reduce(np.ones(1000 * (group.rank + 1), np.float32))


def crashing(group: Group) -> None:
    """One rank has a segmentation fault while the others wait for it."""
    if group.rank == 1:
        os.kill(os.getpid(), signal.SIGSEGV)
    group.barrier()


def leaving(group: Group) -> None:
    """One rank finishes while the others wait for it."""
    tg.distributed.group(timeout=1)
    if group.rank != 1:
        group.barrier(label="the end of an epoch")


def settings(group: Group) -> None:
    """Prints the settings that the launcher has passed on."""
    names = ("TG_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TG_GROUP_TIMEOUT")
    print(" ".join(f"{name}={os.environ.get(name)}" for name in names), sys.argv[2:])
    print("a line of", group.rank, file=sys.stderr)


WAYS: dict[str, Callable[[Group], None]] = {
    way.__name__: way
    for way in (agreed, raising, killed, crashing, hanging, differing, exiting, leaving, caught, resuming, settings)
}


def raises_before() -> None:
    """Dies before it creates its group, while the others wait for it."""
    raise ValueError("a mistake before the group")


BEFORE: dict[str, Callable[[], None]] = {"raises_before": raises_before, "never": lambda: time.sleep(600)}
"""What rank 1 does instead of asking for its group."""

if __name__ == "__main__":
    if sys.argv[1] in BEFORE and launched_as()[0] == 1:
        BEFORE[sys.argv[1]]()
    WAYS.get(sys.argv[1], Group.barrier)(tg.distributed.group())
