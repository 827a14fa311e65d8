"""Settings of optimizers that can change without another program."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from tensorgrad.errors import OptionError, ProgramError
from tensorgrad.optim.schedules import Schedule, checked

INF = math.inf
RANGES: dict[str, tuple[float, float]] = {
    "dampening": (0.0, math.nextafter(1, 2)),
    "beta1": (0.0, 1.0),
    "beta2": (0.0, 1.0),
    "alpha": (0.0, 1.0),
    "decay": (0.0, 1.0),
    "d": (1.0, INF),
    "ema_decay": (0.0, 1.0),
    "beta2_decay": (-INF, math.nextafter(0, 1)),
    **dict.fromkeys(
        ("learning_rate", "momentum", "weight_decay", "lr_decay", "eps", "eps1", "eps2", "scale"), (0.0, INF)
    ),
    **dict.fromkeys(("clip_norm", "max_norm", "max_delta"), (math.nextafter(0, 1), INF)),
}
"""The least value of a setting, and an exclusive upper bound; other settings may be any finite number."""
ALWAYS = {
    "learning_rate",
    "beta1",
    "beta2",
    "alpha",
    "eps",
    "eps1",
    "eps2",
    "beta2_decay",
    "decay",
    "factor",
    "scale",
    "ema_decay",
}
"""Settings that the program has even if they are 0."""
POSITIVE = ("clip_norm", "max_norm", "max_delta")
RATE, CLIP, DECAY, EMA_DECAY = "learning_rate", "clip_norm", "weight_decay", "ema_decay"


@dataclass(frozen=True)
class Setting:
    """A setting that the host provides at each step.

    Attributes:
        name: Its name.
        group: The pattern of the group, the link or the other optimizer that it belongs to; `None` for the setting of
            all other parameters.
        value: Its initial value.
        schedule: The schedule by which the host scales it, unless a formula in the program does.
    """

    name: str
    group: str | None
    value: float
    schedule: Schedule | None = None

    @property
    def label(self) -> str:
        """Its name in checkpoints."""
        return self.name if self.group is None else f"{self.group}/{self.name}"

    def checked(self, owner: str, value: Any) -> float:
        """Returns a new value, checked.

        Raises:
            OptionError: It is out of range.
        """
        return checked_setting(owner, self.name, value)


def checked_setting(owner: str, name: str, value: Any) -> float:
    """Returns the value of a setting as a float.

    Raises:
        OptionError: It is out of range; names it.
    """
    least, below = RANGES.get(name, (-INF, INF))
    signed = least != 0.0
    number = checked(owner, name, value, below=INF if signed else below, signed=signed and name not in POSITIVE)
    if name in POSITIVE and not number:
        raise OptionError(f"{owner}: {name} must be more than 0, got {value!r}")
    if number < least:
        raise OptionError(f"{owner}: {name} must be at least {least:g}, got {value!r}")
    if number >= below:
        raise OptionError(f"{owner}: {name} must be at most {math.nextafter(below, -INF):g}, got {value!r}")
    return number


def spread(owner: str, declared: Mapping[str, Any]) -> dict[str, Any]:
    """Returns settings with `betas` as `beta1` and `beta2`.

    Raises:
        OptionError: `betas` are not two.
    """
    results = dict(declared)
    if "betas" in results:
        betas = results.pop("betas")
        try:
            results["beta1"], results["beta2"] = betas
        except (TypeError, ValueError):
            raise OptionError(f"{owner}: betas must be two numbers, got {betas!r}") from None
    return results


def checked_groups(owner: str, groups: Any, settings: Collection[str]) -> dict[str, dict[str, float]]:
    """Returns the settings of groups by pattern.

    Args:
        owner: The optimizer.
        groups: A mapping from patterns to mappings from settings to numbers.
        settings: Which settings the optimizer has.

    Raises:
        OptionError: It is not such a mapping, or a setting is unknown or out of range.
    """
    if not isinstance(groups, Mapping) or not all(
        isinstance(pattern, str) and isinstance(changes, Mapping) for pattern, changes in groups.items()
    ):
        raise OptionError(f"{owner}: groups must be {{pattern: {{setting: number}}}}, got {groups!r}")
    results: dict[str, dict[str, float]] = {}
    for pattern, changes in groups.items():
        values = spread(
            f"{owner}: groups[{pattern!r}]", {RATE if name == "lr" else name: changes[name] for name in changes}
        )
        for name in values:
            if name not in settings:
                raise OptionError(
                    f"{owner}: groups[{pattern!r}] has no setting {name!r}; there are {', '.join(settings)}"
                )
        where = f"{owner}: groups[{pattern!r}]"
        results[pattern] = {name: checked_setting(where, name, value) for name, value in values.items()}
    return results


def host_settings(
    settings: Mapping[str, float], clip_norm: float | None, groups: Mapping[str, Mapping[str, float]]
) -> dict[str, Setting]:
    """Returns the settings of an optimizer that can change, by their names in formulas.

    A momentum or decay that is zero for all parameters isn't part of the program, so it can't change.
    """
    results: dict[str, Setting] = {}
    for name, value in settings.items():
        others = () if name == DECAY else (changes.get(name, 0.0) for changes in groups.values())
        if name in ALWAYS or value or any(others):
            results[name] = Setting(name, None, value)
    if clip_norm is not None:
        results[CLIP] = Setting(CLIP, None, clip_norm)
    for number, (pattern, changes) in enumerate(groups.items(), 1):
        for name, value in changes.items():
            if name == RATE or (name in results and name != DECAY) or value:
                results[host_name(number, name)] = Setting(name, pattern, value)
    return results


def host_name(number: int, setting: str) -> str:
    """Returns the name of a group's setting in formulas; group 0 has the parameters that are in no other."""
    return f"group{number}_{setting}" if number else setting


