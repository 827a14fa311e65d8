"""Recurrent layers as loops: the size of their programs is independent of the sequence length."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias, cast

import numpy as np

import tensorgrad as tg
from tensorgrad.errors import DTypeError, InputError, OptionError, ShapeError
from tensorgrad.nn.checks import drop_rate, number_between, positive
from tensorgrad.nn.initializers import Initializer, uniform
from tensorgrad.nn.module import Module
from tensorgrad.nn.parameters import Init, Parameter, param
from tensorgrad.ops.promotion import as_tensor
from tensorgrad.ops.recorded import recorded_whole
from tensorgrad.surface.calls import public
from tensorgrad.tracing.dtypes import SHORT
from tensorgrad.tracing.location import user_line
from tensorgrad.tracing.tensor import Traced

Step: TypeAlias = Callable[[Any, Any, tuple[Any, ...]], tuple[Any, ...]]
"""Returns the next state of a recurrent layer; its first tensor is the output.

Args:
    inputs: The linear map of the input, `[batch, gates * hidden_size]`, with its bias.
    hidden: The linear map of the state's first tensor.
    state: The state, each tensor `[batch, hidden_size]`.
"""


class Recurrent(Module):
    """The base of recurrent layers: stacked layers, directions and layouts.

    Parameters have PyTorch's names and layouts, for each layer `k` (with the suffix `_reverse` for the second
    direction): `weight_ih_lk` `[gates * hidden_size, inputs]`, `weight_hh_lk` `[gates * hidden_size, hidden_size]`,
    `bias_ih_lk` and `bias_hh_lk` `[gates * hidden_size]`. They are initialized as in PyTorch: uniform within
    `1 / sqrt(hidden_size)` of zero.

    Args:
        input_size: The features of `x`.
        hidden_size: The features of the state.
        num_layers: The number of layers, each on the output of the previous one.
        bias: Whether there are biases.
        batch_first: Whether `x` and the output are `[batch, length, features]`, not `[length, batch, features]`.
        dropout: The probability of dropping an output that a layer passes to the next.
        bidirectional: Whether each layer also runs over the reversed sequence, with separate parameters.
        dtype: The dtype of the parameters.
        init: The initial input weights: an initializer, which samples `[inputs, hidden_size]` for each gate, so that
            the fans are those of one gate; a number; or an array.
        recurrent_init: The initial recurrent weights, likewise; such as `orthogonal()`.
        bias_init: The initial biases.

    Raises:
        ShapeError: An extent is not a positive integer.
        OptionError: `dropout` is not a number between 0 and 1.
    """

    GATES: ClassVar[int] = 1
    """The number of gates: linear maps of the input and of the state."""

    STATES: ClassVar[int] = 1
    """The number of tensors of the state."""

    key_argument: ClassVar[str] = "dropout_key"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        dtype: object = "f32",
        *,
        init: Init | None = None,
        recurrent_init: Init | None = None,
        bias_init: Init | None = None,
    ):
        super().__init__()
        self.name = type(self).__name__
        input_size, hidden_size, num_layers = positive(
            self.name, input_size=input_size, hidden_size=hidden_size, num_layers=num_layers
        )
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.bidirectional = bias, batch_first, bidirectional
        self.dropout = number_between(self.name, "dropout", dropout, 0, 1)
        self.directions = 2 if bidirectional else 1
        declared = Starts(hidden_size, self.GATES, dtype).declared
        rows = self.GATES * hidden_size
        for layer in range(num_layers):
            inputs = input_size if layer == 0 else hidden_size * self.directions
            for direction in range(self.directions):
                place = _suffix(layer, direction)
                setattr(self, f"weight_ih{place}", declared(init, rows, inputs))
                setattr(self, f"weight_hh{place}", declared(recurrent_init, rows, hidden_size))
                if bias:
                    setattr(self, f"bias_ih{place}", declared(bias_init, rows))
                    setattr(self, f"bias_hh{place}", declared(bias_init, rows))

    @property
    @abstractmethod
    def step(self) -> Step:
        """What the next state is."""

    def __call__(
        self, x: Any, state: Any = None, dropout_key: Any = None, *, lengths: Any = None, mask: Any = None
    ) -> tuple[tg.Tensor, Any]:
        """Runs the layers over a sequence, or over a batch of padded sequences.

        With `lengths` or `mask`, padding is ignored, whatever `x` contains there, as in PyTorch's packed sequences: the
        state passes through it unchanged, so that the second direction starts at the last valid element, and the final
        state is that after the last one; outputs there are 0.

        Args:
            x: `[length, batch, input_size]` (see `batch_first`), or `[length, input_size]`.
            state: The initial state, zeros by default: `[num_layers * directions, batch, hidden_size]`, without the
                batch axis if `x` has none. For an LSTM a pair of these.
            dropout_key: A random key for dropout, which needs one except in the form of `tg.nn.inference(model)`.
            lengths: The number of valid elements of each sequence, from its start: integers `[batch]`, or a scalar if
                `x` has no batch axis. 0 leaves the state unchanged.
            mask: The valid elements, instead of `lengths`: booleans of the shape of `x` without its features. Invalid
                ones may be anywhere.

        Returns:
            `(output, state)`: the outputs of the last layer, `[length, batch, directions * hidden_size]` in the layout
            of `x`, and the final state of every layer and direction, like `state`.

        Raises:
            ShapeError: The shape of `x`, of the state, of the lengths or of the mask is wrong.
            DTypeError: The lengths are not integers, or the mask is not boolean.
            InputError: A length that is known during tracing is negative, or exceeds that of the sequences.
            OptionError: `dropout_key` is not a key, or is missing; or both lengths and a mask are given.
        """

        rows = as_tensor(x)
        batched = rows.ndim == 3
        if rows.ndim not in (2, 3) or rows.shape[-1] != self.input_size:
            expected = f"[length, {self.input_size}] or [..., ..., {self.input_size}]"
            raise ShapeError(f"{self._at()}: expected a shape {expected}, got {rows.shape}")
        if not batched:
            rows = tg.expand_dims(rows, 1)
        elif self.batch_first:
            rows = tg.swapaxes(rows, 0, 1)
        states = self._states(state, rows, batched)
        rate = drop_rate(self, self.dropout if self.num_layers > 1 else 0.0, dropout_key, "dropout_key")
        keys = tg.random.split(dropout_key, self.num_layers - 1) if rate else ()
        counted = self._counted(lengths, mask, (rows.shape[0], rows.shape[1]), batched)
        if counted is not None:
            rows = tg.where(counted, rows, 0)  # so that NaN in the padding doesn't reach gradients as 0 * NaN
        last: list[tuple[Any, ...]] = []
        for layer in range(self.num_layers):
            directions = [
                self._direction(rows, counted, layer, direction, states) for direction in range(self.directions)
            ]
            last += [final for _, final in directions]
            rows = directions[0][0] if len(directions) == 1 else tg.concat([outputs for outputs, _ in directions], -1)
            if rate and layer + 1 < self.num_layers:
                rows = tg.random.dropout(keys[layer], rows, rate)
        stacked = tuple(tg.stack([final[i] for final in last]) for i in range(self.STATES))
        if not batched:
            rows, stacked = rows[:, 0], tuple(stack[:, 0] for stack in stacked)
        elif self.batch_first:
            rows = tg.swapaxes(rows, 0, 1)
        return rows, stacked[0] if self.STATES == 1 else stacked

    def _direction(
        self, rows: Any, counted: Any, layer: int, direction: int, states: Sequence[tuple[Any, ...]]
    ) -> tuple[Any, tuple[Any, ...]]:
        """Runs one layer in one direction; returns its outputs and final state."""
        place, number = _suffix(layer, direction), layer * self.directions + direction
        names = ("weight_ih", "weight_hh", *(("bias_ih", "bias_hh") if self.bias else ()))
        own = {name: getattr(self, f"{name}{place}") for name in names}
        outputs, *last = _run(self.step, direction == 1, rows, counted, *states[number], **own)
        return outputs, tuple(last)

    def _counted(self, lengths: Any, mask: Any, extents: tuple[int, int], batched: bool) -> Any:
        """Returns a mask of the valid elements, `[length, batch, 1]`, or None if all are valid."""

        length, batch = extents
        if lengths is None and mask is None:
            return None
        if lengths is not None and mask is not None:
            raise OptionError(f"{self._at()}: give lengths or a mask, not both")
        if mask is not None:
            mask_tensor = as_tensor(mask)
            turned = batched and self.batch_first
            shape = (length,) if not batched else (batch, length) if turned else (length, batch)
            if mask_tensor.shape != shape:
                raise ShapeError(f"{self._at()}: expected a mask of shape {shape}, got {mask_tensor.shape}")
            if SHORT[mask_tensor.dtype] != "bool":
                raise DTypeError(f"{self._at()}: the mask must hold booleans, it holds {SHORT[mask_tensor.dtype]}")
            return tg.reshape(tg.swapaxes(mask_tensor, 0, 1) if turned else mask_tensor, (length, batch, 1))
        counts = self._lengths(lengths, (batch,) if batched else (), length)
        return tg.less(tg.reshape(tg.arange(length), (length, 1, 1)), tg.reshape(counts, (1, batch, 1)))

    def _lengths(self, lengths: Any, shape: tuple[int, ...], most: int) -> Any:
        """Returns lengths as an i32 tensor; known values are checked."""

        tensor = as_tensor(lengths)
        if tensor.shape != shape:
            raise ShapeError(f"{self._at()}: expected lengths of shape {shape}, got {tensor.shape}")
        if tensor.dtype.kind not in "iu":
            raise DTypeError(f"{self._at()}: lengths must be integers, they are {SHORT[tensor.dtype]}")
        if not isinstance(tensor, Traced):
            numbers = np.asarray(tensor)
            if numbers.size and not 0 <= numbers.min() <= numbers.max() <= most:
                raise InputError(f"{self._at()}: lengths must be from 0 to {most}, got {numbers.tolist()}")
        return tg.cast(tensor, "i32")

    def _states(self, state: Any, rows: Any, batched: bool) -> list[tuple[Any, ...]]:
        """Returns the initial state of each layer and direction, each tensor `[batch, hidden_size]`."""

        count, batch = self.num_layers * self.directions, rows.shape[1]
        if state is None:
            return [(tg.zeros((batch, self.hidden_size), rows.dtype),) * self.STATES] * count
        parts = state if isinstance(state, tuple) and self.STATES > 1 else (state,)
        if len(parts) != self.STATES:
            raise ShapeError(f"{self._at()}: the state must be a tuple of {self.STATES} tensors, got {len(parts)}")
        shape = (count, batch, self.hidden_size) if batched else (count, self.hidden_size)
        tensors = [as_tensor(part) for part in parts]
        for tensor in tensors:
            if tensor.shape != shape:
                raise ShapeError(f"{self._at()}: expected a state of shape {shape}, got {tensor.shape}")
        return [tuple(part[i] if batched else part[i : i + 1] for part in tensors) for i in range(count)]

    def _at(self) -> str:

        return f"{user_line()}: {self.name}"


@dataclass(frozen=True)
class Starts:
    """The initial values of the parameters of a recurrent layer or cell."""

    hidden_size: int
    gates: int
    dtype: object

    def declared(self, start: Init | None, *shape: int) -> Parameter:
        """Returns a parameter with the user's initial value, or else uniform within `1 / sqrt(hidden_size)` of 0."""
        if callable(start) and len(shape) == 2:
            return param(shape, _by_gate(cast("Initializer", start), self.gates), self.dtype)
        bound = 1 / math.sqrt(self.hidden_size)
        return param(shape, uniform(-bound, bound) if start is None else start, self.dtype)


