"""Recurrent layers, as the layers here with PyTorch's weights: loops, whatever the length of the sequence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorgrad as tg
from tensorgrad.importers.torch.table import Call, rule
from tensorgrad.tracing.tensor import Tensor


def _enter(name: str, layer: type[Any], **options: Any) -> None:
    @rule(name, is_random=True)
    def _recurrent(
        input: Tensor,
        hx: Any,
        params: Sequence[Tensor],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        call: Call,
        batch_first: bool = False,
    ) -> tuple[Tensor, ...]:
        drops = dropout if train and num_layers > 1 else 0.0
        module = layer(
            input.shape[-1],
            params[1].shape[1],
            num_layers,
            bias=has_biases,
            batch_first=batch_first,
            dropout=drops,
            bidirectional=bidirectional,
            dtype=params[0].dtype,
            **options,
        )
        names = list(module.named_parameters())
        if len(names) != len(params):
            call.refuse("projections of the state are unsupported")
        with_weights = module.with_values(dict(zip(names, params, strict=True)))
        state = hx if isinstance(hx, Tensor) else tuple(hx)
        output, last = with_weights(input, state, call.key() if drops else None)
        return (output, last) if isinstance(last, Tensor) else (output, *last)


_enter("lstm", tg.nn.LSTM)
_enter("gru", tg.nn.GRU)
_enter("rnn_tanh", tg.nn.RNN)
_enter("rnn_relu", tg.nn.RNN, nonlinearity="relu")


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    product = tg.matmul(x, tg.swapaxes(weight, 0, 1))
    return product if bias is None else product + bias


@rule("lstm_cell")
def _lstm_cell(
    input: Tensor,
    hx: Sequence[Tensor],
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    gates = _linear(input, w_ih, b_ih) + _linear(hx[0], w_hh, b_hh)
    entering, forgetting, new, leaving = tg.split(gates, 4, -1)
    cell = tg.sigmoid(forgetting) * hx[1] + tg.sigmoid(entering) * tg.tanh(new)
    return tg.sigmoid(leaving) * tg.tanh(cell), cell


@rule("gru_cell")
def _gru_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    inputs = tg.split(_linear(input, w_ih, b_ih), 3, -1)
    states = tg.split(_linear(hx, w_hh, b_hh), 3, -1)
    reset, update = (tg.sigmoid(x + h) for x, h in zip(inputs[:2], states[:2], strict=True))
    new = tg.tanh(inputs[2] + reset * states[2])
    return new + update * (hx - new)
