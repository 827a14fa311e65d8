"""The numpy device's compiled functions: no IR in a step, bit-identical results, no aliasing, errors."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, cast

import numpy as np
import pytest
import xdsl
from cases import CASES
from harness import NumpyArray, traced, with_gradient
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, SSAValue

import tensorgrad as tg
from benchmarks.workloads import workload
from tensorgrad.dialects.tg import OPS
from tensorgrad.dialects.tg.base import TensorOp, numpy_dtype
from tensorgrad.dialects.tg.control import CondOp, ScanOp
from tensorgrad.errors import DeviceError, ProgramError
from tensorgrad.interpreters.tensors import TensorExecutor
from tensorgrad.nn import watch

SAMPLES = [case for op in OPS for case in [case for case in CASES if case.op is op][:4]]
"""Some cases of every op: the table has thousands."""

COMPILER = (str(Path(xdsl.__file__).parent), *(f"{Path('tensorgrad', part)}" for part in ("dialects", "passes")))


@contextmanager
def calls_into_the_compiler() -> Iterator[list[str]]:
    """Collects the called functions of xDSL and of the dialects, except prepared ops."""
    calls: list[str] = []

    def watched(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call" and any(part in code.co_filename for part in COMPILER):
            reads_op = "self" in code.co_varnames or "properties" in code.co_varnames
            if code.co_filename.startswith(COMPILER[0]) or reads_op:
                calls.append(f"{code.co_filename}:{code.co_name}")

    sys.setprofile(watched)
    try:
        yield calls
    finally:
        sys.setprofile(None)


def interpreted(block: Block, arguments: Sequence[NumpyArray]) -> list[NumpyArray]:
    """An independent reference: one op at a time, nothing freed, nothing overwritten."""
    known: dict[SSAValue, NumpyArray] = dict(zip(block.args, arguments, strict=True))
    *ops, last = block.ops
    for op in ops:
        values = [known[operand] for operand in op.operands]
        if isinstance(op, TensorOp):
            results = [op.evaluate(*values)]
        elif isinstance(op, ScanOp):
            results = _scanned(op, values)
        elif isinstance(op, CondOp):
            results = interpreted(op.branches[0 if values[0] else 1], values[1:])
        else:
            results = interpreted(op.regions[0].block, values)
        known.update(zip(op.results, results, strict=True))
    return [known[operand] for operand in last.operands]


def _scanned(op: ScanOp, values: Sequence[NumpyArray]) -> list[NumpyArray]:
    first, second = len(op.consts), len(op.consts) + op.carries
    carry, rows = list(values[first:second]), []
    positions = range(op.count)
    for position in positions if op.reverse is None else reversed(positions):
        slices = [np.asarray(x[position]) for x in values[second:]]
        results = interpreted(op.body.block, [*values[:first], *carry, *slices])
        carry = results[: op.carries]
        rows.append(results[op.carries :])
    ordered = rows if op.reverse is None else rows[::-1]
    return [*carry, *(np.stack(column) for column in zip(*ordered, strict=True))]


def assert_same_bits(module: ModuleOp, inputs: Sequence[NumpyArray]) -> None:
    (function,) = [op for op in module.ops if isinstance(op, FuncOp)]
    copies = [np.array(value) for value in inputs]
    with np.errstate(all="ignore"):
        expected = interpreted(function.body.block, [np.array(value, order="C") for value in inputs])
    executor = TensorExecutor(module)
    for _ in range(2):  # a second run finds nothing of the first one
        results = executor.call(inputs)
        for result, reference in zip(results, expected, strict=True):
            assert isinstance(result, np.ndarray)
            assert result.dtype == reference.dtype and result.shape == reference.shape
            assert result.tobytes() == reference.tobytes()
    for argument, before in zip(inputs, copies, strict=True):
        assert argument.tobytes() == before.tobytes(), "an argument was written over"


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("case", SAMPLES, ids=lambda case: case.id)
def test_ops_are_read_once(case: Any) -> None:
    module = traced(case.function, case.inputs)
    executor = TensorExecutor(module)
    with calls_into_the_compiler() as calls:
        executor.call(case.inputs)
    assert calls == []


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("case", [case for case in SAMPLES if case.derivative], ids=lambda case: case.id)
def test_gradients_have_the_bits_of_one_op_at_a_time(case: Any) -> None:
    floats = [i for i, value in enumerate(case.inputs) if value.dtype.kind == "f"]

    def function(*inputs: Any) -> Any:
        scaled = case.function(*inputs) * 3
        return tg.sum(tg.tanh(scaled) * scaled)

    module = with_gradient(traced(function, case.inputs), floats)
    assert_same_bits(module, case.inputs)
    assert_same_bits(module, [np.array(value, order="F") for value in case.inputs])


def _rows(x: Any) -> Any:
    def step(carry: Any, row: Any) -> Any:
        new = tg.tanh(carry * 0.5 + row)
        return new, tg.cond(tg.sum(new) > 0, lambda y: y * 2, lambda y: tg.exp(y), new)

    last, rows = tg.scan(step, x[0], x)
    return last, rows, tg.scan(step, last, x, reverse=True)[1]


def _views(x: Any) -> Any:
    doubled = x + x
    flipped = tg.transpose(doubled)
    return x, doubled, doubled, flipped, tg.stop_gradient(doubled) * doubled, flipped[1:] - 1, tg.sum(doubled * x)


def _halves(x: Any) -> Any:
    half = tg.cast(x, "f16")
    return tg.sum(half * half, axis=0), half @ tg.transpose(half), tg.cumsum(half, axis=0)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {"control flow": _rows, "views": _views, "halves": _halves}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_whole_functions_have_the_bits_of_one_op_at_a_time(name: str) -> None:
    x = np.random.default_rng(0).normal(size=(7, 5)).astype(np.float32)
    module = traced(FUNCTIONS[name], [x])
    assert_same_bits(module, [x])
    assert_same_bits(module, [np.array(x, order="F")])


@pytest.mark.parametrize("name", ["sine", "addition", "convnet"])
def test_training_steps_have_the_bits_of_one_op_at_a_time(name: str) -> None:
    training, batch = workload(name)("numpy")
    executor = cast(Any, training._executable)._executor
    generator = np.random.default_rng(0)
    inputs: list[NumpyArray] = []
    for slot, value in zip(executor.arguments, executor.function.body.block.args, strict=True):
        shape, dtype = value.type.get_shape(), numpy_dtype(value.type)
        inputs.append(batch[slot.name] if slot.role == "input" else generator.uniform(0.1, 0.2, shape).astype(dtype))
    block = executor.function.body.block
    with np.errstate(all="ignore"):
        expected = interpreted(block, inputs)
    for result, correct in zip(executor.call(inputs), expected, strict=True):
        assert result.tobytes() == correct.tobytes()


def test_a_step_looks_at_no_ir(monkeypatch: pytest.MonkeyPatch) -> None:
    training, batch = workload("addition")("numpy")
    training.step(**batch)  # the first one makes the types of results
    looks: list[Any] = []
    monkeypatch.setattr(watch, "_containers", looks.append)
    with calls_into_the_compiler() as calls:
        training.step(**batch)
    assert calls == []
    assert looks == [], "the model is walked only where it holds something else"


def test_results_share_no_memory() -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    results = TensorExecutor(traced(_views, [x])).call([x])
    for position, result in enumerate(results):
        assert not np.shares_memory(result, x)
        assert not any(np.shares_memory(result, other) for other in results[:position])


def test_memory_is_held_as_long_as_it_is_needed() -> None:
    x = np.ones((1 << 20,), np.float32)

    def chain(x: Any) -> Any:
        for _ in range(10):
            x = tg.sin(tg.exp(x) - 1.0)
        return x

    executor = TensorExecutor(traced(chain, [x]))
    tracemalloc.start()
    try:
        executor.call([x])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1.1 * x.nbytes, "the chain works in the memory of its result"


def test_errors_name_the_op_and_the_line() -> None:
    def huge(x: Any) -> Any:
        return tg.sum(tg.exp(tg.broadcast_to(x, (1 << 20, 1 << 20, 1 << 12))))  # the line

    line = huge.__code__.co_firstlineno + 1
    module = traced(huge, [np.ones(())])
    with pytest.raises(DeviceError, match=rf"test_compiled_blocks.py:{line}: tg.exp: Unable to allocate"):
        TensorExecutor(module).call([np.ones(())])


def test_errors_in_regions_name_the_op_and_the_line() -> None:
    def rows(x: Any) -> Any:
        def step(carry: Any, row: Any) -> Any:
            return carry + tg.sum(tg.exp(tg.broadcast_to(row, (1 << 20, 1 << 20, 1 << 12)))), row  # the line

        return tg.scan(step, x[0], x)

    line = rows.__code__.co_firstlineno + 2
    x = np.ones(3, np.float32)
    with pytest.raises(DeviceError, match=rf"test_compiled_blocks.py:{line}: tg.exp: Unable to allocate"):
        TensorExecutor(traced(rows, [x])).call([x])


def test_a_wrong_number_of_arguments() -> None:
    with pytest.raises(ProgramError, match="takes 1 arguments, got 2"):
        TensorExecutor(traced(tg.exp, [np.ones(())])).call([np.ones(()), np.ones(())])


class Holder(tg.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.parts = [tg.nn.Linear(2, 2), {"a": tg.nn.Linear(2, 2)}]
        self.rows = [[1, 2], [3]]
        self.calls = 0


CHANGES: dict[str, Callable[[Holder], Any]] = {
    "another attribute": lambda model: setattr(model, "calls", 1),
    "a longer list": lambda model: model.parts.append(3),
    "another element": lambda model: model.parts.__setitem__(0, tg.nn.Linear(2, 2)),
    "a renamed key": lambda model: model.parts[1].update(b=model.parts[1].pop("a")),
    "a layer's attribute": lambda model: setattr(model.parts[1]["a"], "bias", None),
    "other attributes all at once": lambda model: setattr(model, "__dict__", {**vars(model), "calls": 1}),
    "an element that moves to the list behind": lambda model: model.rows[0].insert(0, model.rows[1].pop()),
    "an element that moves to the list in front": lambda model: model.rows[1].append(model.rows[0].pop(0)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_model_that_holds_something_else_is_noticed(change: str) -> None:
    model = Holder()
    watching = watch.Watch(model)
    assert watching.is_unchanged()
    CHANGES[change](model)
    assert not watching.is_unchanged()
    watching.renew()
    assert watching.is_unchanged()
