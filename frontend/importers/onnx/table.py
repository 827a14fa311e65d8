"""The table of ONNX ops: how each is traced, its attributes, and what its inputs are: data, weights, constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NoReturn, TypeAlias

import numpy as np

from tensorgrad.errors import OptionError, ShapeError, TraceError
from tensorgrad.importers.onnx.elements import NumpyArray, dtype_of, numpy_dtype
from tensorgrad.tracing.dtypes import DType
from tensorgrad.tracing.tensor import Array, Tensor, Traced
from tensorgrad.tracing.tracer import as_array

Value: TypeAlias = "NumpyArray | Tensor | list[Any] | None"
"""A value of a graph: a constant as it is in the file, a tensor, a sequence, or an optional one that is absent."""


class Role(Enum):
    """What an op uses an array of the file for; see `tensorgrad.importers.onnx.weights`."""

    CONSTANT = "its numbers decide what is traced"
    STATISTIC = "a running mean or variance"
    WEIGHT = "learned: the weights of a product, a convolution, a normalization, a recurrence"
    TABLE = "learned: rows that are looked up, or an array that a layer takes as its data"
    TERM = "learned if it is an array and no mask: added to floats"
    OFFSET = "learned as a term: subtracted from features, unless the difference is divided, which standardizes it"
    BIAS = "learned, also a single number: added to a product with a single result"
    GAIN = "learned if it is a vector: multiplies features"


Roles: TypeAlias = Mapping[int, Role]
"""The roles of inputs by position; those at -1 are of all inputs."""


@dataclass(frozen=True)
class Rule:
    """How an op is traced.

    Attributes:
        function: Returns the outputs of a node: one value, or a tuple.
        attributes: The supported attributes, each with its allowed values (None for any).
        constants: The positions of inputs whose numbers it needs while tracing, such as shapes and axes; -1 for all.
        roles: What inputs are used for, unless they are mere data or constants.
        carries: The positions of inputs whose elements it passes on: rearranged, selected, converted; -1 for all.
        is_arithmetic: Whether it is arithmetic by which a weight may be computed from other arrays of the file.
    """

    function: Callable[[OnnxNode], Any]
    attributes: Mapping[str, tuple[str, ...] | None]
    constants: tuple[int, ...] = ()
    roles: Roles = field(default_factory=dict[int, Role])
    carries: tuple[int, ...] = ()
    is_arithmetic: bool = False

    def needs_constant(self, position: int) -> bool:
        """Returns whether the numbers of an input must be known."""
        return position in self.constants or -1 in self.constants

    def role(self, position: int) -> Role | None:
        """Returns what an input is used for; None for data."""
        return self.roles.get(position, self.roles.get(-1))

    def carried(self, position: int) -> bool:
        """Returns whether the elements of an input are passed on."""
        return position in self.carries or -1 in self.carries


RULES: dict[tuple[str, str], Rule] = {}
"""The table, by domain and name of the op."""


def rule(
    names: str,
    attributes: str = "",
    constants: tuple[int, ...] = (),
    roles: Roles | None = None,
    carries: tuple[int, ...] = (),
    is_arithmetic: bool = False,
    domain: str = "",
) -> Callable[[Callable[[OnnxNode], Any]], Callable[[OnnxNode], Any]]:
    """Registers a function in the table.

    Args:
        names: The op, or several, with spaces between.
        attributes: Names with spaces between; `mode=linear|nearest` allows only these values.
        constants: See `Rule`.
        roles: See `Rule`.
        carries: See `Rule`.
        is_arithmetic: See `Rule`.
        domain: The domain of the op; the default one unless said otherwise.
    """
    known: dict[str, tuple[str, ...] | None] = {}
    for entry in attributes.split():
        name, _, values = entry.partition("=")
        known[name] = tuple(values.split("|")) if values else None

    def enter(function: Callable[[OnnxNode], Any]) -> Callable[[OnnxNode], Any]:
        for name in names.split():
            assert (domain, name) not in RULES, name
            RULES[domain, name] = Rule(function, known, constants, roles or {}, carries, is_arithmetic)
        return function

    return enter


@dataclass(frozen=True)
class Setting:
    """The settings of a model: its opset, and whether DOUBLE stays f64."""

    version: int
    float64: bool


@dataclass
class OnnxNode:
    """One node while it is traced.

    Attributes:
        op: The op's name.
        name: The node's name, or that of its first output.
        inputs: Its values; None for those left out.
        attributes: Its attributes as Python values.
        outputs: The names of its outputs; empty for unused ones.
        setting: The model's settings.
        run: Traces one of the node's graphs on values for its inputs.
        wide: Whether 64 bits stay 64: where every input is known while tracing, as in the arithmetic of shapes, whose
            numbers go up to 2**63 - 1.
    """

    op: str
    name: str
    inputs: Sequence[Value]
    attributes: Mapping[str, Any]
    outputs: Sequence[str]
    setting: Setting
    run: Callable[[Any, Sequence[Value]], list[Value]]
    wide: bool = False

    @property
    def version(self) -> int:
        """The version of the default opset."""
        return self.setting.version

    def refuse(self, reason: str) -> NoReturn:
        """Raises `OptionError`: the node is unsupported for this reason."""
        raise OptionError(f"{self.op}: {reason}")

    def attribute(self, name: str, default: Any = None) -> Any:
        """Returns the value of an attribute; `default` where it is left out."""
        return self.attributes.get(name, default)

    def has(self, position: int) -> bool:
        """Returns whether an input is given."""
        return position < len(self.inputs) and self.inputs[position] is not None

    def wants(self, position: int) -> bool:
        """Returns whether an output is used."""
        return position < len(self.outputs) and bool(self.outputs[position])

    def value(self, position: int) -> Any:
        """Returns an input unchanged.

        Raises:
            ShapeError: It is left out.
        """
        if not self.has(position):
            raise ShapeError(f"{self.op}: input {position} is missing")
        return self.inputs[position]

    def tensor(self, position: int) -> Tensor:
        """Returns an input as a tensor; 64 bits narrow to 32 unless the node is `wide`, if every integer fits.

        Raises:
            ShapeError: It is left out.
            DTypeError: A constant doesn't fit.
        """
        return self.as_tensor(self.value(position))

    def as_tensor(self, value: Any) -> Tensor:
        """Returns a value as a tensor."""
        if isinstance(value, Tensor):
            return value
        if isinstance(value, list):
            self.refuse("takes a tensor, not a sequence")
        stays = self.wide or (self.setting.float64 and value.dtype == np.float64)
        return Array(as_array(value, value.dtype if stays else None))

    def optional(self, position: int) -> Tensor | None:
        """Returns an input as a tensor, or None where it is left out."""
        return self.tensor(position) if self.has(position) else None

    @property
    def tensors(self) -> list[Tensor]:
        """All inputs."""
        return [self.tensor(position) for position in range(len(self.inputs))]

    def constant(self, position: int) -> NumpyArray:
        """Returns the numbers of an input, which must be known while tracing.

        Raises:
            TraceError: They come from an input of the graph or from parameters.
        """
        value = self.value(position)
        if isinstance(value, (Traced, list)):
            raise TraceError(
                f"{self.op}: input {position} decides what is traced, so it must be a constant of the "
                "graph, or given to tg.onnx.load as one of `constants`"
            )
        return np.asarray(value)

    def integers(self, position: int) -> list[int]:
        """Returns the numbers of an input of integers, which must be known."""
        return [int(number) for number in self.constant(position).reshape(-1)]

    def scalar(self, position: int, default: Any = None) -> Any:
        """Returns the only number of an input, which must be known; `default` where it is left out."""
        return self.constant(position).reshape(-1)[0].item() if self.has(position) else default

    def axes(self, position: int, name: str = "axes") -> list[int] | None:
        """Returns axes, from an input or (in older opsets) an attribute; None if there are none."""
        if self.has(position):
            return self.integers(position)
        listed = self.attribute(name)
        return None if listed is None else [int(axis) for axis in listed]

    def dtype(self, element: int) -> DType:
        """Returns the dtype of tensors of an element type.

        Raises:
            OptionError: There is none.
        """
        try:
            dtype = dtype_of(element, self.setting.float64)
            return numpy_dtype(element) if self.wide else dtype
        except KeyError:
            self.refuse(f"there are no tensors of {element}")