def _by_gate(initializer: Initializer, gates: int) -> Initializer:
    """Samples the weight of each gate separately, as `[inputs, hidden_size]`, a shape whose fans initializers know."""

    def drawn(key: Any, shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
        rows, inputs = shape
        keys = [tg.random.fold_in(key, gate) for gate in range(gates)]
        return np.concatenate(
            [np.asarray(initializer(gate_key, (inputs, rows // gates), dtype)).T for gate_key in keys]
        )

    return drawn


def _suffix(layer: int, direction: int) -> str:
    return f"_l{layer}{'_reverse' if direction else ''}"


def gates(x: Any, count: int) -> list[Any]:
    """Returns the slices of a linear map, `[batch, count * hidden_size]`, that belong to each gate."""
    size = x.shape[-1] // count
    return [x[:, i * size : (i + 1) * size] for i in range(count)]


def tanh_step(inputs: Any, hidden: Any, state: tuple[Any, ...]) -> tuple[Any]:
    """Returns the next state of an `RNN`."""
    return (tg.tanh(inputs + hidden),)


def relu_step(inputs: Any, hidden: Any, state: tuple[Any, ...]) -> tuple[Any]:
    """Returns the next state of an `RNN` with `relu`."""
    return (tg.relu(inputs + hidden),)


def gru_step(inputs: Any, hidden: Any, state: tuple[Any, ...]) -> tuple[Any]:
    """Returns the next state of a `GRU`."""
    (ir, iz, inew), (hr, hz, hnew) = gates(inputs, 3), gates(hidden, 3)
    update = tg.sigmoid(iz + hz)
    new = tg.tanh(inew + tg.sigmoid(ir + hr) * hnew)
    return ((1.0 - update) * new + update * state[0],)


def lstm_step(inputs: Any, hidden: Any, state: tuple[Any, ...]) -> tuple[Any, Any]:
    """Returns the next state of an `LSTM`."""
    i, f, g, o = gates(inputs + hidden, 4)
    cell = tg.sigmoid(f) * state[1] + tg.sigmoid(i) * tg.tanh(g)
    return tg.sigmoid(o) * tg.tanh(cell), cell


ACTIVATIONS: Mapping[str, Step] = {"tanh": tanh_step, "relu": relu_step}


@public
@recorded_whole
def _run(
    step: Step,
    reverse: bool,
    rows: Any,
    counted: Any,
    *first: Any,
    weight_ih: Any,
    weight_hh: Any,
    bias_ih: Any = None,
    bias_hh: Any = None,
) -> tuple[Any, ...]:
    """Returns the outputs of a layer in one direction, and its final state; eager tensors record it as one application.

    Inputs are mapped for all positions in one product.
    """
    inputs = rows @ tg.transpose(weight_ih)
    inputs = inputs if bias_ih is None else inputs + bias_ih
    weight = tg.transpose(weight_hh)

    def body(state: tuple[Any, ...], row: tuple[Any, Any]) -> tuple[tuple[Any, ...], Any]:
        projected, counts = row
        hidden = state[0] @ weight
        new = step(projected, hidden if bias_hh is None else hidden + bias_hh, state)
        if counts is None:
            return new, new[0]
        masked = tuple(tg.where(counts, now, before) for now, before in zip(new, state, strict=True))
        return masked, tg.where(counts, new[0], 0)

    last, outputs = tg.scan(body, first, (inputs, counted), reverse=reverse)
    return outputs, *last


class RNN(Recurrent):
    """`h' = tanh(W_ih x + b_ih + W_hh h + b_hh)`, or with `relu`; see `Recurrent` for arguments and parameters.

    Args:
        nonlinearity: "tanh" or "relu".

    Raises:
        OptionError: There is no such nonlinearity.

    Example:
        >>> tg.nn.RNN(3, 5, num_layers=2).weight_ih_l1.shape
        (5, 5)
    """

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, nonlinearity: str = "tanh", **options: Any
    ):
        super().__init__(input_size, hidden_size, num_layers, **options)
        if nonlinearity not in ACTIVATIONS:
            raise OptionError(f"RNN: nonlinearity must be one of {', '.join(ACTIVATIONS)}, got {nonlinearity!r}")
        self.nonlinearity = nonlinearity

    @property
    def step(self) -> Step:
        """The formula, with the nonlinearity."""
        return ACTIVATIONS[self.nonlinearity]


class GRU(Recurrent):
    """Gated recurrent units (Cho et al. 2014), in PyTorch's form; see `Recurrent` for arguments and parameters.

    With the gates in this order in weights and biases:

        r = sigmoid(W_ir x + b_ir + W_hr h + b_hr)
        z = sigmoid(W_iz x + b_iz + W_hz h + b_hz)
        n = tanh(W_in x + b_in + r * (W_hn h + b_hn))
        h' = (1 - z) * n + z * h

    Example:
        >>> tg.nn.GRU(3, 5).weight_hh_l0.shape
        (15, 5)
    """

    GATES = 3

    @property
    def step(self) -> Step:
        """The formulas."""
        return gru_step


class LSTM(Recurrent):
    """Long short-term memory (Hochreiter and Schmidhuber 1997; with forget gates, Gers et al. 2000), in PyTorch's form.

    See `Recurrent` for arguments and parameters. With the gates in this order in weights and biases, and a state
    `(h, c)`:

        i = sigmoid(W_ii x + b_ii + W_hi h + b_hi)
        f = sigmoid(W_if x + b_if + W_hf h + b_hf)
        g = tanh(W_ig x + b_ig + W_hg h + b_hg)
        o = sigmoid(W_io x + b_io + W_ho h + b_ho)
        c' = f * c + i * g
        h' = o * tanh(c')

    Example:
        >>> tg.nn.LSTM(3, 5, bidirectional=True).weight_ih_l0_reverse.shape
        (20, 3)
    """

    GATES = 4
    STATES = 2

    @property
    def step(self) -> Step:
        """The formulas."""
        return lstm_step
