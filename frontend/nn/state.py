"""Buffers in a trace: tensors that a loss assigns to, so that the next step reads the new values."""

from __future__ import annotations

from numbers import Real
from typing import Any, Literal, TypeAlias

import numpy as np

from tensorgrad.errors import DTypeError, ParameterError, ShapeError, TraceError
from tensorgrad.ops.elementwise.arithmetic import stop_gradient
from tensorgrad.ops.promotion import as_tensor
from tensorgrad.tracing.dtypes import SHORT, is_float
from tensorgrad.tracing.location import user_line
from tensorgrad.tracing.tensor import Array, Traced
from tensorgrad.tracing.tracer import check_usable, current_trace, value_in

Assigning: TypeAlias = Literal["kept", "dropped", "refused"]
"""What happens to assignments in a traced function: a step keeps them, an inspection drops them, and an attached
function refuses them."""


class State(Traced):
    """A buffer or an untrained parameter in a traced function: a tensor that can be assigned to.

    After an assignment it has the assigned value; before the first one, the value from the last step. So several
    assignments within a step take effect in order, as in Python. Derivatives treat it as a constant.
    """

    __slots__ = ("_assigning", "_kind", "_path", "_what", "is_assigned")

    def __init__(self, value: Traced, path: str, what: str, assigning: Assigning, kind: str = "buffer"):
        super().__init__(value.trace, value.value)
        self._path, self._what, self._assigning, self._kind = path, what, assigning, kind
        self.is_assigned = False

    def assign(self, value: Any) -> None:
        """Sets it to a value for the following steps; later reads in the same step see it too.

        Args:
            value: A tensor of the same shape and dtype, or a fill value.

        Raises:
            ParameterError: The function is not the loss of a training step, so it can't change anything.
            TraceError: This is inside a function that `tg.grad`, `tg.scan`, `tg.cond`, `tg.vmap` or the like traces.
            ShapeError: The value has a different shape.
            DTypeError: It has a different dtype.
        """
        check_usable(self)
        where, trace = f"{user_line()}: assign: {self._kind} {self._path!r}", current_trace()
        if self._assigning == "refused":
            raise ParameterError(
                f"{where} is assigned in {self._what}, but only the loss of tg.compile changes buffers; the form of a "
                "model that changes none is tg.nn.inference(model)"
            )
        if trace is None or trace is not self.trace:
            inner = "" if trace is None else trace.name
            raise TraceError(
                f"{where} is assigned inside {inner}, which may run any number of times; return the value from there, "
                "and assign it outside"
            )
        if isinstance(value, Real) and not isinstance(value, np.generic):
            value = self._filled(value, where)
        new = as_tensor(value)
        if new.shape != self.shape:
            raise ShapeError(f"{where} has shape {self.shape}, the value {new.shape}")
        if new.dtype != self.dtype:
            raise DTypeError(f"{where} is {SHORT[self.dtype]}, the value {SHORT[new.dtype]}; tg.cast converts it")
        self._value = value_in(trace, stop_gradient(new))
        self.is_assigned = True

    def _filled(self, number: Real, where: str) -> Array:
        with np.errstate(over="ignore"):
            try:
                filled = np.full(self.shape, np.asarray(number), self.dtype)
            except (OverflowError, ValueError):
                raise DTypeError(f"{where} is {SHORT[self.dtype]}, which {number!r} does not fit") from None
        if not is_float(self.dtype) and np.any(filled != number):
            raise DTypeError(f"{where} is {SHORT[self.dtype]}, which {number!r} does not fit")
        return Array(filled)

    def __repr__(self) -> str:
        return f"State({self._path!r}, shape={self.shape}, dtype={SHORT[self.dtype]})"
