"""Recipes: schedules as short lists of transformations with their numbers, and the attribute that holds one.

A step is a type here, and a transformation of tiles in `passes/codegen/transforms`. What a recipe can say is what the
transformations can do, and each leaves IR that can be read, verified and run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, TypeAlias, cast

from xdsl.ir import Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.str_enum import StrEnum

from tensorgrad.dialects.settings import Flag, LoopOrLast, Loops, Natural, Positive, Positives, settings_of


class Processor(StrEnum):
    """Who runs the iterations of a loop."""

    TASK = "task"
    """Tasks of native code, each on one thread."""
    WORKGROUP_X = "workgroup_x"
    WORKGROUP_Y = "workgroup_y"
    WORKGROUP_Z = "workgroup_z"
    LANE = "lane"
    """The invocations of a workgroup."""
    VECTOR = "vector"
    """The elements of a vector."""
    UNROLL = "unroll"
    """One after another, with the code of each written out."""
    SEQUENTIAL = "sequential"
    """One after another, by whoever runs the code around the loop."""

    @property
    def is_workgroup(self) -> bool:
        """Whether these are workgroups, in one dimension of a dispatch."""
        return self in (Processor.WORKGROUP_X, Processor.WORKGROUP_Y, Processor.WORKGROUP_Z)


Value: TypeAlias = "int | tuple[int, ...] | tuple[Processor, ...]"


@dataclass(frozen=True)
class Step:
    """A step of a recipe; the fields are its settings, in the order of their printed form."""

    name: ClassVar[str]

    def check(self) -> None:
        """Checks what the settings have to do with each other.

        Raises:
            ValueError: They can't be right for any kernel.
        """

    def __str__(self) -> str:
        settings = ", ".join(f"{name} = {_text(value)}" for name, value in changed_settings(self).items())
        return f"{self.name}({settings})" if settings else self.name


@dataclass(frozen=True)
class Collapse(Step):
    """Makes one loop over all points of the grid, in row-major order, of the loops that have no processor yet."""

    name = "collapse"


@dataclass(frozen=True)
class Sides(Step):
    """Makes three loops of those that have no processor yet: over the rest, the rows and the columns of a product.

    Attributes:
        row: The loops that make the rows; without any, there is one row.
        column: The loops that make the columns.
    """

    name = "sides"

    row: Loops = ()
    column: Loops = ()


@dataclass(frozen=True)
class Tile(Step):
    """Divides the loops that have no processor yet into tiles; the last tile of a loop may be smaller.

    Attributes:
        sizes: The extent of a tile along each loop.
        to: The processors of the loops over tiles; without them, these have none yet. The loops over the points of a
            tile have none yet. A loop of one point vanishes.
        apart: How far apart the points of a tile are along each loop; by default 1, they are neighbours. Otherwise
            the loop has at most as many tiles, which lie between each other's points.
        peel: 1 if the last tiles, where they are smaller, have loops of their own, behind those of whole tiles.
    """

    name = "tile"

    sizes: Positives
    to: tuple[Processor, ...] = ()
    apart: Positives = ()
    peel: Flag = 0


@dataclass(frozen=True)
class Map(Step):
    """Gives the outermost loops that have no processor yet to processors.

    Attributes:
        to: The processor of each loop.
    """

    name = "map"

    to: tuple[Processor, ...]


@dataclass(frozen=True)
class UnrollJam(Step):
    """Unrolls the loops that have no processor yet, and jams them: each stage computes all points before the next.

    Loops in order, such as those of `step_reduction`, go around the points. Local registers hold one value for each.
    """

    name = "unroll_jam"


@dataclass(frozen=True)
class SplitLoops(Step):
    """Divides the loops that stages without a reduction have of their own, where each step computes several elements.

    The innermost loop is divided; if lanes share it, all loops as one, of which a lane takes adjacent elements. The
    step comes before `split_reduction`, whose folds are such stages too.

    Attributes:
        lanes: The number of lanes that share the loops; 1 if they are not shared.
        terms: The number of adjacent elements of a step. Those that are left over are computed in fours or one by one.
    """

    name = "split_loops"

    lanes: Positive = 1
    terms: Positive = 1


@dataclass(frozen=True)
class SplitReduction(Step):
    """Divides reductions into parts that are folded by halves at the end: sums of lanes, and sums in registers.

    Attributes:
        lanes: The number of lanes that share a reduction, a power of two; 1 if it is not shared.
        terms: The number of adjacent terms of a step. Those that are left over are folded in fours or one by one.
        sums: The most independent accumulators of a lane, of which term `i` of a step goes to number `i mod sums`.
            Products of floats have one, and their order.
    """

    name = "split_reduction"

    lanes: Positive = 1
    terms: Positive = 1
    sums: Positive = 1

    def check(self) -> None:
        if self.lanes & (self.lanes - 1):
            raise ValueError(f"lanes reduce by halves, so their number must be a power of two, got {self.lanes}")
        if self.sums & (self.sums - 1):
            raise ValueError(f"accumulators are folded by halves: their number must be a power of two, got {self.sums}")


@dataclass(frozen=True)
class StepReduction(Step):
    """Writes reductions as a loop in order, whose iterations add a few terms each.

    Attributes:
        inner: The loop of the reduction that runs innermost; the last one by default.
        terms: The number of terms of an iteration, which divides the extent of that loop.
    """

    name = "step_reduction"

    inner: LoopOrLast = -1
    terms: Positive = 1


@dataclass(frozen=True)
class Interchange(Step):
    """Moves the loops that have no processor yet into a loop over the parts of a product's reduction.

    There are three of them then: one starts the sums, one in the loop adds a part, and one does what follows.

    Attributes:
        terms: The number of terms of a part.
    """

    name = "interchange"

    terms: Positive


@dataclass(frozen=True)
class Stage(Step):
    """Copies what the terms of a product take from its rows, or its columns, alone to memory that is read instead.

    That is what its body computes of them, such as an activation. It comes after `interchange` or `step_reduction`.

    Attributes:
        along: The loops that have no processor yet, over rows and columns, whose values are copied; all by default.
        lanes: The number of lanes that share the copying, to the memory of their workgroup; 1 in a task.
        padding: The number of elements between the copies of two terms, so that they lie in other banks.
    """

    name = "stage"

    along: Loops = ()
    lanes: Positive = 1
    padding: Natural = 0


@dataclass(frozen=True)
class Attend(Step):
    """Writes an attention, or a part of its derivative, as a loop over blocks of rows that go through tiles of columns.

    Rows are queries and columns keys; for the cotangents of keys and values it is the other way round.

    Attributes:
        rows: The most rows of a block, none of which crosses the end of a head with a causal mask.
        columns: The most columns of a tile.
        blocks: The number of blocks of a task, in whose scratch memory each of them lies.
    """

    name = "attend"

    rows: Positive
    columns: Positive
    blocks: Positive = 1


@dataclass(frozen=True)
class Vectorize(Step):
    """Runs the innermost loops of stages that read or write adjacent floats as vectors, as wide as those of the device.

    What is left over of a loop is in smaller ones.
    """

    name = "vectorize"


@dataclass(frozen=True)
class Synchronize(Step):
    """Places barriers where lanes read or overwrite what other lanes have written or read since the last one."""

    name = "synchronize"


STEPS: dict[str, type[Step]] = {
    kind.name: kind
    for kind in (
        Collapse,
        Sides,
        Tile,
        Map,
        UnrollJam,
        SplitLoops,
        SplitReduction,
        StepReduction,
        Interchange,
        Stage,
        Attend,
        Vectorize,
        Synchronize,
    )
}
"""The type of each step."""


def changed_settings(step: Step) -> dict[str, Value]:
    """Returns the settings of a step that differ from their defaults."""
    values = {name: (getattr(step, name), setting.default) for name, setting in settings_of(type(step)).items()}
    return {name: value for name, (value, default) in values.items() if value != default}


def step_of(name: str, settings: Mapping[str, Value]) -> Step:
    """Returns the step with a name and these settings; those that are missing get their defaults.

    Raises:
        ValueError: There is no such step or setting, a setting is missing, or its value can't be right for any kernel.
    """
    kind = STEPS.get(name)
    if kind is None:
        raise ValueError(f"a recipe has no step {name}; its steps are {', '.join(STEPS)}")
    known = settings_of(kind)
    for setting in settings:
        if setting not in known:
            its = f"its settings are {', '.join(known)}" if known else "it has none"
            raise ValueError(f"the step {name} has no setting {setting}; {its}")
    for setting, field in known.items():
        if field.is_required and setting not in settings:
            raise ValueError(f"the step {name} needs {setting}")
    step = kind(**{key: known[key].checked(value, f"the {key} of {name}") for key, value in settings.items()})
    step.check()
    return step


def _text(value: Value) -> str:
    return f"[{', '.join(map(str, value))}]" if isinstance(value, tuple) else str(value)


Recipe: TypeAlias = tuple[Step, ...]


@irdl_attr_definition
class RecipeAttr(Data[Recipe]):
    """The steps that turn a kernel into tiles, in order.

    Example:
        #buf.recipe<collapse, tile(sizes = [64], to = [workgroup_x]), map(to = [lane])>
    """

    name = "buf.recipe"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Recipe:
        return tuple(parser.parse_comma_separated_list(parser.Delimiter.ANGLE, lambda: _parse_step(parser)))

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(", ".join(map(str, self.data)))


def _parse_step(parser: AttrParser) -> Step:
    name = parser.parse_identifier("a step")
    settings: dict[str, Value] = {}

    def setting() -> None:
        key = parser.parse_identifier("a setting")
        if key in settings:
            parser.raise_error(f"the {key} of {name} is given twice")
        parser.parse_punctuation("=")
        settings[key] = _parse_value(parser)

    parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, setting)
    try:
        return step_of(name, settings)
    except ValueError as error:
        parser.raise_error(str(error))


def _parse_value(parser: AttrParser) -> Value:
    """Parses a number, or a list of numbers or of processors."""
    number = parser.parse_optional_integer(allow_boolean=False)
    if number is not None:
        return number

    def element() -> int | Processor:
        number = parser.parse_optional_integer(allow_boolean=False)
        return parser.parse_str_enum(Processor) if number is None else number

    return cast("Value", tuple(parser.parse_comma_separated_list(parser.Delimiter.SQUARE, element)))
