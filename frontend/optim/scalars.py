"""Host scalars: hyper-parameters, the step, and arithmetic on them, which the host computes.

Update functions receive the step and their hyper-parameters as host scalars. Arithmetic of host scalars with numbers
and with each other stays on the host: `learning_rate / (1 - beta1 ** step)` is one scalar of the program, computed in
float64 at each step, so that powers of the step are exact and a new value doesn't need a new program. In an operation
with a tensor, a host scalar is a tensor without axes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from xdsl.ir import Attribute, SSAValue

from tensorgrad.dialects.signature import Role, Slot
from tensorgrad.dialects.tg.base import numpy_dtype, tensor
from tensorgrad.errors import OptionError, TraceError
from tensorgrad.tracing.dtypes import NAMES, DType
from tensorgrad.tracing.tensor import Tensor, Traced
from tensorgrad.tracing.tracer import Trace, new_argument

Number: TypeAlias = "float | HostScalar"

NORM = "norm"
"""The name of the global norm of the gradients in update functions."""
CHOICE, COMPARISON, SUM, PRODUCT, SIGN, POWER, ATOM = range(7)
"""The precedence of the parts of a formula, in Python's order."""


class Scalars:
    """The host scalars that a trace reads: arguments that are added on first use.

    Attributes:
        trace: The trace of an update function.
        element: Their element type: that of the parameter's state.
        slots: The slots of the arguments, with the formulas that the host computes.
    """

    def __init__(self, trace: Trace, element: Attribute):
        self.trace = trace
        self.element = element
        self.slots: list[Slot] = []
        self._values: dict[str, SSAValue] = {}

    def value(self, formula: str) -> SSAValue:
        """Returns the argument for a formula."""
        if formula not in self._values:
            self._values[formula] = self.argument(Slot(formula, Role.SCALAR, formula))
        return self._values[formula]

    def argument(self, slot: Slot) -> SSAValue:
        """Returns a new argument without axes."""
        self.slots.append(slot)
        return new_argument(self.trace, tensor((), self.element)).value

    def named(self, name: str) -> HostScalar:
        """Returns the host scalar of a name."""
        return HostScalar(name, ATOM, self)


class HostScalar(Traced):
    """A number that the host computes at each step.

    Attributes:
        formula: The formula that computes it.
    """

    __slots__ = ("_binding", "_scalars", "formula")

    def __init__(self, formula: str, binding: int, scalars: Scalars):
        self.formula = formula
        self._binding = binding
        self._scalars = scalars
        self._trace = scalars.trace

    @property
    def value(self) -> SSAValue:
        """The argument in the IR; for a comparison, whether it is nonzero."""
        value = self._scalars.value(self.formula)
        if self._binding != COMPARISON:
            return value
        builder = self.trace.builder
        return builder.compare("ne", value, builder.full_like(value, 0.0))

    @property
    def shape(self) -> tuple[int, ...]:
        """No axes."""
        return ()

    @property
    def dtype(self) -> DType:
        """The dtype of the parameter's state; bool for a comparison."""
        return NAMES["bool"] if self._binding == COMPARISON else numpy_dtype(self._scalars.element)

    def __repr__(self) -> str:
        return f"HostScalar({self.formula})"

    def __bool__(self) -> bool:
        """Returns True: a setting that is 0 for all parameters at `tg.compile` is a Python number instead.

        Raises:
            TraceError: It is a comparison, whose outcome differs from step to step.
        """
        if self._binding > COMPARISON:
            return True
        raise TraceError(f"{self.formula} is computed anew for each step: choose by condition.select(a, b), not by if")

    def _inside(self, binding: int) -> str:
        return self.formula if self._binding >= binding else f"({self.formula})"

    def _joined(self, other: Any, symbol: str, binding: int, swapped: bool = False) -> Any:
        """Returns an operator applied to this and another number; `NotImplemented` unless that is a host number."""
        if not isinstance(other, HostScalar) and not (isinstance(other, int | float) and not isinstance(other, bool)):
            return NotImplemented
        left, right = self, _hosted(other, self._scalars)
        if swapped:
            left, right = right, left
        tighter = binding + 1
        inside = (tighter, binding) if symbol == "**" else (max(binding, SUM), tighter)
        text = f"{left._inside(inside[0])} {symbol} {right._inside(inside[1])}"
        return HostScalar(text, binding, self._scalars)

    def _called(self, function: str, *others: Number) -> HostScalar:
        arguments = [self.formula, *(_hosted(other, self._scalars).formula for other in others)]
        return HostScalar(f"{function}({', '.join(arguments)})", ATOM, self._scalars)

    def __neg__(self) -> HostScalar:
        return HostScalar(f"-{self._inside(SIGN)}", SIGN, self._scalars)

    def sqrt(self) -> HostScalar:
        """Returns the square root."""
        return self._called("sqrt")

    def exp(self) -> HostScalar:
        """Returns the exponential."""
        return self._called("exp")

    def minimum(self, other: Number) -> HostScalar:
        """Returns the smaller of two host numbers."""
        return self._called("min", other)

    def maximum(self, other: Number) -> HostScalar:
        """Returns the larger of two host numbers."""
        return self._called("max", other)

    def select(self, then: Number, otherwise: Number) -> HostScalar:
        """Returns `then` if this comparison holds, otherwise `otherwise`."""
        first, second = (_hosted(number, self._scalars)._inside(COMPARISON) for number in (then, otherwise))
        return HostScalar(f"{first} if {self.formula} else {second}", CHOICE, self._scalars)


class Hyper:
    """The hyper-parameters of an update function, as attributes, and `norm`, the global norm of the gradients.

    They are host scalars, or 0.0 for hyper-parameters that the program doesn't use.
    """

    def __init__(self, owner: str, values: Mapping[str, Number], scalars: Scalars):
        self._owner = owner
        self._values: dict[str, Any] = dict(values)
        self._scalars = scalars

    def __getattr__(self, name: str) -> Any:
        if name == NORM and name not in self._values:
            self._values[NORM] = Traced(self._scalars.trace, self._scalars.argument(Slot(NORM, Role.NORM)))
        if name.startswith("__"):
            raise AttributeError(name)
        if name not in self._values:
            raise OptionError(
                f"{self._owner} has no hyper-parameter {name!r}; the hyper-parameters are {', '.join(self._values)}"
            )
        return self._values[name]


def _hosted(number: Number, scalars: Scalars) -> HostScalar:
    if isinstance(number, HostScalar):
        return number
    return HostScalar(repr(number), SIGN if number < 0 else ATOM, scalars)


def _operator(name: str, symbol: str, binding: int, swapped: bool) -> Any:
    beside_tensors = getattr(Tensor, name)

    def operate(self: HostScalar, other: Any) -> Any:
        joined = self._joined(other, symbol, binding, swapped)
        return beside_tensors(self, other) if joined is NotImplemented else joined

    operate.__name__ = name
    return operate


_SYMBOLS = {
    "add": ("+", SUM),
    "sub": ("-", SUM),
    "mul": ("*", PRODUCT),
    "truediv": ("/", PRODUCT),
    "pow": ("**", POWER),
}
_COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}

for _name, (_symbol, _binding) in _SYMBOLS.items():
    for _prefix in ("", "r"):
        _method = f"__{_prefix}{_name}__"
        setattr(HostScalar, _method, _operator(_method, _symbol, _binding, bool(_prefix)))
for _name, _symbol in _COMPARISONS.items():
    setattr(HostScalar, f"__{_name}__", _operator(f"__{_name}__", _symbol, COMPARISON, swapped=False))
HostScalar.__hash__ = object.__hash__
