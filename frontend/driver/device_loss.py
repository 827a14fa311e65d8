"""The option `on_device_lost=`, and its effect."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from tensorgrad.errors import OptionError
from tensorgrad.tracing.checks import checked_integer

OnDeviceLost: TypeAlias = Literal["raise", "restart"]
"""The values of the option."""

SNAPSHOT_EVERY = 100
"""The number of steps between snapshots by default."""


def snapshots(on_device_lost: str, snapshot_every: int = SNAPSHOT_EVERY) -> int | None:
    """Returns the number of steps between snapshots on the host; `None` if a device loss is an error.

    Raises:
        OptionError: `on_device_lost` is unknown, or `snapshot_every` is not a positive integer.
    """
    if on_device_lost not in get_args(OnDeviceLost):
        raise OptionError(f"on_device_lost must be one of {', '.join(get_args(OnDeviceLost))}, got {on_device_lost!r}")
    steps = checked_integer(snapshot_every, "snapshot_every", 1)
    return steps if on_device_lost == "restart" else None


def check_may_be_lost(name: str) -> None:
    """Checks that the device that the user asked for can be lost; "auto" may choose one that can't.

    Raises:
        OptionError: It can't be lost.
    """
    if name in ("numpy", "cpu"):
        raise OptionError("on_device_lost='restart' is for a device that can be lost; numpy and cpu can't")
