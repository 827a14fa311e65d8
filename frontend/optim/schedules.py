"""Learning-rate schedules: formulas of the step, which the host evaluates, so that they cost the device nothing.

Steps count from 1. Every schedule is `Schedule`: a rate, and a factor of it that depends on the step. A program that is
saved carries it, and `Training.set_learning_rate` changes the rate, not the factor. A factor may also be a function of
Python, see `from_function`, which a saved program can't carry.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TypeAlias

from tensorgrad.errors import OptionError
from tensorgrad.runtime.errors import FormulaError
from tensorgrad.runtime.formula import Formula
from tensorgrad.surface.calls import publish

__all__ = [
    "Schedule",
    "constant",
    "cosine",
    "from_function",
    "join",
    "linear",
    "multi_step",
    "one_cycle",
    "piecewise",
    "step",
    "warm_up",
]


@dataclass(frozen=True)
class Schedule:
    """A learning rate that depends on the step: `rate` times `factor`.

    Attributes:
        rate: What the factor scales.
        factor: A formula of `step`, which is 1 at first: numbers, `+ - * / **`, comparisons, `a if c else b`, and the
            functions `min`, `max`, `sqrt`, `cos`, `exp` and `floor`; such as `"1 / sqrt(step)"`. Or a function of the
            step, which gives a number; see `from_function`.

    Raises:
        OptionError: The rate is not a finite number or negative, or the factor no such formula.
    """

    rate: float
    factor: str | Callable[[int], float]

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", checked("Schedule", "rate", self.rate))
        if not isinstance(self.factor, str) and callable(self.factor):
            return
        try:
            names = Formula(self.factor).names
        except (FormulaError, AttributeError) as error:
            raise OptionError(f"Schedule: factor must be a formula of step: {error}") from error
        if names - {"step"}:
            raise OptionError(f"Schedule: factor must be a formula of step alone, got {self.factor!r}")

    def __call__(self, step: int) -> float:
        """Returns the learning rate of a step; the first is 1.

        Raises:
            OptionError: The formula has no value there, or the function gives no finite number.
        """
        return self.at(step, self.rate)

    def at(self, step: int, rate: float) -> float:
        """Returns the learning rate of a step, where the factor scales another rate."""
        return rate * self.factor_at(step)

    def factor_at(self, step: int) -> float:
        """Returns the factor of a step.

        Raises:
            OptionError: The formula has no value there, or the function gives no finite number.
        """
        if not isinstance(self.factor, str):
            return checked(f"schedule {self.name}", f"what it gives for step {step}", self.factor(step), signed=True)
        try:
            return _parsed(self.factor).evaluate({"step": float(step)})
        except FormulaError as error:
            raise OptionError(str(error)) from error

    @property
    def name(self) -> str:
        """What tells it from others: the formula, or the function's name."""
        if isinstance(self.factor, str):
            return self.factor
        return getattr(self.factor, "__qualname__", type(self.factor).__qualname__)

    @property
    def text(self) -> str | None:
        """The factor as a formula; None where it is a function."""
        return self.factor if isinstance(self.factor, str) else None

    def formula(self) -> str:
        """Returns the learning rate, in terms of `step` and of the rate, called `learning_rate`.

        Where the factor is a function, the host has it in the rate.
        """
        return "learning_rate" if self.text is None else f"learning_rate * ({self.text})"


Rate: TypeAlias = float | Schedule | Callable[[int], float]
"""What an optimizer takes for its learning rate: a number, a schedule, or a function of the step."""


def from_function(function: Callable[[int], float]) -> Schedule:
    """Returns the rates that a function of Python gives for each step, of which the first is 1.

    `from_function(lambda step: 1e-3 if step < 100 else 1e-4)`; optimizers take such a function itself, too. The host
    calls it at each step, and maybe more than once: it is to depend on the step alone, so that a run that goes on from
    a checkpoint goes on alike. `Training.set_learning_rate` scales what it gives, by 1 at first. A program that is
    saved can't carry a function: `Training.save` refuses.

    Raises:
        OptionError: It is not a function.
    """
    if not callable(function):
        raise OptionError(f"from_function: takes a function of the step, got {function!r}")
    return Schedule(1.0, function)


def shifted(formula: str, steps: int) -> str:
    """Returns a factor, where the schedule starts after as many steps."""
    return re.sub(r"\bstep\b", f"(step - {steps})", formula)


@lru_cache(maxsize=64)
def _parsed(formula: str) -> Formula:
    return Formula(formula)


F32_MAX = 3.4028234663852886e38
"""The largest f32: settings reach devices as one."""


