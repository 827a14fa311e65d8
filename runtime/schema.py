"""Reads, writes and checks JSON by the annotations of dataclasses: a field's type says which values it may have.

    @dataclass(frozen=True)
    class Range:
        offset: Whole
        access: Annotated[str, one_of("read", "read_write")] = "read"

`read(Range, {"offset": 4})` returns `Range(4)`, `write` returns its JSON, and `check(Range(-1), ProgramError)` raises.
Tuples and sets are lists in JSON, mappings and dataclasses are objects; unions with `None` may also be null.
"""

from __future__ import annotations

import dataclasses
import reprlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, reduce
from types import NoneType, UnionType
from typing import Annotated, Any, NamedTuple, TypeAlias, TypeVar, Union, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")
NAMES = ("name", "entry", "label")
"""The fields that name an object in error messages."""


class SchemaError(ValueError):
    """A value that its schema refuses: what is wrong, and the place in what was read; empty if that is all of it."""

    def __init__(self, text: str, place: str = ""):
        super().__init__(f"{place}: {text}" if place else text)
        self.text, self.place = text, place


@dataclass(frozen=True)
class Rule:
    """What values of a type are `expected`; `accepts` tells, or raises a `ValueError` that says more."""

    expected: str
    accepts: Callable[[Any], object]

    def read(self, value: Any) -> Any:
        """Returns the value if the rule accepts it."""
        try:
            is_accepted = self.accepts(value)
        except ValueError as error:
            raise SchemaError(str(error)) from error
        if not is_accepted:
            raise SchemaError(f"expected {self.expected}, got {reprlib.repr(value)}")
        return value


def one_of(*choices: str | int) -> Rule:
    """Returns the rule that a text or an integer is one of a few."""
    *most, last = map(str, choices)
    return Rule(f"{', '.join(most)} or {last}" if most else last, choices.__contains__)


Name: TypeAlias = Annotated[str, Rule("a text that is not empty", bool)]
Whole: TypeAlias = Annotated[int, Rule("an integer from 0", lambda value: value >= 0)]
Positive: TypeAlias = Annotated[int, Rule("a positive integer", lambda value: value > 0)]
Finite: TypeAlias = Annotated[float, Rule("a finite number", lambda value: abs(value) <= sys.float_info.max)]

LEAVES: dict[object, Rule] = {
    Any: Rule("anything", lambda value: True),
    NoneType: Rule("null", lambda value: value is None),
    bool: Rule("true or false", lambda value: isinstance(value, bool)),
    dict: Rule("an object", lambda value: isinstance(value, dict)),
    float: Rule("a number", lambda value: isinstance(value, int | float) and not isinstance(value, bool)),
    int: Rule("an integer", lambda value: type(value) is int),
    str: Rule("a text", lambda value: isinstance(value, str)),
}
"""The types whose values are their own JSON."""
LIST = Rule("a list", lambda value: isinstance(value, list | tuple | frozenset))
OBJECT = Rule("an object", lambda value: isinstance(value, Mapping))


class Schema(NamedTuple):
    """A function that returns a value from its untrusted JSON, or from itself, and one that returns its JSON."""

    read: Callable[[Any], Any]
    write: Callable[[Any], Any] = lambda value: value


BESIDE = Schema(lambda value: value, lambda value: None)
"""The schema of what a file stores beside its JSON, where it is null; the reader puts it in place."""


