"""The options of `tg.compile`, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from tensorgrad.driver.compiling.recipe import EditPasses
from tensorgrad.driver.device import DeviceName
from tensorgrad.driver.device_loss import OnDeviceLost, check_may_be_lost, snapshots
from tensorgrad.driver.precision import Precision, check_device, checked_precision
from tensorgrad.driver.stepping.accumulation import micro_batches
from tensorgrad.errors import OptionError
from tensorgrad.runtime.group.group import Group
from tensorgrad.runtime.inputs import is_timeout
from tensorgrad.tracing.checks import checked_integer

if TYPE_CHECKING:
    from tensorgrad.driver.device import ProgramDevice
    from tensorgrad.passes.levels import LevelPass

DEFAULT_TUNING_SECONDS = 60.0
"""The default time limit of tuning."""


def tuning_seconds(tune: bool | float) -> float:
    """Returns for how many seconds schedules may be measured, from the caller's option.

    Raises:
        OptionError: It is not a number, or negative.
    """
    if isinstance(tune, bool):
        return DEFAULT_TUNING_SECONDS if tune else 0.0
    if not isinstance(tune, int | float) or not 0 <= tune < float("inf"):
        raise OptionError(f"tune must be True, False or a number of seconds, got {tune!r}")
    return float(tune)


@dataclass(frozen=True)
class StepOptions:
    """The options of `tg.compile` as the caller gave them; attributes are named like its arguments."""

    device: DeviceName
    seed: int
    checks: bool
    check_numerics: bool
    memory_limit: int | None
    tune: bool | float
    accumulate: int
    precision: Precision
    loss_scale: float | None
    edit_passes: EditPasses | None
    verify: bool
    timeout: float | None
    on_device_lost: OnDeviceLost
    snapshot_every: int
    group: Group | None
    shard: str | None
    replicated: Sequence[str]

    def __post_init__(self) -> None:
        if self.memory_limit is not None:
            limit = checked_integer(self.memory_limit, "memory_limit, a number of bytes,", 1)
            object.__setattr__(self, "memory_limit", limit)

    def keywords(self) -> Mapping[str, Any]:
        """Returns the options as keyword arguments of `tg.compile`."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def micro_batches(self) -> int:
        """The number of micro-batches of a step."""
        return micro_batches(self.accumulate)

    @property
    def tuning_seconds(self) -> float:
        """How long schedules are measured."""
        return tuning_seconds(self.tune)

    @property
    def rounding(self) -> LevelPass | None:
        """The pass that rounds activations, or factors of products, if requested."""
        return checked_precision("tg.compile", self.precision, self.loss_scale)

    @property
    def restarts(self) -> bool:
        """Whether the training continues on another device when its own is lost."""
        return snapshots(self.on_device_lost) is not None

    def check(self) -> None:
        """Checks what can be checked without a model or a device.

        Raises:
            OptionError: An option is of the wrong type or out of range; names it.
        """
        for name in ("checks", "verify", "check_numerics"):
            if not isinstance(value := getattr(self, name), bool):
                raise OptionError(f"{name} must be True or False, got {value!r}")
        if self.timeout is not None and not is_timeout(self.timeout):
            raise OptionError(f"timeout must be a positive number of seconds, or None, got {self.timeout!r}")
        snapshots(self.on_device_lost, self.snapshot_every)
        tuning_seconds(self.tune)
        micro_batches(self.accumulate)
        checked_precision("tg.compile", self.precision, self.loss_scale)

    def check_alone(self) -> None:
        """Checks that no option is set that is unavailable in a group of processes.

        Raises:
            OptionError: One is; names it.
        """
        chosen = {"verify": self.verify, "tune": self.tuning_seconds, "on_device_lost='restart'": self.restarts}
        for what, is_set in chosen.items():
            if is_set:
                raise OptionError(f"{what} is for a process on its own, not for a group")

    def check_device(self, device: ProgramDevice | None) -> None:
        """Checks that a device supports the options.

        Args:
            device: The device; `None` for numpy.

        Raises:
            OptionError: It doesn't; names the option.
        """
        if self.memory_limit is not None and device is None:
            raise OptionError("memory_limit is for a device that plans its memory; numpy plans none")
        if self.timeout is not None and self.device != "auto" and (device is None or device.target.native):
            raise OptionError("timeout is for a device that is waited for; numpy and cpu run in the call")
        if self.restarts:
            check_may_be_lost(self.device)
        check_device("tg.compile", self.rounding, device)
