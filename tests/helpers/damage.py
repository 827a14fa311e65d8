"""Damages files at random, by seed, and checks that they are read or refused."""

from __future__ import annotations

import copy
import json
import random
import re
import struct
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save

from tensorgrad.errors import TensorgradError

if sys.platform != "win32":
    import resource

CASES, NIGHTLY = 20, 4000
SECONDS = 60.0
"""What no case may take."""
MOST_BYTES = 1 << 30
"""By how much all cases of a kind may raise what the process has taken at most: the files are below 64 KiB."""

DEEP: Any = []
for _ in range(200):
    DEEP = [DEEP]
ODD: list[Any] = [None, True, -1, 0, 1, 10**9, 2**53, 2**64, 10**40, 0.5, -1e308, float("nan"), float("inf"), "", "x"]
ODD += ["é\x00", [], {}, [0], {"a": 0}, [[]], DEEP, "float32", "subgroup", "a" * 5000, [1] * 300]


def nodes(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Yields each node of a tree, as its container and its key or index there."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in list(items):
        yield tree, key
        yield from nodes(value)


def damaged_tree(tree: Any, draw: random.Random) -> Any:
    """Returns a copy with one to three nodes changed."""
    tree = copy.deepcopy(tree)
    for _ in range(draw.randint(1, 3)):
        places = list(nodes(tree))
        if not places:
            break
        holder, key = draw.choice(places)
        what = draw.randrange(5)
        if what == 0:
            del holder[key]
        elif what == 1 and isinstance(holder, list):
            holder.insert(key, copy.deepcopy(holder[key]))
        elif what == 2 and isinstance(holder, dict):
            holder[draw.choice(["more", "", *map(str, holder)])] = holder.pop(key)
        elif what == 3 and isinstance(holder[key], int | float):
            holder[key] = draw.choice([-holder[key], holder[key] + 1, holder[key] * 4, 2**31, holder[key] / 2])
        else:
            holder[key] = copy.deepcopy(draw.choice(ODD))
    return tree


def damaged_bytes(data: bytes, draw: random.Random, upto: int | None = None) -> bytes:
    """Returns a copy with some bytes changed, dropped or repeated, mostly near the beginning."""
    damaged = bytearray(data)
    for _ in range(draw.randint(1, 4)):
        limit = max(min(len(damaged), upto or len(damaged)), 1)
        at = draw.randrange(limit)
        length = draw.choice([1, 1, 2, 8, 64])
        what = draw.randrange(4)
        if what == 0:
            damaged[at : at + 1] = bytes([draw.randrange(256)])
        elif what == 1:
            del damaged[at : at + length]
        elif what == 2:
            damaged[at:at] = damaged[at : at + length] * draw.choice([1, 2, 50])
        else:
            damaged = (
                damaged[: draw.randrange(len(damaged) + 1)] if draw.random() < 0.3 else damaged[:at] + damaged[at + 1 :]
            )
    return bytes(damaged)


def damaged_words(text: str, draw: random.Random) -> str:
    """Returns a text with some words changed, dropped or repeated."""
    words = text.split(" ")
    for _ in range(draw.randint(1, 4)):
        at = draw.randrange(len(words))
        what = draw.randrange(4)
        if what == 0:
            del words[at]
        elif what == 1:
            words[at] = draw.choice(words)
        elif what == 2:
            words.insert(at, draw.choice(words))
        else:
            words[at] = draw.choice(["(" * 3000, "[" * 3000, "tensor<" * 3000, "-1", "99999999999999999999", "}"])
    return " ".join(words)


def damaged_numbers(text: str, draw: random.Random) -> str:
    """Returns a text with one to three of its whole numbers changed."""
    parts = re.split(r"(?<![\w.])(\d+)", text)
    for _ in range(draw.randint(1, 3) if len(parts) > 1 else 0):
        at = draw.randrange(1, len(parts), 2)
        parts[at] = draw.choice(["0", "1", "2", "7", "-1", "4096", "2147483648", "9" * 20, f"{parts[at]}0"])
    return "".join(parts)


def contents(path: Path) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    with safe_open(path, framework="numpy") as file:
        return file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def with_header(path: Path, change: Callable[[Any], Any]) -> bytes:
    """Returns a safetensors file with a changed header."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.dumps(change(json.loads(data[8 : 8 + length]))).encode()
    return struct.pack("<Q", len(header)) + header + data[8 + length :]


def damaged_program(path: Path, number: int, draw: random.Random) -> bytes:
    """Returns a saved training of two programs with damage to its bytes, its header, or the header's JSON, in turn."""
    if number % 3 == 0:
        return damaged_bytes(path.read_bytes(), draw, 4000)
    if number % 3 == 1:
        return with_header(path, lambda header: damaged_tree(header, draw))
    metadata, tensors = contents(path)
    part = draw.choice(["program", "accumulate", "host"])
    changed = json.dumps(damaged_tree(json.loads(metadata[part]), draw))
    return save(tensors, metadata={**metadata, part: changed})


def most_taken() -> int:
    """Returns the most memory that this process has taken so far, in bytes; 0 on Windows, which has no such number."""
    if sys.platform == "win32":
        return 0
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@contextmanager
def bounded() -> Iterator[None]:
    """Fails if the block allocates more memory than damaged files may cause."""
    before = most_taken()
    yield
    allocated = most_taken() - before
    assert allocated < MOST_BYTES, f"{allocated} bytes more than before"


def check(read: Callable[[], object], what: str) -> bool:
    """Returns whether something is read; fails if it raises an error that is not ours, or takes long."""
    start = time.monotonic()
    try:
        read()
    except (TensorgradError, OSError) as error:
        assert str(error), what
        accepted = False
    except BaseException as error:
        raise AssertionError(f"{what}: {type(error).__name__}: {str(error)[:500]}") from error
    else:
        accepted = True
    assert time.monotonic() - start < SECONDS, what
    return accepted


def cases(seed: int, count: int) -> Iterator[tuple[int, random.Random]]:
    for number in range(count):
        yield number, random.Random(f"{seed} {number}")