def _rule(annotation: Any) -> Rule | None:
    """Returns the rule of values that are their own JSON; `None` if they aren't."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated and isinstance(arguments[1], Rule):
        kind, rule = LEAVES[arguments[0]], arguments[1]
        return Rule(rule.expected, lambda value: kind.accepts(value) and rule.accepts(value))
    if origin not in (Union, UnionType):
        return LEAVES.get(origin or annotation)
    rules = [rule for rule in map(_rule, arguments) if rule is not None]
    return reduce(_either, rules) if len(rules) == len(arguments) else None


def _either(rule: Rule, other: Rule) -> Rule:
    expected = f"{rule.expected} or {other.expected}"
    return Rule(expected, lambda value: rule.accepts(value) or other.accepts(value))


def _part(schema: Schema, value: Any, key: int | str) -> Any:
    """Reads a part of a list or an object."""
    try:
        return schema.read(value)
    except SchemaError as error:
        place = f"[{key}]{_name(value)}" if isinstance(key, int) else key
        comma = "" if error.place[:1] in ("", "[") else ", "
        raise SchemaError(error.text, f"{place}{comma}{error.place}") from None


def _name(value: Any) -> str:
    fields = value if isinstance(value, dict) else getattr(value, "__dict__", {})
    return next((f" ({reprlib.repr(fields[key])})" for key in NAMES if isinstance(fields.get(key), str)), "")


def _sequence(kind: type[Any], entry: Schema, length: int | None = None) -> Schema:
    def read(value: Any) -> Any:
        if length not in (None, len(LIST.read(value))):
            raise SchemaError(f"expected {length} entries, got {reprlib.repr(value)}")
        return kind([_part(entry, part, index) for index, part in enumerate(value)])

    return Schema(read, lambda value: [entry.write(part) for part in (value if kind is tuple else sorted(value))])


def _mapping(entry: Schema) -> Schema:
    return Schema(
        lambda value: {LEAVES[str].read(key): _part(entry, part, key) for key, part in OBJECT.read(value).items()},
        lambda value: {key: entry.write(part) for key, part in value.items()},
    )


def _record(kind: type[Any]) -> Schema:
    required = {
        field.name
        for field in dataclasses.fields(kind)
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    }

    @cache
    def fields() -> dict[str, Schema]:
        hints = get_type_hints(kind, include_extras=True)
        return {field.name: schema_of(hints[field.name]) for field in dataclasses.fields(kind)}

    def read(value: Any) -> Any:
        values = vars(value) if isinstance(value, kind) else OBJECT.read(value)
        known = {name: _part(schema, values[name], name) for name, schema in fields().items() if name in values}
        if isinstance(value, kind):
            return value
        for what, names in (("unknown", values.keys() - known.keys()), ("missing", required - known.keys())):
            if names:
                raise SchemaError(f"{what} field {reprlib.repr(min(names))}")
        try:
            return kind(**known)
        except (TypeError, ValueError) as error:  # the class refuses the values
            raise SchemaError(str(error)) from error

    return Schema(read, lambda value: {name: schema.write(getattr(value, name)) for name, schema in fields().items()})


def tagged(tag: str, **kinds: type[Any]) -> Schema:
    """Returns the schema of several dataclasses, which a field of the JSON tells apart."""
    tags, choice = {kind: name for name, kind in kinds.items()}, Schema(one_of(*kinds).read)

    def read(value: Any) -> Any:
        if type(value) in tags:
            return schema_of(type(value)).read(value)
        kind = kinds[_part(choice, OBJECT.read(value).get(tag), tag)]
        return schema_of(kind).read({key: part for key, part in value.items() if key != tag})

    return Schema(read, lambda value: {tag: tags[type(value)], **schema_of(type(value)).write(value)})


@cache
def schema_of(annotation: Any) -> Schema:
    """Returns the schema of a dataclass, or of a field's annotation."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if (rule := _rule(annotation)) is not None:
        return Schema(rule.read)
    if dataclasses.is_dataclass(annotation):
        return _record(cast("type[Any]", annotation))
    if origin is Annotated:
        return arguments[1]
    if origin is tuple:
        return _sequence(tuple, schema_of(arguments[0]), None if ... in arguments else len(arguments))
    if origin is frozenset:
        return _sequence(frozenset, schema_of(arguments[0]))
    if origin is Mapping:
        return _mapping(schema_of(arguments[1]))
    if origin in (Union, UnionType) and arguments[1:] == (NoneType,):
        present = schema_of(arguments[0])
        return Schema(*(lambda value, step=step: None if value is None else step(value) for step in present))
    raise TypeError(f"{annotation} has no JSON")


def read(kind: type[T], value: object) -> T:
    """Returns an object of a dataclass from its untrusted JSON.

    Raises:
        SchemaError: It is none; says what is wrong and where.
    """
    return schema_of(kind).read(value)


def write(value: object) -> dict[str, Any]:
    """Returns the JSON of a dataclass's object, which `read` reads."""
    return schema_of(type(value)).write(value)


def check(value: object, malformed: Callable[[SchemaError], Exception]) -> None:
    """Checks a dataclass's object, and all its parts.

    Raises:
        Exception: A field has a value that its annotation refuses; `malformed` of the error that says which.
    """
    try:
        read(type(value), value)
    except SchemaError as error:
        raise malformed(error) from None
