"""Control flow and sequences.

The trip count of a loop must be known while tracing; sequences are Python lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import tensorgrad as tg
from tensorgrad.importers.onnx.shapes import parts, split_sizes
from tensorgrad.importers.onnx.table import OnnxNode, Value, rule
from tensorgrad.tracing.tensor import Tensor, Traced

MOST_STEPS = 4096
"""The largest trip count of a loop, as loops are unrolled while tracing."""


@rule("If", "else_branch then_branch")
def _if(node: OnnxNode) -> tuple[Value, ...]:
    """Traces the branch taken if it is known while tracing; else both, and selects between their results."""
    condition = node.value(0)
    branches = node.attribute("then_branch"), node.attribute("else_branch")
    if not isinstance(condition, Traced):
        return tuple(node.run(branches[0 if bool(np.asarray(condition).reshape(-1)[0]) else 1], []))
    test = tg.reshape(node.tensor(0), ())
    then_results, else_results = (node.run(branch, []) for branch in branches)
    results: list[Value] = []
    for x, y in zip(then_results, else_results, strict=True):
        left, right = node.as_tensor(x), node.as_tensor(y)
        if left.shape != right.shape:
            node.refuse(
                f"the branches give {left.shape} and {right.shape}, and which is taken is known only at run time"
            )
        results.append(tg.where(test, left, right))
    return tuple(results)


@rule("Loop", "body", constants=(0, 1))
def _loop(node: OnnxNode) -> tuple[Value, ...]:
    """Traces a loop, unrolled; its trip count must be known while tracing."""
    body, carried = node.attribute("body"), list(node.inputs[2:])
    most = int(node.scalar(0, MOST_STEPS + 1))
    going: Any = bool(node.scalar(1, True))
    scanned: list[list[Tensor]] = [[] for _ in range(len(body.outputs) - 1 - len(carried))]
    step = 0
    while step < most and going:
        if step == MOST_STEPS:
            node.refuse(f"more than {MOST_STEPS} steps")
        results = node.run(body, [np.array(step, np.int64), np.array(True), *carried])
        if isinstance(results[0], Traced):
            node.refuse("how many steps it takes is known only at run time")
        going = bool(np.asarray(results[0]).reshape(-1)[0])
        carried = results[1 : 1 + len(carried)]
        for outputs, value in zip(scanned, results[1 + len(carried) :], strict=True):
            outputs.append(node.as_tensor(value))
        step += 1
    if not step and scanned:
        node.refuse("no steps, so the shapes of its outputs are unknown")
    return (*carried, *(tg.stack(outputs, 0) for outputs in scanned))


@rule(
    "Scan",
    "body num_scan_inputs scan_input_axes scan_input_directions scan_output_axes scan_output_directions directions",
)
def _scan(node: OnnxNode) -> tuple[Value, ...]:
    """Traces every step of a scan, unrolled."""
    if node.version < 9:
        return _batched_scan(node)
    body, count = node.attribute("body"), node.attribute("num_scan_inputs")
    held = list(node.inputs[: len(node.inputs) - count])
    sequences = [node.as_tensor(value) for value in node.inputs[len(node.inputs) - count :]]
    axes = list(node.attribute("scan_input_axes", [0] * count))
    reverse = list(node.attribute("scan_input_directions", [0] * count))
    return _scanned(node, body, held, sequences, axes, reverse)


def _batched_scan(node: OnnxNode) -> tuple[Value, ...]:
    """Traces version 8 of `Scan`, with a leading batch axis; sequence lengths are not supported."""
    if node.has(0):
        node.refuse("sequence lengths are not supported")
    body, count = node.attribute("body"), node.attribute("num_scan_inputs")
    inputs = node.inputs[1:]
    sequences = [node.as_tensor(value) for value in inputs[len(inputs) - count :]]
    held = [node.as_tensor(value) for value in inputs[: len(inputs) - count]]
    reverse = list(node.attribute("directions", [0] * count))
    batches = [
        _scanned(node, body, [part[i] for part in held], [part[i] for part in sequences], [0] * count, reverse)
        for i in range(sequences[0].shape[0])
    ]
    return tuple(tg.stack([node.as_tensor(value) for value in values], 0) for values in zip(*batches, strict=True))


def _scanned(
    node: OnnxNode,
    body: Any,
    held: Sequence[Value],
    sequences: Sequence[Tensor],
    axes: Sequence[int],
    reverse: Sequence[int],
) -> tuple[Value, ...]:
    steps = sequences[0].shape[axes[0]]
    if steps > MOST_STEPS:
        node.refuse(f"more than {MOST_STEPS} steps")
    state = list(held)
    outputs: list[list[Tensor]] = [[] for _ in range(len(body.outputs) - len(state))]
    if not steps and outputs:
        node.refuse("no steps, so the shapes of its outputs are unknown")
    for step in range(steps):
        slices = [
            x[(*[slice(None)] * (axis % x.ndim), steps - 1 - step if backwards else step)]
            for x, axis, backwards in zip(sequences, axes, reverse, strict=True)
        ]
        results = node.run(body, [*state, *slices])
        state = results[: len(state)]
        for output, value in zip(outputs, results[len(state) :], strict=True):
            output.append(node.as_tensor(value))
    back = list(node.attribute("scan_output_directions", [0] * len(outputs)))
    places = list(node.attribute("scan_output_axes", [0] * len(outputs)))
    stacked = [
        tg.stack(parts_[::-1] if backwards else parts_, axis)
        for parts_, backwards, axis in zip(outputs, back, places, strict=True)
    ]
    return (*state, *stacked)


# Sequences


def _sequence(node: OnnxNode, position: int) -> list[Any]:
    value = node.value(position)
    if not isinstance(value, list):
        node.refuse("takes a sequence")
    return value


@rule("SequenceConstruct", carries=(-1,))
def _sequence_construct(node: OnnxNode) -> list[Value]:
    return list(node.inputs)


@rule("SequenceEmpty", "dtype")
def _sequence_empty(node: OnnxNode) -> list[Value]:
    return []


@rule("SequenceInsert", constants=(2,), carries=(0, 1))
def _sequence_insert(node: OnnxNode) -> list[Value]:
    results = list(_sequence(node, 0))
    place = int(node.scalar(2, len(results)))
    results.insert(place + len(results) if place < 0 else place, node.value(1))
    return results


@rule("SequenceErase", constants=(1,), carries=(0,))
def _sequence_erase(node: OnnxNode) -> list[Value]:
    results = list(_sequence(node, 0))
    del results[int(node.scalar(1, -1))]
    return results


@rule("SequenceAt", constants=(1,), carries=(0,))
def _sequence_at(node: OnnxNode) -> Value:
    return _sequence(node, 0)[int(node.scalar(1))]


@rule("SequenceLength")
def _sequence_length(node: OnnxNode) -> np.ndarray[Any, Any]:
    return np.array(len(_sequence(node, 0)), np.int64)


@rule("ConcatFromSequence", "axis new_axis", carries=(0,))
def _concat_from_sequence(node: OnnxNode) -> Tensor:
    tensors = [node.as_tensor(part) for part in _sequence(node, 0)]
    axis = node.attribute("axis")
    return tg.stack(tensors, axis) if node.attribute("new_axis", 0) else tg.concat(tensors, axis)


@rule("SplitToSequence", "axis keepdims", constants=(1,), carries=(0,))
def _split_to_sequence(node: OnnxNode) -> list[Tensor]:
    x, axis = node.tensor(0), node.attribute("axis", 0)
    extent = x.shape[axis]
    if not node.has(1):
        pieces = parts(x, axis, [1] * extent)
        return pieces if node.attribute("keepdims", 1) else [tg.squeeze(piece, axis) for piece in pieces]
    lengths = node.constant(1)
    if lengths.ndim:
        return parts(x, axis, split_sizes(node, extent, node.integers(1), 0))
    size = int(lengths)
    return parts(x, axis, split_sizes(node, extent, None, 0) if not size else _chunks(extent, size))


def _chunks(extent: int, size: int) -> list[int]:
    return [min(size, extent - start) for start in range(0, extent, size)]


@rule("Optional", "type", carries=(0,))
def _optional(node: OnnxNode) -> Value:
    return node.inputs[0] if node.inputs else None


@rule("OptionalHasElement")
def _optional_has_element(node: OnnxNode) -> np.ndarray[Any, Any]:
    return np.array(bool(node.inputs) and node.inputs[0] is not None)


@rule("OptionalGetElement", carries=(0,))
def _optional_get_element(node: OnnxNode) -> Value:
    return node.value(0)
