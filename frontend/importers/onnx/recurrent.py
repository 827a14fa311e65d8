"""Recurrent layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorgrad as tg
from tensorgrad.importers.onnx.activations import ACTIVATIONS, PARAMETERS
from tensorgrad.importers.onnx.table import OnnxNode, Role, rule
from tensorgrad.tracing.tensor import Tensor

_ATTRIBUTES = (
    "activations activation_alpha activation_beta clip direction=forward|reverse|bidirectional hidden_size layout "
    "output_sequence"
)

Cell = Callable[[Tensor, tuple[Tensor, ...]], tuple[Tensor, ...]]
"""A step: from the input of a step and the state to the next state, whose first part is the output."""


def _activations(node: OnnxNode, direction: int, defaults: Sequence[str]) -> list[Callable[[Tensor], Tensor]]:
    """Returns the activation functions of a direction, with their inputs clamped to `clip`."""
    names = list(node.attribute("activations", list(defaults) * _directions(node)))
    alphas, betas = list(node.attribute("activation_alpha", [])), list(node.attribute("activation_beta", []))
    clip = node.attribute("clip")
    callables: list[Callable[[Tensor], Tensor]] = []
    for name in names:
        text = name.decode() if isinstance(name, bytes) else name
        function = next((known for key, known in ACTIVATIONS.items() if key.lower() == text.lower()), None)
        if function is None:
            node.refuse(f"there is no activation {text}")
        count = next((known for key, known in PARAMETERS.items() if key.lower() == text.lower()), 0)
        own = [values.pop(0) for values, least in ((alphas, 1), (betas, 2)) if count >= least and values]
        callables.append(lambda x, f=function, p=own: f(x if clip is None else tg.clip(x, -clip, clip), *p))
    size = len(defaults)
    return callables[direction * size : (direction + 1) * size]


def _directions(node: OnnxNode) -> int:
    return 2 if node.attribute("direction", "forward") == "bidirectional" else 1


def _layer(
    node: OnnxNode, gates: int, states: int, cell: Callable[[OnnxNode, int, Tensor, Tensor, Tensor], Cell]
) -> Any:
    """Runs a cell over the steps, in each direction.

    The product of all steps' inputs with the weights is one contraction; only the recurrence remains in a step.
    """
    layout = node.attribute("layout", 0)
    x, w, r = node.tensor(0), node.tensor(1), node.tensor(2)
    x = tg.swapaxes(x, 0, 1) if layout else x
    batch = x.shape[1]
    hidden = r.shape[-1]
    outputs: list[Tensor] = []
    finals: list[list[Tensor]] = [[] for _ in range(states)]
    for direction in range(w.shape[0]):
        bias = node.tensor(3)[direction] if node.has(3) else tg.zeros((2 * gates * hidden,), x.dtype)
        step = cell(node, direction, r[direction], bias[: gates * hidden], bias[gates * hidden :])
        projected = tg.matmul(x, tg.transpose(w[direction]))
        state = tuple(_initial(node, 5 + i, direction, (batch, hidden), x, layout) for i in range(states))
        backwards = direction == 1 or node.attribute("direction", "forward") == "reverse"
        sequence, state = _scanned(node, step, projected, state, backwards)
        outputs.append(sequence)
        for i, part in enumerate(state):
            finals[i].append(part)
    y = tg.stack(outputs, 1)  # [steps, directions, batch, hidden]
    last = [tg.stack(parts, 0) for parts in finals]
    if layout:
        y, last = tg.transpose(y, (2, 0, 1, 3)), [tg.swapaxes(part, 0, 1) for part in last]
    return (y, *last)


def _initial(node: OnnxNode, position: int, direction: int, extents: tuple[int, int], x: Tensor, layout: int) -> Tensor:
    if not node.has(position):
        return tg.zeros(extents, x.dtype)
    states = node.tensor(position)
    return states[:, direction] if layout else states[direction]


def _scanned(
    node: OnnxNode, step: Cell, inputs: Tensor, state: tuple[Tensor, ...], backwards: bool
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Runs all steps; past the end of a shorter sequence the state is kept, and the output is 0."""
    inside = None
    if node.has(4):
        inside = tg.less(tg.reshape(tg.arange(inputs.shape[0]), (-1, 1, 1)), tg.reshape(node.tensor(4), (-1, 1)))

    def body(state: tuple[Tensor, ...], row: tuple[Tensor, Tensor | None]) -> tuple[tuple[Tensor, ...], Tensor]:
        current, counts = row
        new = step(current, state)
        if counts is None:
            return new, new[0]
        masked = tuple(tg.where(counts, part, old) for part, old in zip(new, state, strict=True))
        return masked, tg.where(counts, new[0], 0)

    last, outputs = tg.scan(body, state, (inputs, inside), reverse=backwards)
    return outputs, last


