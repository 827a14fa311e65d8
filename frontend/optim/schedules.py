"""Learning-rate schedules: formulas of the step, which the host evaluates, so that they cost the device nothing.

Steps count from 1. Every schedule is a `Schedule`: a rate, and a factor that depends on the step. A saved program
contains it, and `Training.set_learning_rate` changes the rate, not the factor. A factor may also be a Python function,
see `from_function`, which a saved program can't contain. Where a schedule of optax is named, the value at step k is
optax's at k - 1, since steps count from 0 there.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import TypeAlias

from tensorgrad.errors import OptionError
from tensorgrad.runtime.errors import FormulaError
from tensorgrad.runtime.formula import Formula
from tensorgrad.surface.calls import publish
from tensorgrad.tracing.checks import checked_integer

__all__ = [
    "Schedule",
    "constant",
    "cosine",
    "cosine_restarts",
    "exponential",
    "from_function",
    "join",
    "linear",
    "multi_step",
    "one_cycle",
    "piecewise",
    "polynomial",
    "step",
    "warm_up",
]


MOST_STEPS = 1 << 31
"""More steps than a cycle of any training has."""


@dataclass(frozen=True)
class Schedule:
    """A learning rate that depends on the step: `rate` times `factor`.

    Attributes:
        rate: The rate that the factor scales.
        factor: A formula of `step`, which counts from 1: numbers, `+ - * / **`, comparisons, `a if c else b`, and the
            functions `min`, `max`, `sqrt`, `cos`, `exp` and `floor`; such as `"1 / sqrt(step)"`. Or a function of the
            step, which returns a number; see `from_function`.

    Raises:
        OptionError: The rate is negative or not finite, or the factor is not such a formula.

    Example:
        >>> rate = tg.optim.Schedule(0.1, "1 / sqrt(step)")
        >>> rate(1), rate(4)
        (0.1, 0.05)
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
            OptionError: The formula has no value there, or the function does not return a finite number.
        """
        return self.at(step, self.rate)

    def at(self, step: int, rate: float) -> float:
        """Returns the learning rate of a step, with a given rate for the factor to scale."""
        return rate * self.factor_at(step)

    def factor_at(self, step: int) -> float:
        """Returns the factor of a step.

        Raises:
            OptionError: The formula has no value there, or the function does not return a finite number.
        """
        if not isinstance(self.factor, str):
            return checked(f"schedule {self.name}", f"what it gives for step {step}", self.factor(step), signed=True)
        try:
            return _parsed(self.factor).evaluate({"step": float(step)})
        except FormulaError as error:
            raise OptionError(str(error)) from error

    @property
    def name(self) -> str:
        """Its name: the formula, or the name of the function."""
        if isinstance(self.factor, str):
            return self.factor
        return getattr(self.factor, "__qualname__", type(self.factor).__qualname__)

    @property
    def text(self) -> str | None:
        """The factor as a formula; None if it is a function."""
        return self.factor if isinstance(self.factor, str) else None

    def formula(self) -> str:
        """Returns the learning rate, in terms of `step` and of the rate, called `learning_rate`.

        If the factor is a function, the host includes it in the rate.
        """
        return "learning_rate" if self.text is None else f"learning_rate * ({self.text})"


Rate: TypeAlias = float | Schedule | Callable[[int], float]
"""A learning rate for an optimizer: a number, a schedule, or a function of the step."""


def from_function(function: Callable[[int], float]) -> Schedule:
    """Returns a schedule whose rates are computed by a Python function of the step, which counts from 1.

    `from_function(lambda step: 1e-3 if step < 100 else 1e-4)`; optimizers also accept the function itself. The host
    calls it at each step, possibly more than once: it should depend only on the step, so that a resumed run continues
    the same way. `Training.set_learning_rate` scales its result, initially by 1. A saved program can't contain a
    function: `Training.save` refuses.

    Raises:
        OptionError: It is not a function.

    Example:
        >>> rate = tg.optim.schedules.from_function(lambda step: 1 / step)
        >>> [round(rate(step), 3) for step in range(1, 6)]
        [1.0, 0.5, 0.333, 0.25, 0.2]
    """
    if not callable(function):
        raise OptionError(f"from_function: takes a function of the step, got {function!r}")
    return Schedule(1.0, function)


def shifted(formula: str, steps: int) -> str:
    """Returns the formula of a factor whose schedule starts after `steps` steps."""
    return re.sub(r"\bstep\b", f"(step - {steps})", formula)


@lru_cache(maxsize=64)
def _parsed(formula: str) -> Formula:
    return Formula(formula)


F32_MAX = 3.4028234663852886e38
"""The largest f32: settings are passed to devices as f32."""


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


def _decay_steps(owner: str, steps: int, warmup: int) -> int:
    steps, warmup = checked_integer(steps, f"{owner}: steps", 1), checked_integer(warmup, f"{owner}: warmup", 0)
    if warmup >= steps:
        raise OptionError(f"{owner}: warmup must be less than steps, got {warmup} of {steps}")
    return steps - warmup


def _ratio(owner: str, end: float, rate: float) -> float:
    """Returns `end` as a factor of `rate`."""
    rate, end = checked(owner, "rate", rate), checked(owner, "end", end)
    if end and not rate:
        raise OptionError(f"{owner}: end must be 0 where rate is, got {end}")
    return end / rate if end else 0.0


def constant(rate: float, warmup: int = 0) -> Schedule:
    """Returns the same rate at every step, after a linear warm-up of `warmup` steps; see `warm_up`.

    Example:
        >>> rate = tg.optim.schedules.constant(1.0, warmup=2)
        >>> [round(rate(step), 3) for step in range(1, 6)]
        [0.333, 0.667, 1.0, 1.0, 1.0]
    """
    return warm_up(Schedule(checked("constant", "rate", rate), "1.0"), checked_integer(warmup, "constant: warmup", 0))


def linear(rate: float, steps: int, end: float = 0.0, warmup: int = 0) -> Schedule:
    """Returns a rate that falls linearly from `rate` to `end`, which it reaches after `steps` steps, warm-up included.

    Raises:
        OptionError: A setting is out of range, or the warm-up is as long as all of it.

    Example:
        >>> rate = tg.optim.schedules.linear(1.0, steps=4)
        >>> [round(rate(step), 3) for step in range(1, 6)]
        [1.0, 0.75, 0.5, 0.25, 0.0]
    """
    count, last = _decay_steps("linear", steps, warmup), _ratio("linear", end, rate)
    return warm_up(Schedule(rate, f"1 - {1 - last!r} * min((step - 1) / {count}, 1)"), warmup)


def polynomial(rate: float, steps: int, power: float = 1.0, end: float = 0.0, warmup: int = 0) -> Schedule:
    """Returns a rate that goes from `rate` to `end` as a power, and reaches it after `steps` steps, warm-up included.

    Without a warm-up, step k has the rate `end + (rate - end) * (1 - min((k - 1) / steps, 1)) ** power`: the schedule
    `optax.polynomial_schedule(rate, end, power, steps)`, and with `end=0` PyTorch's PolynomialLR. With `power=1` it is
    `linear`.

    Raises:
        OptionError: A setting is out of range, or the warm-up is as long as all of it.

    Example:
        >>> rate = tg.optim.schedules.polynomial(1.0, steps=4, power=2)
        >>> [rate(step) for step in range(1, 7)]
        [1.0, 0.5625, 0.25, 0.0625, 0.0, 0.0]
    """
    count, last = _decay_steps("polynomial", steps, warmup), _ratio("polynomial", end, rate)
    rest = f"(1 - min((step - 1) / {count}, 1)) ** {checked('polynomial', 'power', power)!r}"
    return warm_up(Schedule(rate, f"{last!r} + {1 - last!r} * {rest}" if last else rest), warmup)


def cosine(rate: float, steps: int, end: float = 0.0, warmup: int = 0) -> Schedule:
    """Returns a rate that follows half a cosine from `rate` to `end`, reached after `steps` steps, warm-up included.

    `cosine(3e-4, 1000, warmup=100)` rises for 100 steps, is 3e-4 at step 101, and falls to 0 at step 1001.

    Raises:
        OptionError: A setting is out of range, or the warm-up is as long as all of it.

    Example:
        >>> rate = tg.optim.schedules.cosine(1.0, steps=4)
        >>> [round(rate(step), 3) for step in range(1, 6)]
        [1.0, 0.854, 0.5, 0.146, 0.0]
    """
    count, last = _decay_steps("cosine", steps, warmup), _ratio("cosine", end, rate)
    wave = f"(1 + cos({math.pi!r} * min((step - 1) / {count}, 1))) / 2"
    return warm_up(Schedule(rate, f"{last!r} + {1 - last!r} * {wave}" if last else wave), warmup)


def cosine_restarts(rate: float, steps: int, factor: int = 1, end: float = 0.0, warmup: int = 0) -> Schedule:
    """Returns a rate that falls from `rate` to `end` along half a cosine, again and again: SGDR.

    I. Loshchilov and F. Hutter, SGDR: Stochastic Gradient Descent with Warm Restarts, 2017. Without a warm-up it is
    PyTorch's CosineAnnealingWarmRestarts.

    Args:
        rate: The rate at which each cycle starts.
        steps: The number of steps of the first cycle.
        factor: How many times as long as the one before each cycle is.
        end: The rate at which each cycle ends.
        warmup: The number of steps of a linear warm-up that come before; see `warm_up`.

    Raises:
        OptionError: A setting is out of range.

    Example:
        >>> rate = tg.optim.schedules.cosine_restarts(1.0, steps=2, factor=2)
        >>> [round(rate(step), 3) for step in range(1, 8)]
        [1.0, 0.5, 1.0, 0.854, 0.5, 0.146, 1.0]
    """
    count, last = checked_integer(steps, "cosine_restarts: steps", 1), _ratio("cosine_restarts", end, rate)
    times = checked_integer(factor, "cosine_restarts: factor", 1)
    rise = checked_integer(warmup, "cosine_restarts: warmup", 0)
    if times == 1:
        done = f"((step - 1) / {count} - floor((step - 1) / {count}))"
        return warm_up(Schedule(rate, f"{last!r} + {1 - last!r} * (1 + cos({math.pi!r} * {done})) / 2"), rise)
    lengths = [count]
    while lengths[-1] * times < MOST_STEPS:
        lengths.append(lengths[-1] * times)
    return warm_up(join([cosine(rate, length, end) for length in lengths], list(accumulate(lengths))[:-1]), rise)


def warm_up(schedule: Rate, steps: int) -> Schedule:
    """Returns a schedule preceded by `steps` steps in which the rate rises linearly to the schedule's first.

    Step k of them has the fraction `k / (steps + 1)`, so that no step has a rate of 0; the next one is the
    schedule's own first step.

    Raises:
        OptionError: A setting is out of range.

    Example:
        >>> rate = tg.optim.schedules.warm_up(tg.optim.schedules.constant(1.0), 3)
        >>> [round(rate(step), 3) for step in range(1, 6)]
        [0.25, 0.5, 0.75, 1.0, 1.0]
    """
    result = as_schedule("warm_up", schedule)
    steps = checked_integer(steps, "warm_up: steps", 0)
    if steps == 0:
        return result
    if result.text is None:
        return Schedule(
            result.rate,
            lambda step: result.factor_at(1) * step / (steps + 1) if step <= steps else result.factor_at(step - steps),
        )
    first = result.factor_at(1)
    rise = f"{first!r} * step / {steps + 1}"
    return Schedule(result.rate, f"{rise} if step <= {steps} else {shifted(result.text, steps)}")


def step(rate: float, every: int, factor: float = 0.1) -> Schedule:
    """Returns `rate`, multiplied by `factor` after every `every` steps.

    Raises:
        OptionError: A setting is out of range.

    Example:
        >>> rate = tg.optim.schedules.step(1.0, every=2)
        >>> [round(rate(step), 3) for step in range(1, 6)]
        [1.0, 1.0, 0.1, 0.1, 0.01]
    """
    base, times = checked("step", "factor", factor), checked_integer(every, "step: every", 1)
    return Schedule(checked("step", "rate", rate), f"{base!r} ** floor((step - 1) / {times})")


def exponential(rate: float, every: int, factor: float = 0.1, end: float = 0.0, warmup: int = 0) -> Schedule:
    """Returns a rate that is multiplied by `factor` in the course of every `every` steps, a little at each.

    After the warm-up, its step k has the rate `rate * factor ** ((k - 1) / every)`: the schedule
    `optax.exponential_decay(rate, every, factor)`, and with `every=1` PyTorch's ExponentialLR. `step` changes the rate
    all at once (`staircase=True` of optax).

    Args:
        rate: The rate of the first step.
        every: The number of steps in which the rate changes by the factor.
        factor: The factor, more than 0; the rate grows if it is more than 1.
        end: Where the rate stops if that is not 0: it doesn't fall below this, or grow above it (optax's `end_value`).
        warmup: The number of steps of a linear warm-up that come before; see `warm_up`.

    Raises:
        OptionError: A setting is out of range.

    Example:
        >>> rate = tg.optim.schedules.exponential(1.0, every=2, factor=0.25, end=0.1)
        >>> [rate(step) for step in range(1, 6)]
        [1.0, 0.5, 0.25, 0.125, 0.1]
    """
    base, count = checked("exponential", "factor", factor), checked_integer(every, "exponential: every", 1)
    if not base:
        raise OptionError(f"exponential: factor must be more than 0, got {factor!r}")
    last, decay = _ratio("exponential", end, rate), f"{base!r} ** ((step - 1) / {count})"
    bounded = f"{'max' if base < 1 else 'min'}({decay}, {last!r})" if last else decay
    return warm_up(Schedule(rate, bounded), checked_integer(warmup, "exponential: warmup", 0))


def multi_step(rate: float, milestones: Sequence[int], factor: float = 0.1) -> Schedule:
    """Returns `rate`, multiplied by `factor` after each of the milestones, which are numbers of steps.

    Raises:
        OptionError: A setting is out of range, or the milestones don't increase.

    Example:
        >>> rate = tg.optim.schedules.multi_step(1.0, [2, 4])
        >>> [round(rate(step), 3) for step in range(1, 6)]
        [1.0, 1.0, 0.1, 0.1, 0.01]
    """
    base, marks = checked("multi_step", "factor", factor), _increasing("multi_step", "milestones", milestones)
    passed = " + ".join(f"(step > {mark})" for mark in marks) or "0"
    return Schedule(checked("multi_step", "rate", rate), f"{base!r} ** ({passed})")


def one_cycle(
    rate: float, steps: int, rise: float = 0.3, start_divisor: float = 25.0, end_divisor: float = 1e4
) -> Schedule:
    """Returns a rate that rises to `rate` and falls again along halves of a cosine, like PyTorch's OneCycleLR.

    Args:
        rate: The highest rate.
        steps: The number of steps; the last step, and those after it, have the lowest rate.
        rise: The fraction of the steps in which the rate rises.
        start_divisor: The first step's rate is `rate` divided by this.
        end_divisor: The last step's rate is the first step's divided by this.

    Raises:
        OptionError: A setting is out of range, or there are too few steps to rise and to fall.

    Example:
        >>> rate = tg.optim.schedules.one_cycle(1.0, steps=5)
        >>> [round(rate(step), 3) for step in range(1, 6)]
        [0.04, 0.95, 0.611, 0.188, 0.0]
    """
    steps = checked_integer(steps, "one_cycle: steps", 1)
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
    """Returns constant rates, each from a given step on; the first starts at step 1.

    `piecewise({1: 1e-3, 501: 1e-4})` has 1e-3 for 500 steps, as `optax.piecewise_constant_schedule(1e-3, {500: 0.1})`,
    which gives factors instead of rates.

    Raises:
        OptionError: There is no step 1, a step is not a positive integer or not in order, or a rate is out of range.

    Example:
        >>> rate = tg.optim.schedules.piecewise({1: 1.0, 3: 0.5})
        >>> [round(rate(step), 3) for step in range(1, 6)]
        [1.0, 1.0, 0.5, 0.5, 0.5]
    """
    if not isinstance(rates, Mapping):
        raise OptionError(f"piecewise: rates must map steps to rates, got {rates!r}")
    starts = _increasing("piecewise", "steps", list(rates))
    if not starts or starts[0] != 1:
        raise OptionError(f"piecewise: the first rate must start at step 1, got {rates!r}")
    return join([constant(rate) for rate in rates.values()], [start - 1 for start in starts[1:]])


def join(schedules: Sequence[Rate], boundaries: Sequence[int]) -> Schedule:
    """Returns a sequence of schedules; the steps of each count from 1.

    Args:
        schedules: The schedules; or numbers for constant rates, or functions of the step.
        boundaries: The number of steps before the second starts, before the third starts, and so on.

    Raises:
        OptionError: There must be one schedule more than boundaries, and the boundaries must increase.

    Example:
        >>> rate = tg.optim.schedules.join([tg.optim.schedules.linear(1.0, 2), tg.optim.schedules.constant(0.5)], [2])
        >>> [round(rate(step), 3) for step in range(1, 6)]
        [1.0, 0.5, 0.5, 0.5, 0.5]
    """
    rates = [as_schedule("join", schedule) for schedule in schedules]
    marks = _increasing("join", "boundaries", boundaries)
    if len(rates) != len(marks) + 1:
        raise OptionError(f"join: {len(rates)} schedules have {len(rates) - 1} boundaries, got {len(marks)}")
    starts = [0, *marks]
    formulas = [part.text for part in rates if part.text is not None]
    if len(formulas) < len(rates):

        def joined(step: int) -> float:
            number = bisect_left(marks, step)
            return rates[number](step - starts[number])

        return Schedule(1.0, joined)
    rate = max(part.rate for part in rates)
    parts = [
        f"{part.rate / (rate or 1.0)!r} * ({shifted(formula, mark) if mark else formula})"
        for part, formula, mark in zip(rates, formulas, starts, strict=True)
    ]
    return Schedule(rate, _chosen(parts, marks))


def _chosen(parts: Sequence[str], marks: Sequence[int]) -> str:
    """Returns the formula that selects a part by the step, as a balanced tree, so that it doesn't nest deeply."""
    if not marks:
        return parts[0]
    middle = len(marks) // 2
    early, late = _chosen(parts[: middle + 1], marks[:middle]), _chosen(parts[middle + 1 :], marks[middle + 1 :])
    return f"({early} if step <= {marks[middle]} else {late})"


def _increasing(owner: str, name: str, values: Sequence[int]) -> list[int]:
    counts = [checked_integer(value, f"{owner}: {name}", 1) for value in values]
    if any(late <= early for early, late in pairwise(counts)):
        raise OptionError(f"{owner}: {name} must increase, got {counts}")
    return counts


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