class HostSettings:
    """The current values of settings."""

    def __init__(self, declared: Mapping[str, Setting], used: Collection[str]):
        self._declared = {name: setting for name, setting in declared.items() if setting.name == RATE or name in used}
        self._scheduled = {
            name: setting.schedule for name, setting in self._declared.items() if setting.schedule is not None
        }
        self._by_label = {setting.label: name for name, setting in self._declared.items()}
        self.values: dict[str, float] = {}
        self.reset()

    def reset(self) -> None:
        """Sets every setting to its initial value."""
        self.values = {name: setting.value for name, setting in self._declared.items()}

    def at(self, step: int) -> dict[str, float]:
        """Returns the values for a step.

        Raises:
            OptionError: A schedule returns something other than a number in range.
        """
        results = dict(self.values)
        for name, schedule in self._scheduled.items():
            rate = schedule.at(step, self.values[name])
            results[name] = self._declared[name].checked(f"schedule {schedule.name}, step {step}", rate)
        return results

    def of_group(self, group: str | None) -> dict[str, float]:
        """Returns the values of a group by name; `None` is the settings of all other parameters."""
        return {setting.name: self.values[name] for name, setting in self._declared.items() if setting.group == group}

    def refuse_functions(self, what: str) -> None:
        """Refuses schedules that are Python functions, which a file can't hold.

        Raises:
            ProgramError: There is one; names it.
        """
        if self._scheduled:
            name, schedule = next(iter(self._scheduled.items()))
            raise ProgramError(
                f"{what}: {self._declared[name].label} follows the function {schedule.name}, which a file can't hold: "
                "use tg.optim.schedules, or tg.optim.Schedule with a formula of step; save_checkpoint keeps the rest"
            )

    def labeled(self) -> dict[str, float]:
        """Returns the values by their names in checkpoints."""
        return {label: self.values[name] for label, name in self._by_label.items()}

    def initial(self) -> dict[str, float]:
        """Returns the values that the training was compiled with, by their names in checkpoints."""
        return {label: self._declared[name].value for label, name in self._by_label.items()}

    def by_label(self, values: Mapping[str, float]) -> dict[str, float]:
        """Renames values from their names in formulas to those in checkpoints; unknown names are kept."""
        labels = {name: label for label, name in self._by_label.items()}
        return {labels.get(name, name): value for name, value in values.items()}

    def load(self, values: Mapping[str, Any]) -> dict[str, float]:
        """Returns all values, updated with those given by label; changes nothing.

        Raises:
            OptionError: One is out of range.
        """
        new = dict(self.values)
        for label, value in values.items():
            setting = self._declared[self._by_label[label]]
            new[self._by_label[label]] = setting.checked(f"load_state_dict: training/{label}", value)
        return new

    def set(self, owner: str, group: str | None, changes: Mapping[str, Any]) -> None:
        """Changes values.

        Raises:
            OptionError: There is no such setting, or it is out of range. Nothing is changed then.
        """
        there = {setting.name: name for name, setting in self._declared.items() if setting.group == group}
        if not there:
            groups = dict.fromkeys(setting.group for setting in self._declared.values() if setting.group is not None)
            listed = ", ".join(map(repr, groups)) or "none"
            raise OptionError(f"{owner}: no group {group!r} has settings that can change; there are {listed}")
        numbers = spread(owner, changes)
        for name in numbers:
            if name not in there:
                of = "" if group is None else f" of group {group!r}"
                raise OptionError(
                    f"{owner}: this program has no setting {name!r}{of}; there are {', '.join(there)}"
                    " (what was zero or absent for all parameters at tg.compile is not a part of it)"
                )
        new = {there[name]: checked_setting(owner, name, value) for name, value in numbers.items()}
        self.values = {**self.values, **new}


def checked_betas(owner: str, betas: tuple[float, float]) -> dict[str, float]:
    """Returns both betas as settings.

    Raises:
        OptionError: They are not two numbers from 0 to below 1.
    """
    try:
        first, second = betas
    except (TypeError, ValueError):
        hint = (
            "; tg.compile gives it the parameters, so the learning rate comes first" if isinstance(betas, float) else ""
        )
        raise OptionError(f"{owner}: betas must be two numbers, got {betas!r}{hint}") from None
    return {
        "beta1": checked(owner, "betas[0]", first, below=1),
        "beta2": checked(owner, "betas[1]", second, below=1),
    }