def checked(owner: str, name: str, value: float, *, below: float = math.inf, signed: bool = False) -> float:
    """Returns a setting as a float.

    Raises:
        OptionError: It is not a number from 0, or of any sign if `signed`, to just under `below`; names it.
    """
    limit = "a finite number that is not negative" if below == math.inf else f"a number from 0 to below {below:g}"
    limit, least = ("a finite number", -F32_MAX) if signed else (limit, 0.0)
    try:
        number = math.nan if isinstance(value, (bool, str, bytes)) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not least <= number < below or number > F32_MAX:
        if name == "learning_rate":
            limit += ", one of tg.optim.schedules, or a function of the step"
        raise OptionError(f"{owner}: {name} must be {limit}, got {value!r}")
    return number


def _count(owner: str, name: str, value: int, least: int = 1) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise OptionError(f"{owner}: {name} must be an integer from {least}, got {value!r}")
    return value


def _decay_steps(owner: str, steps: int, warmup: int) -> int:
    _count(owner, "steps", steps)
    if _count(owner, "warmup", warmup, 0) >= steps:
        raise OptionError(f"{owner}: warmup must be less than steps, got {warmup} of {steps}")
    return steps - warmup


def _ratio(owner: str, end: float, rate: float) -> float:
    """`end` as a factor of `rate`."""
    rate, end = checked(owner, "rate", rate), checked(owner, "end", end)
    if end and not rate:
        raise OptionError(f"{owner}: end must be 0 where rate is, got {end}")
    return end / rate if end else 0.0


def constant(rate: float, warmup: int = 0) -> Schedule:
    """Returns the same rate at every step, after a linear warm-up of `warmup` steps; see `warm_up`."""
    return warm_up(Schedule(checked("constant", "rate", rate), "1.0"), _count("constant", "warmup", warmup, 0))


def linear(rate: float, steps: int, end: float = 0.0, warmup: int = 0) -> Schedule:
    """From `rate` in equal parts to `end`, which the rate is after `steps` steps, warm-up included.

    Raises:
        OptionError: A setting is out of range, or the warm-up is as long as all of it.
    """
    count, last = _decay_steps("linear", steps, warmup), _ratio("linear", end, rate)
    return warm_up(Schedule(rate, f"1 - {1 - last!r} * min((step - 1) / {count}, 1)"), warmup)


def cosine(rate: float, steps: int, end: float = 0.0, warmup: int = 0) -> Schedule:
    """From `rate` by half a period of the cosine to `end`, which the rate is after `steps` steps, warm-up included.

    `cosine(3e-4, 1000, warmup=100)` rises for 100 steps, is 3e-4 at step 101, and falls to 0 at step 1001.

    Raises:
        OptionError: A setting is out of range, or the warm-up is as long as all of it.
    """
    count, last = _decay_steps("cosine", steps, warmup), _ratio("cosine", end, rate)
    wave = f"(1 + cos({math.pi!r} * min((step - 1) / {count}, 1))) / 2"
    return warm_up(Schedule(rate, f"{last!r} + {1 - last!r} * {wave}" if last else wave), warmup)


def warm_up(schedule: Rate, steps: int) -> Schedule:
    """Returns a schedule after `steps` steps in which the rate rises in equal parts to the schedule's first.

    Step k of them has `k / (steps + 1)` of that, so that no step is lost with a rate of 0; the one after them is the
    schedule's own first step.

    Raises:
        OptionError: A setting is out of range.
    """
    found = as_schedule("warm_up", schedule)
    if _count("warm_up", "steps", steps, 0) == 0:
        return found
    if found.text is None:
        return Schedule(
            found.rate,
            lambda step: found.factor_at(1) * step / (steps + 1) if step <= steps else found.factor_at(step - steps),
        )
    first = found.factor_at(1)
    rise = f"{first!r} * step / {steps + 1}"
    return Schedule(found.rate, f"{rise} if step <= {steps} else {shifted(found.text, steps)}")


def step(rate: float, every: int, factor: float = 0.1) -> Schedule:
    """`rate`, multiplied by `factor` each time that `every` steps are done.

    Raises:
        OptionError: A setting is out of range.
    """
    base, times = checked("step", "factor", factor), _count("step", "every", every)
    return Schedule(checked("step", "rate", rate), f"{base!r} ** floor((step - 1) / {times})")


def multi_step(rate: float, milestones: Sequence[int], factor: float = 0.1) -> Schedule:
    """`rate`, multiplied by `factor` when as many steps are done as each of the milestones says.

    Raises:
        OptionError: A setting is out of range, or the milestones don't increase.
    """
    base, marks = checked("multi_step", "factor", factor), _increasing("multi_step", "milestones", milestones)
    passed = " + ".join(f"(step > {mark})" for mark in marks) or "0"
    return Schedule(checked("multi_step", "rate", rate), f"{base!r} ** ({passed})")


