"""Random programs as source code: lines drawn from templates, each tried before it is kept.

After torchfuzz, which ships with PyTorch: operands are earlier values, so that views, updates, indices, reductions and
layers meet in every order. The text of a program is what runs, and runs alone from a file.
"""

from __future__ import annotations

import linecache
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch_comparison import others_warnings

MOST_ELEMENTS, MOST_LINES, MOST_RANK, MOST_EXTENT = 1024, 12, 4, 6
"""The limits of each tensor and of each program."""

MOST, TRIES = 1e4, 500
"""The limit of each element, and how many templates are tried for a program."""

FLOATS, INTEGERS, BOOLEANS = ("float32", "float64"), ("int32", "int64"), ("bool",)


@dataclass(frozen=True)
class Language:
    """What programs are written in.

    Attributes:
        prelude: The lines before a program.
        templates: Expressions of earlier values: `x`, `y`, `z`: floats; `k`: integers; `m`: booleans; `d`, `e`: axes of
            `x`; `s`, `p`: a shape of as many elements as `x` and a permutation of its axes; `n`: 1 to 3; `c`: a float;
            `flag`: a boolean.
    """

    prelude: str
    templates: Sequence[str]

    def program(self, draw: random.Random, inputs: Mapping[str, Any]) -> str:
        """Returns the text of a function `program` of some inputs, of which its lines are tried on these."""
        values = dict(inputs)
        lines, used = self._lines(draw, values)
        results = [name for name in values if name not in used and name not in inputs] or ["x0"]
        body = "".join(f"    {line}\n" for line in [*lines, f"return {', '.join(results)}"])
        return f"{self.prelude}\ndef program({', '.join(inputs)}):\n{body}"

    def _lines(self, draw: random.Random, values: dict[str, Any]) -> tuple[list[str], set[str]]:
        """Returns a program's lines and what they use, and enters what they compute among the values."""
        lines: list[str] = []
        used: set[str] = set()
        scope: dict[str, Any] = {}
        exec(self.prelude, scope)
        for _ in range(TRIES):
            if len(lines) == MOST_LINES:
                break
            fields = Fields(draw, values)
            try:
                with others_warnings():
                    expression = draw.choice(self.templates).format_map(fields)
                    value = eval(expression, scope | values)
            except (LookupError, RuntimeError, ValueError, TypeError, ArithmeticError, AssertionError):
                continue  # It is refused for these operands, as most templates fit only some shapes and dtypes.
            if _is_wanted(value):
                name = f"v{len(lines)}"
                lines.append(f"{name} = {expression}")
                used |= {operand for operand in fields.values() if operand in values}
                values[name] = value
        return lines, used


class Fields(Mapping[str, str]):
    """The fields of a template, each drawn when it is first used."""

    def __init__(self, draw: random.Random, values: Mapping[str, Any]):
        self._draw, self._values = draw, values
        self._drawn: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        if name not in self._drawn:
            self._drawn[name] = self._field(name)
        return self._drawn[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._drawn)

    def __len__(self) -> int:
        return len(self._drawn)

    def _field(self, name: str) -> str:
        draw = self._draw
        if name in "xyz":
            return self._operand(FLOATS)
        if name == "k":
            return self._operand(INTEGERS)
        if name == "m":
            return self._operand(BOOLEANS) if draw.random() < 0.5 else f"({self['x']} > {self['c']})"
        if name in "nc":
            return str(draw.randint(1, 3)) if name == "n" else str(draw.choice((-0.5, 0.25, 0.5, 1.5, 2.0)))
        if name == "flag":
            return str(draw.random() < 0.5)
        shape = self._values[self["x"]].shape
        if name in "de":
            return str(draw.randrange(max(1, len(shape))) - draw.choice((0, len(shape))))
        if name == "p":
            return str(draw.sample(range(len(shape)), len(shape)))
        sizes = [size for size in range(1, MOST_EXTENT + 1) if math.prod(shape) % size == 0]
        return str((draw.choice(sizes), -1))

    def _operand(self, dtypes: Sequence[str]) -> str:
        names = [name for name, value in self._values.items() if dtype_of(value) in dtypes]
        if not names:
            raise LookupError
        # Late values are likelier, so that programs are deep.
        return names[max(self._draw.randrange(len(names)) for _ in range(2))]


def dtype_of(value: Any) -> str:
    """Returns the name of a dtype, of PyTorch's too."""
    return str(value.dtype).removeprefix("torch.")


def _is_wanted(value: Any) -> bool:
    """Returns whether a value is small and moderate enough to go on with."""
    if not 0 < math.prod(value.shape) <= MOST_ELEMENTS or len(value.shape) > MOST_RANK:
        return False
    return dtype_of(value) == "bool" or bool((abs(value) < MOST).all())


def shape(draw: random.Random) -> tuple[int, ...]:
    """Returns a random shape."""
    return tuple(draw.randint(1, MOST_EXTENT) for _ in range(draw.randint(0, MOST_RANK)))


def function(text: str, name: str) -> Callable[..., Any]:
    """Returns the function `program` of a text, which has lines in messages under a name."""
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    scope: dict[str, Any] = {}
    exec(compile(text, name, "exec"), scope)
    return scope["program"]
