"""Recurrent layers: loops in the program, whatever the length, with every option of the standard."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import helper
from onnx_models import model_of, weights

import tensorgrad as tg

Array = np.ndarray[Any, np.dtype[Any]]

STEPS, BATCH, INPUTS, HIDDEN = 5, 3, 2, 4
LENGTHS = np.array([5, 2, 3], np.int32)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def rnn(x: Array, h: Array, state: list[Array], r: Array, wb: Array, rb: Array, options: dict[str, Any]) -> list[Array]:
    return [np.tanh(options["clipped"](x + h @ r.T + wb + rb))]


def gru(x: Array, h: Array, state: list[Array], r: Array, wb: Array, rb: Array, options: dict[str, Any]) -> list[Array]:
    (rz, rr, rh), (wz, wr, wh), (bz, br, bh) = np.split(r, 3), np.split(wb, 3), np.split(rb, 3)
    (xz, xr, xh), clipped = np.split(x, 3, -1), options["clipped"]
    update = sigmoid(clipped(xz + h @ rz.T + wz + bz))
    reset = sigmoid(clipped(xr + h @ rr.T + wr + br))
    past = reset * (h @ rh.T + bh) if options.get("linear_before_reset") else (reset * h) @ rh.T + bh
    return [(1 - update) * np.tanh(clipped(xh + past + wh)) + update * h]


def lstm(
    x: Array, h: Array, state: list[Array], r: Array, wb: Array, rb: Array, options: dict[str, Any]
) -> list[Array]:
    both, cell, clipped = x + h @ r.T + wb + rb, state[1], options["clipped"]
    i, o, f, c = np.split(both, 4, -1)
    pi, po, pf = np.split(options["peepholes"], 3)
    entering = sigmoid(clipped(i + pi * cell))
    forgetting = 1 - entering if options.get("input_forget") else sigmoid(clipped(f + pf * cell))
    new = forgetting * cell + entering * np.tanh(clipped(c))
    return [sigmoid(clipped(o + po * new)) * np.tanh(clipped(new)), new]


CELLS: dict[str, tuple[Callable[..., list[Array]], int, int]] = {
    "RNN": (rnn, 1, 1),
    "GRU": (gru, 3, 1),
    "LSTM": (lstm, 4, 2),
}
"""The step of each op by the standard's equations, its number of gates and of states."""


def expected(op: str, arrays: dict[str, Array], options: dict[str, Any], lengths: Array) -> list[Array]:
    """Returns the outputs in layout 0, step by step and sequence by sequence."""
    cell, _, states = CELLS[op]
    direction, clip = options.get("direction", "forward"), options.get("clip", np.inf)
    options = {**options, "clipped": lambda x: np.clip(x, -clip, clip)}
    count = arrays["w"].shape[0]
    y = np.zeros((STEPS, count, BATCH, HIDDEN), np.float32)
    last = [np.zeros((count, BATCH, HIDDEN), np.float32) for _ in range(states)]
    for way, sequence in itertools.product(range(count), range(BATCH)):
        state = [arrays[name][way, sequence] for name in ("h", "c")[:states]]
        options["peepholes"] = arrays["p"][way]
        biases = np.split(arrays["b"][way], 2)
        order = range(lengths[sequence])
        for step in reversed(order) if way or direction == "reverse" else order:
            inputs = arrays["x"][step, sequence] @ arrays["w"][way].T
            state = cell(inputs, state[0], state, arrays["r"][way], *biases, options)
            y[step, way, sequence] = state[0]
        for place, part in enumerate(state):
            last[place][way, sequence] = part
    return [y, *last]


def arrays_of(op: str, count: int) -> dict[str, Array]:
    _, gates, _ = CELLS[op]
    rows = gates * HIDDEN
    return {
        "x": weights(STEPS, BATCH, INPUTS),
        "w": weights(count, rows, INPUTS),
        "r": weights(count, rows, HIDDEN),
        "b": weights(count, 2 * rows),
        "h": weights(count, BATCH, HIDDEN, seed=1),
        "c": weights(count, BATCH, HIDDEN, seed=2),
        "p": weights(count, 3 * HIDDEN),
    }