def one_cycle(
    rate: float, steps: int, rise: float = 0.3, start_divisor: float = 25.0, end_divisor: float = 1e4
) -> Schedule:
    """Goes up to `rate` and down again by halves of the cosine, as PyTorch's OneCycleLR.

    Args:
        rate: The highest.
        steps: How many there are; the last has the lowest rate, as have those after it.
        rise: The part of the steps in which the rate rises.
        start_divisor: What `rate` is divided by for the first step.
        end_divisor: What the first step's rate is divided by for the last.

    Raises:
        OptionError: A setting is out of range, or there are too few steps to rise and to fall.
    """
    _count("one_cycle", "steps", steps)
    top, last = checked("one_cycle", "rise", rise, below=1) * steps - 1, steps - 1
    for name, value in (("start_divisor", start_divisor), ("end_divisor", end_divisor)):
        if not checked("one_cycle", name, value):
            raise OptionError(f"one_cycle: {name} must be more than 0, got {value!r}")
    if not 0 < top < last:
        raise OptionError(f"one_cycle: rise must leave more than one of the {steps} steps, and not all, got {rise!r}")
    first = 1 / float(start_divisor)
    end = first / float(end_divisor)
    up = f"1 + {first - 1!r} * (1 + cos({math.pi!r} * (step - 1) / {top!r})) / 2"
    fall = f"min((step - 1 - {top!r}) / {last - top!r}, 1)"
    down = f"{end!r} + {1 - end!r} * (1 + cos({math.pi!r} * {fall})) / 2"
    return Schedule(checked("one_cycle", "rate", rate), f"{up} if step - 1 <= {top!r} else {down}")


def piecewise(rates: Mapping[int, float]) -> Schedule:
    """Constant rates by the step that each starts at; the first starts at step 1.

    `piecewise({1: 1e-3, 501: 1e-4})` has 1e-3 for 500 steps.

    Raises:
        OptionError: There is no step 1, a step is not a positive integer or not in order, or a rate is out of range.
    """
    if not isinstance(rates, Mapping):
        raise OptionError(f"piecewise: rates must map steps to rates, got {rates!r}")
    starts = _increasing("piecewise", "steps", list(rates))
    if not starts or starts[0] != 1:
        raise OptionError(f"piecewise: the first rate must start at step 1, got {rates!r}")
    return join([constant(rate) for rate in rates.values()], [start - 1 for start in starts[1:]])


def join(schedules: Sequence[Rate], boundaries: Sequence[int]) -> Schedule:
    """Schedules one after the other; each starts with a step 1 of its own.

    Args:
        schedules: The schedules; or numbers for constant rates, or functions of the step.
        boundaries: How many steps are done when the second starts, when the third does, and so on.

    Raises:
        OptionError: There is not one schedule more than boundaries, or the boundaries don't increase.
    """
    found = [as_schedule("join", one) for one in schedules]
    marks = _increasing("join", "boundaries", boundaries)
    if len(found) != len(marks) + 1:
        raise OptionError(f"join: {len(found)} schedules have {len(found) - 1} boundaries, got {len(marks)}")
    starts = [0, *marks]
    formulas = [one.text for one in found if one.text is not None]
    if len(formulas) < len(found):

        def joined(step: int) -> float:
            number = bisect_left(marks, step)
            return found[number](step - starts[number])

        return Schedule(1.0, joined)
    rate = max(one.rate for one in found)
    parts = [
        f"{one.rate / (rate or 1.0)!r} * ({shifted(formula, mark) if mark else formula})"
        for one, formula, mark in zip(found, formulas, starts, strict=True)
    ]
    return Schedule(rate, _chosen(parts, marks))


def _chosen(parts: Sequence[str], marks: Sequence[int]) -> str:
    """Returns the part for a step, by halves, so that many of them don't nest deeply."""
    if not marks:
        return parts[0]
    middle = len(marks) // 2
    early, late = _chosen(parts[: middle + 1], marks[:middle]), _chosen(parts[middle + 1 :], marks[middle + 1 :])
    return f"({early} if step <= {marks[middle]} else {late})"


def _increasing(owner: str, name: str, values: Sequence[int]) -> list[int]:
    found = [_count(owner, name, value) for value in values]
    if any(late <= early for early, late in pairwise(found)):
        raise OptionError(f"{owner}: {name} must increase, got {found}")
    return found


def as_schedule(owner: str, rate: Rate) -> Schedule:
    """Returns a schedule; a function of the step as one, or a number as a constant one.

    Raises:
        OptionError: It is none of these.
    """
    if isinstance(rate, Schedule):
        return rate
    if callable(rate):
        return from_function(rate)
    return Schedule(checked(owner, "learning_rate", rate), "1.0")


publish(globals())
