"""Recurrent cells: single steps of recurrent layers, for hand-written loops."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import tensorgrad as tg
from tensorgrad.errors import OptionError, ShapeError
from tensorgrad.nn.checks import positive, trailing
from tensorgrad.nn.module import Module
from tensorgrad.nn.parameters import Init
from tensorgrad.nn.recurrent import ACTIVATIONS, Starts, Step, gru_step, lstm_step
from tensorgrad.ops.promotion import as_tensor
from tensorgrad.ops.recorded import recorded_whole
from tensorgrad.surface.calls import public


class _Cell(Module):
    """The base of all cells.

    Parameters have PyTorch's names, layouts and initialization, uniform within `1 / sqrt(hidden_size)` of zero:
    `weight_ih` `[gates * hidden_size, input_size]`, `weight_hh` `[gates * hidden_size, hidden_size]`, `bias_ih` and
    `bias_hh` `[gates * hidden_size]`.
    """

    GATES: ClassVar[int] = 1
    STATES: ClassVar[int] = 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        dtype: object = "f32",
        *,
        init: Init | None = None,
        recurrent_init: Init | None = None,
        bias_init: Init | None = None,
    ):
        super().__init__()
        input_size, hidden_size = positive(type(self).__name__, input_size=input_size, hidden_size=hidden_size)
        self.input_size, self.hidden_size = input_size, hidden_size
        starts = Starts(hidden_size, self.GATES, dtype)
        rows = self.GATES * hidden_size
        self.weight_ih = starts.declared(init, rows, input_size)
        self.weight_hh = starts.declared(recurrent_init, rows, hidden_size)
        self.bias_ih = starts.declared(bias_init, rows) if bias else None
        self.bias_hh = starts.declared(bias_init, rows) if bias else None

    @property
    @abstractmethod
    def step(self) -> Step:
        """What the next state is."""

    def __call__(self, x: Any, state: Any = None) -> Any:
        """Returns the next state.

        Args:
            x: `[batch, input_size]` or `[input_size]`.
            state: `[batch, hidden_size]` or `[hidden_size]`, for an LSTM a pair of these; zeros by default.

        Raises:
            ShapeError: The shapes don't match.
        """
        name = type(self).__name__
        tensor = trailing(name, x, (self.input_size,))
        if tensor.ndim > 2:
            raise ShapeError(f"{name}: expected [batch, {self.input_size}], got {tensor.shape}")
        shape = (*tensor.shape[:-1], self.hidden_size)
        if state is None:
            states = (tg.zeros(shape, dtype=tensor.dtype),) * self.STATES
        else:
            parts = state if isinstance(state, tuple) else (state,)
            states = tuple(as_tensor(part) for part in parts)
            if len(states) != self.STATES or any(part.shape != shape for part in states):
                raise ShapeError(
                    f"{name}: expected a state of {self.STATES} of shape {shape}, got {[part.shape for part in states]}"
                )
        results = _next_state(self.step, tensor, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh, *states)
        return results if self.STATES > 1 else results[0]


@public
@recorded_whole
def _next_state(
    step: Step, x: Any, weight_ih: Any, weight_hh: Any, bias_ih: Any, bias_hh: Any, *state: Any
) -> tuple[Any, ...]:
    """Returns the next state of a cell, which eager tensors record as one application."""
    rows = [tg.reshape(part, (-1, part.shape[-1])) for part in (x, *state)]
    inputs, hidden = rows[0] @ tg.transpose(weight_ih), rows[1] @ tg.transpose(weight_hh)
    if bias_ih is not None and bias_hh is not None:
        inputs, hidden = inputs + bias_ih, hidden + bias_hh
    return tuple(tg.reshape(part, state[0].shape) for part in step(inputs, hidden, tuple(rows[1:])))


class RNNCell(_Cell):
    """`h' = tanh(W_ih x + b_ih + W_hh h + b_hh)`, or with `relu`.

    Args:
        input_size: The features of `x`.
        hidden_size: The features of the state.
        bias: Whether there are biases.
        nonlinearity: "tanh" or "relu".
        dtype: The dtype of the parameters.
        init: The initial input weights, as for `Recurrent`.
        recurrent_init: The initial recurrent weights.
        bias_init: The initial biases.

    Raises:
        ShapeError: An extent is not a positive integer.
        OptionError: There is no such nonlinearity.

    Example:
        >>> cell = tg.nn.RNNCell(3, 5).initialized(0)
        >>> cell(tg.ones((2, 3)), tg.zeros((2, 5))).shape
        (2, 5)
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh", **options: Any
    ):
        super().__init__(input_size, hidden_size, bias, **options)
        if nonlinearity not in ACTIVATIONS:
            raise OptionError(f"RNNCell: nonlinearity must be one of {', '.join(ACTIVATIONS)}, got {nonlinearity!r}")
        self.nonlinearity = nonlinearity

    @property
    def step(self) -> Step:
        """The formula, with the nonlinearity."""
        return ACTIVATIONS[self.nonlinearity]


class GRUCell(_Cell):
    """One step of `GRU`, with its formulas; the arguments are those of `RNNCell` except `nonlinearity`.

    Example:
        >>> cell = tg.nn.GRUCell(3, 5).initialized(0)
        >>> cell(tg.ones((2, 3))).shape
        (2, 5)
    """

    GATES = 3

    @property
    def step(self) -> Step:
        """The formulas."""
        return gru_step


class LSTMCell(_Cell):
    """One step of `LSTM`, with its formulas; its state is a pair. The arguments are those of `GRUCell`.

    Example:
        >>> hidden, memory = tg.nn.LSTMCell(3, 5).initialized(0)(tg.ones((2, 3)))
        >>> hidden.shape, memory.shape
        ((2, 5), (2, 5))
    """

    GATES = 4
    STATES = 2

    @property
    def step(self) -> Step:
        """The formulas."""
        return lstm_step