def model(op: str, arrays: dict[str, Array], options: dict[str, Any], lengths: Array, length: int = STEPS) -> Any:
    names = ["x", "w", "r", "b", "l", *(("h", "c", "p") if op == "LSTM" else "h")]
    outputs = ["y", "y_h", "y_c"][: 1 + CELLS[op][2]]
    node = helper.make_node(op, names, outputs, hidden_size=HIDDEN, **options)
    held = {name: arrays[name] for name in names if name not in "xl"}
    shape = (BATCH, length, INPUTS) if options.get("layout") else (length, BATCH, INPUTS)
    if options.get("layout"):
        held |= {name: np.swapaxes(held[name], 0, 1) for name in ("h", "c") if name in held}
    return tg.onnx.load(model_of([node], {"x": shape}, outputs, {**held, "l": lengths}))


OPTIONS: dict[str, list[dict[str, Any]]] = {
    "RNN": [{}],
    "GRU": [{}, {"linear_before_reset": 1}],
    "LSTM": [{}, {"input_forget": 1}],
}


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("op", CELLS)
def test_options(op: str, direction: str) -> None:
    arrays = arrays_of(op, 2 if direction == "bidirectional" else 1)
    for special, clip, layout in itertools.product(OPTIONS[op], ({}, {"clip": 0.3}), (0, 1)):
        options = {**special, **clip, "layout": layout, "direction": direction}
        x = np.swapaxes(arrays["x"], 0, 1) if layout else arrays["x"]
        outputs = [np.asarray(part) for part in model(op, arrays, options, LENGTHS)(x)]
        if layout:
            outputs = [outputs[0].transpose(1, 2, 0, 3), *(np.swapaxes(part, 0, 1) for part in outputs[1:])]
        for own, correct in zip(outputs, expected(op, arrays, options, LENGTHS), strict=True):
            np.testing.assert_allclose(own, correct, rtol=1e-5, atol=1e-6, err_msg=str(options))


@pytest.mark.parametrize("op", CELLS)
def test_the_program_does_not_grow_with_the_length(op: str) -> None:
    arrays = arrays_of(op, 2)
    sizes: set[int] = set()
    for length in (4, 40):
        loaded = model(op, arrays, {"direction": "bidirectional"}, np.array([length] * BATCH, np.int32), length)
        program = str(tg.trace(lambda m, x: m(x)[0], loaded, (length, BATCH, INPUTS)))
        sizes.add(program.count("\n"))
        assert program.count("tg.scan") == 2
    assert len(sizes) == 1


@pytest.mark.parametrize("op", CELLS)
def test_derivatives(op: str) -> None:
    """Those of all weights, compared with central differences of the standard's equations, in f64."""
    arrays = {name: values.astype(np.float64) for name, values in arrays_of(op, 2).items()}
    options = {"direction": "bidirectional"}
    loaded = model(op, {name: values.astype(np.float32) for name, values in arrays.items()}, options, LENGTHS)
    x = arrays["x"].astype(np.float32)
    gradient = tg.grad(lambda m: tg.sum(m(x)[0] ** 2))(loaded.initialized()).named_parameters()
    for name, values in gradient.items():
        direction = np.random.default_rng(0).normal(size=values.shape)

        def loss(step: float, name: str = name, direction: Array = direction) -> float:
            moved = {**arrays, name: arrays[name] + step * direction}
            return float((expected(op, moved, options, LENGTHS)[0].astype(np.float64) ** 2).sum())

        slope = (loss(1e-2) - loss(-1e-2)) / 2e-2
        np.testing.assert_allclose((np.asarray(values) * direction).sum(), slope, rtol=2e-2, atol=1e-3, err_msg=name)
