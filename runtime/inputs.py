"""The validation of what callers pass: arrays by name, trees of them, and numbers for scalars."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, cast

import numpy as np

from tensorgrad.runtime.conversion import converted, kind_of, to_numpy
from tensorgrad.runtime.errors import ArgumentError, FormulaError, InputError
from tensorgrad.runtime.formula import Formula
from tensorgrad.runtime.printable import listed
from tensorgrad.runtime.slots import DTYPES, ScalarSlot, Slot

LARGEST_F32 = float(np.finfo(np.float32).max)


def check_inputs(
    slots: Mapping[str, Slot],
    inputs: Mapping[str, Any],
    *,
    what: str = "input",
    partial: bool = False,
    known: Collection[str] = (),
) -> dict[str, np.ndarray]:
    """Validates values against slots before anything changes, and converts them to the slots' dtypes.

    Integers and bools convert if every value fits, and floats round to narrower floats unless that overflows. Floats
    don't convert to integers, and only bools convert to bool.

    Args:
        slots: The expected arrays, by name.
        inputs: Arrays, numbers, or anything with `__array__` or `__dlpack__`, by name.
        what: The kind of value, for error messages.
        partial: Whether some may be missing.
        known: The names of inputs that were validated before, which are left out.

    Returns:
        The converted arrays, which may share memory with `inputs`.

    Raises:
        InputError: Names are unknown or missing (all are listed), a shape differs, or a value doesn't convert.
    """
    check_named(inputs, what)
    if inputs.keys() != slots.keys():
        unknown = sorted(inputs.keys() - slots.keys())
        missing = [] if partial else sorted(slots.keys() - inputs.keys())
        if unknown or missing:
            raise InputError(_name_error(what, unknown, missing, slots))
    return {
        name: value
        if type(value) is np.ndarray
        and value.shape == (slot := slots[name]).shape
        and value.dtype == DTYPES[slot.dtype]  # needs no conversion, the common case
        else _check_array(slots[name], value, f"{what} {name!r}")
        for name, value in inputs.items()
        if name not in known
    }


def check_named(values: object, what: str) -> None:
    """Checks that values are given by name.

    Args:
        values: What was passed.
        what: The kind of value, for error messages.

    Raises:
        InputError: It is no mapping.
    """
    if not isinstance(values, Mapping):
        raise InputError(f"{what}s must be a dict of arrays by name, got {type(values).__name__}")


def named_inputs(
    what: str, names: Sequence[str], positional: Sequence[Any], inputs: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Returns the inputs of a call by name.

    Args:
        what: What is called, for messages.
        names: The names of those that may be given by position, in order.
        positional: Those given by position.
        inputs: Those given by name.

    Raises:
        ArgumentError: There are more by position than there are names, or one is given twice.
    """
    if not positional:
        return inputs
    if len(positional) > len(names):
        count = f"{len(names)} input{'' if len(names) == 1 else 's'} by position"
        listed_names = ", ".join(f"{name}=..." for name in names)
        raise ArgumentError(f"{what} takes {count}, got {len(positional)}{listed_names and ': ' + listed_names}")
    for name in names[: len(positional)]:
        if name in inputs:
            raise ArgumentError(f"{what} got the input {name!r} by position and by name")
    return {**dict(zip(names, positional, strict=False)), **inputs}


