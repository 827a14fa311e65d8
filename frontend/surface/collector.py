"""Control of Python's garbage collector, which costs time where much is allocated and nothing is garbage."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

MOST_LEFT = 1 << 18
"""How many objects may be left uncollected; those of the IR of a step of a small transformer are 400,000, 60 MB."""

_left = 0
_frozen = False
"""Whether the program was seen to have frozen objects; to count them takes milliseconds where they are many."""


@contextmanager
def without_collector() -> Iterator[None]:
    """Disables the garbage collector, which would repeatedly traverse growing structures such as IR or classes.

    What was allocated counts as old afterwards. Enabled as it is, the collector would traverse all of it at the next
    allocation, before the first step of a training that has just been compiled: a seventh of the time until then. What
    is garbage is collected with other old objects, or at the start of a later block if it is much.
    """
    global _left, _frozen
    if not gc.isenabled():
        yield
        return
    if _left > MOST_LEFT:
        gc.collect()
        _left = 0
    gc.disable()
    try:
        yield
    finally:
        _frozen = _frozen or gc.get_freeze_count() > 0
        if not _frozen:  # what the program itself has frozen stays so
            _left += gc.get_count()[0]
            gc.freeze()
            gc.unfreeze()
        gc.enable()
