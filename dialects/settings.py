"""The settings of schedules, and of the steps of recipes: dataclass fields whose types say which numbers they take.

The parsers check what they read against them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import lru_cache
from typing import Annotated, Any, TypeAlias, cast, get_args, get_origin, get_type_hints


@dataclass(frozen=True)
class Bounds:
    """The numbers that a setting takes; of a list, each."""

    least: int
    most: int = (1 << 31) - 1


Positive: TypeAlias = Annotated[int, Bounds(1)]
Natural: TypeAlias = Annotated[int, Bounds(0)]
Flag: TypeAlias = Annotated[int, Bounds(0, 1)]
LoopOrLast: TypeAlias = Annotated[int, Bounds(-1)]
"""The number of a loop; -1 for the last one."""

Positives: TypeAlias = Annotated[tuple[int, ...], Bounds(1)]
Loops: TypeAlias = Annotated[tuple[int, ...], Bounds(0)]
"""The numbers of loops."""

Extents: TypeAlias = Annotated[tuple[int, int, int], Bounds(1)]


@dataclass(frozen=True)
class Setting:
    """A field of a schedule or a step.

    Attributes:
        name: Its name.
        default: Its default; `MISSING` if it has to be given.
        element: The type of its value, or of each element of a list.
        bounds: The numbers that it takes; `None` if it takes none.
        is_list: Whether its value is a list.
        count: The number of elements of the list; `None` for any.
    """

    name: str
    default: object
    element: type
    bounds: Bounds | None
    is_list: bool
    count: int | None

    @property
    def is_required(self) -> bool:
        """Whether it has no default."""
        return self.default is MISSING

    def checked(self, value: object, what: str) -> Any:
        """Returns a value of the setting, a list as a tuple.

        Args:
            value: The value.
            what: The setting in error messages.

        Raises:
            ValueError: It is malformed, or a number is out of bounds.
        """
        if not self.is_list:
            if not self._is_within(value):
                raise ValueError(f"{what} must be {self._taken(1)}, got {value}")
            return value
        elements = tuple(cast("Sequence[object]", value)) if isinstance(value, list | tuple) else ()
        if not isinstance(value, list | tuple) or not all(map(self._is_within, elements)):
            shown = f"[{', '.join(map(str, elements))}]" if elements else f"{value}"
            raise ValueError(f"{what} must be a list of {self._taken(2)}, got {shown}")
        if self.count is not None and len(elements) != self.count:
            raise ValueError(f"{what} must be a list of {self.count} {self._taken(2)}, got {list(elements)}")
        return elements

    def _is_within(self, value: object) -> bool:
        if self.bounds is None:
            return isinstance(value, self.element)
        if not isinstance(value, int) or isinstance(value, bool):
            return False
        return self.bounds.least <= value <= self.bounds.most

    def _taken(self, count: int) -> str:
        if self.bounds is None:
            return self.element.__name__.lower() + "s"
        if self.bounds == Bounds(0, 1):
            return "0 or 1"
        return f"{'an integer' if count == 1 else 'integers'} of 32 bits of at least {self.bounds.least}"


@lru_cache
def settings_of(kind: type[Any]) -> Mapping[str, Setting]:
    """Returns the settings of a dataclass by name, in the order of its fields."""
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: _setting(field.name, field.default, hints[field.name]) for field in fields(kind)}


def _setting(name: str, default: object, hint: Any) -> Setting:
    bounds = next((part for part in get_args(hint) if isinstance(part, Bounds)), None)
    plain = get_args(hint)[0] if bounds is not None else hint
    if get_origin(plain) is not tuple:
        return Setting(name, default, plain, bounds, False, None)
    element, *others = get_args(plain)
    return Setting(name, default, element, bounds, True, None if others == [...] else 1 + len(others))