_WEIGHTS = {1: Role.WEIGHT, 2: Role.WEIGHT, 3: Role.WEIGHT}


@rule("RNN", _ATTRIBUTES, roles=_WEIGHTS)
def _rnn(node: OnnxNode) -> Any:
    def cell(node: OnnxNode, direction: int, r: Tensor, wb: Tensor, rb: Tensor) -> Cell:
        (f,) = _activations(node, direction, ["Tanh"])
        weights, bias = tg.transpose(r), wb + rb
        return lambda x, state: (f(x + tg.matmul(state[0], weights) + bias),)

    return _layer(node, 1, 1, cell)


@rule("GRU", f"{_ATTRIBUTES} linear_before_reset", roles=_WEIGHTS)
def _gru(node: OnnxNode) -> Any:
    def cell(node: OnnxNode, direction: int, r: Tensor, wb: Tensor, rb: Tensor) -> Cell:
        f, g = _activations(node, direction, ["Sigmoid", "Tanh"])
        size = r.shape[-1]
        gates, last = tg.transpose(r[: 2 * size]), tg.transpose(r[2 * size :])
        linear = node.attribute("linear_before_reset", 0)

        def step(x: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            (h,) = state
            both = x[:, : 2 * size] + tg.matmul(h, gates) + (wb + rb)[: 2 * size]
            update, reset = f(both[:, :size]), f(both[:, size:])
            if linear:
                past = reset * (tg.matmul(h, last) + rb[2 * size :])
            else:
                past = tg.matmul(reset * h, last) + rb[2 * size :]
            new = g(x[:, 2 * size :] + past + wb[2 * size :])
            return ((1.0 - update) * new + update * h,)

        return step

    return _layer(node, 3, 1, cell)


@rule("LSTM", f"{_ATTRIBUTES} input_forget", roles={**_WEIGHTS, 7: Role.WEIGHT})
def _lstm(node: OnnxNode) -> Any:
    def cell(node: OnnxNode, direction: int, r: Tensor, wb: Tensor, rb: Tensor) -> Cell:
        f, g, h = _activations(node, direction, ["Sigmoid", "Tanh", "Tanh"])
        size, weights, bias = r.shape[-1], tg.transpose(r), wb + rb
        peep = node.tensor(7)[direction] if node.has(7) else None
        coupled = node.attribute("input_forget", 0)

        def gate(both: Tensor, position: int, cell: Tensor, peephole: int | None) -> Tensor:
            part = both[:, position * size : (position + 1) * size]
            if peep is None or peephole is None:
                return part
            return part + peep[peephole * size : (peephole + 1) * size] * cell

        def step(x: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            hidden, cell = state
            both = x + tg.matmul(hidden, weights) + bias
            entering = f(gate(both, 0, cell, 0))
            forgetting = 1.0 - entering if coupled else f(gate(both, 2, cell, 2))
            new = forgetting * cell + entering * g(gate(both, 3, cell, None))
            return f(gate(both, 1, new, 1)) * h(new), new

        return step

    return _layer(node, 4, 2, cell)