def flat_inputs(inputs: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Returns the inputs of a call by the paths of their leaves, such as `batch.x`.

    Trees are dicts, dataclasses, lists and tuples; but what has the name of an input is one, and may be nested numbers.

    Args:
        inputs: Arrays, or trees of them, by name.
        names: The paths of inputs.

    Raises:
        ArgumentError: Two leaves have the same path.
    """
    flat: dict[str, Any] = {}
    for path, leaf in _leaves(inputs.items(), names):
        if path in flat:
            raise ArgumentError(f"the input {path!r} is given twice")
        flat[path] = leaf
    return flat


def _leaves(nodes: Iterable[tuple[str, Any]], names: Collection[str]) -> Iterator[tuple[str, Any]]:
    """Yields the leaves of trees, with their paths."""
    for path, value in nodes:
        parts = None if path in names else _parts(value)
        if parts is None:
            yield path, value
        else:
            yield from _leaves(((f"{path}.{name}", part) for name, part in parts), names)


def _parts(value: Any) -> Iterable[tuple[str, Any]] | None:
    """Returns the children of a node of a tree with their names, or None for a leaf."""
    if isinstance(value, Mapping):
        return [(str(name), part) for name, part in value.items()]
    if isinstance(value, list | tuple):
        return zip(getattr(value, "_fields", map(str, range(len(value)))), value, strict=True)
    if is_dataclass(value) and not isinstance(value, type):
        return [(part.name, getattr(value, part.name)) for part in fields(value) if part.init]
    return () if value is None else None


class ScalarInputs:
    """Computes a program's scalars from the values that the caller passes by name."""

    def __init__(self, slots: Sequence[ScalarSlot]):
        """Parses the formulas.

        Raises:
            FormulaError: A formula is malformed.
        """
        self._slots = {slot.name: slot for slot in slots}
        self._formulas = {slot.name: Formula(slot.formula) for slot in slots if slot.formula is not None}
        self._used_by: dict[str, list[str]] = {}
        for name in self._slots:
            for used in self._formulas[name].names if name in self._formulas else (name,):
                self._used_by.setdefault(used, []).append(name)
        self._last: tuple[dict[str, float], dict[str, float], dict[str, np.ndarray]] = {}, {}, {}
        """What the caller passed last, the same as numbers, and the values; replaced as one."""
        self._affected: dict[tuple[str, ...], Sequence[tuple[ScalarSlot, Formula | None]]] = {}
        inputs = self._slots.keys() - self._formulas.keys()
        self.names: frozenset[str] = frozenset(inputs).union(*(f.names for f in self._formulas.values()))
        """The names that the caller has to pass."""

    def evaluate(self, scalars: Mapping[str, float]) -> Mapping[str, np.ndarray]:
        """Returns the value of every scalar, in its dtype.

        A value is recomputed only if one that it depends on has changed; otherwise the same array is returned again.

        Raises:
            InputError: Names are unknown or missing, or a value is not a number that fits the dtype.
        """
        if scalars.keys() != self.names:
            unknown, missing = sorted(scalars.keys() - self.names), sorted(self.names - scalars.keys())
            raise InputError(_name_error("scalar", unknown, missing, self.names))
        # Most settings are the same object in every step, and Python numbers are immutable.
        inputs, numbers, values = self._last
        changed = [
            name
            for name, scalar in scalars.items()
            if inputs.get(name) is not scalar or type(scalar) not in (float, int)
        ]
        if changed or len(values) < len(self._slots):
            affected = self._computed_from(tuple(changed), bool(values))
            numbers, values = dict(numbers), dict(values)
            for name in changed:
                numbers[name] = _check_number(name, scalars[name])
            for slot, formula in affected:
                values[slot.name] = _scalar_value(slot, formula, numbers)
            self._last = dict(scalars), numbers, values
        return values

    def _computed_from(self, changed: tuple[str, ...], has_values: bool) -> Sequence[tuple[ScalarSlot, Formula | None]]:
        """Returns the scalars to recompute when these numbers have changed, with their formulas."""
        if not has_values:
            return [(slot, self._formulas.get(name)) for name, slot in self._slots.items()]
        results = self._affected.get(changed)
        if results is None:  # usually the same ones change in every step
            names = dict.fromkeys(dependent for name in changed for dependent in self._used_by[name])
            results = self._affected[changed] = [(self._slots[name], self._formulas.get(name)) for name in names]
        return results


def _scalar_value(slot: ScalarSlot, formula: Formula | None, numbers: Mapping[str, float]) -> np.ndarray:
    """Returns the value of a scalar, in its dtype.

    Raises:
        InputError: The formula has no value, or the value doesn't fit the dtype.
    """
    if formula is None:
        value = numbers[slot.name]
    else:
        try:
            value = formula.evaluate(numbers)
        except FormulaError as error:
            raise InputError(f"scalar {slot.name!r}: {error}") from error
    if slot.dtype == "f32" and abs(value) <= LARGEST_F32:
        return np.array(value, np.float32)  # equivalent to what follows, ten times faster
    if kind_of(DTYPES[slot.dtype]) != "f" and value.is_integer():
        return _check_array(slot, int(value), f"scalar {slot.name!r}")
    return _check_array(slot, value, f"scalar {slot.name!r}")


def is_timeout(value: object) -> bool:
    """Returns whether a value is a valid timeout: a positive, finite number of seconds."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf


def _check_number(name: str, value: object) -> float:
    if type(value) is float and math.isfinite(value):
        return value
    number: float | None = None
    try:
        if not isinstance(value, (str, bytes)):
            number = float(cast(Any, value))
    except (TypeError, ValueError, OverflowError):
        pass
    if number is not None and math.isfinite(number):
        return number
    if number is not None:
        raise InputError(f"scalar {name!r} must be finite, got {value!r}")
    raise InputError(f"scalar {name!r} must be a number, got {value!r}")


def _name_error(what: str, unknown: Sequence[str], missing: Sequence[str], known: Iterable[str]) -> str:
    parts = [
        f"{kind} {what}{'s' if len(names) > 1 else ''} {listed([*map(repr, names)])}"
        for kind, names in (("unknown", unknown), ("missing", missing))
        if names
    ]
    return f"{'; '.join(parts)} (expected: {listed(sorted(known)) or 'none'})"


def _check_array(slot: Slot, value: Any, where: str) -> np.ndarray:
    array = to_numpy(value, where)
    if array.shape != slot.shape:
        raise InputError(f"{where} has shape {array.shape}, expected {slot.shape}")
    expected = DTYPES[slot.dtype]
    if kind_of(array.dtype) not in ACCEPTED_KINDS[kind_of(expected)]:
        raise InputError(f"{where} is {array.dtype}, which does not convert to {slot.dtype}")
    return converted(array, expected, slot.dtype, where)


ACCEPTED_KINDS = {"f": "fiub", "i": "iub", "u": "iub", "b": "b"}
"""For each numpy kind of device dtype, the numpy kinds that convert to it."""
