"""Loops and branches at every level and on a device, and their gradients, against the reference."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from differences import float_positions
from draws import generator
from harness import (
    Names,
    NumpyArray,
    apply,
    as_native_code,
    assert_same,
    levels,
    on_buffers,
    reference,
    traced,
    with_gradient,
)
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.dialects.func import FuncOp
from xdsl.utils.exceptions import VerifyException

import tensorgrad as tg
from tensorgrad.checks.certify import certify_plan
from tensorgrad.dialects.buf import VALUE, ArenaOp, ViewOp
from tensorgrad.dialects.tg.control import CondOp, ScanOp
from tensorgrad.errors import NumericsError
from tensorgrad.passes.buffers.fuse import FusePass
from tensorgrad.passes.buffers.lower_tg_to_buf import LowerTgToBufPass
from tensorgrad.passes.buffers.plan_memory import PlanMemoryPass
from tensorgrad.passes.codegen.build_program import build_program
from tensorgrad.passes.pipelines import inference_passes
from tensorgrad.runtime.program import Copy, Dispatch, Program, runs
from tensorgrad.runtime.webgpu import WebGPUDevice, WebGPUExecutable


def recurrent(w: Any, h: Any, x: Any) -> Any:
    """A small recurrent network: its last state and all its outputs."""
    last, rows = tg.scan(lambda c, row: ((new := tg.tanh(c @ w + row)), new * tg.sin(c)), h, x)
    return tg.sum(last**3) + tg.sum(tg.cos(rows) * x), last, rows


def backwards(w: Any, x: Any) -> Any:
    """A reverse loop over transposed rows, with a carry of every kind of dtype."""

    def body(carry: Any, row: Any) -> Any:
        count, seen, total = carry
        seen = tg.logical_or(seen, row > 1.0)
        total = total * 0.5 + tg.where(seen, row, w * row)
        return (count + 1, seen, total), (total, tg.cast(count, tg.f32) * row, seen)

    init = (0, np.zeros(3, np.bool_), tg.zeros((3,)))
    (count, seen, total), rows = tg.scan(body, init, tg.transpose(x), reverse=True)
    return tg.sum(tg.sin(total)) + tg.sum(rows[0] * rows[1]), count, seen, rows[2]


def without_xs(w: Any) -> Any:
    last, rows = tg.scan(lambda c, _: (c * w + 0.1, c), w, length=7)
    return tg.sum(last) + tg.sum(rows * rows), rows


def short(w: Any, x: Any) -> Any:
    """Loops of length 0 and 1."""
    none, nothing = tg.scan(lambda c, row: (c * row, c), w, x[:0])
    once, row_of_sums = tg.scan(lambda c, row: (c * row, c + row), w, x[:1])
    return tg.sum(none * once) + tg.sum(row_of_sums) + tg.sum(nothing), none, once


def nested(w: Any, x: Any) -> Any:
    """Nested loops: the inner one iterates over the outer one's carry, and its stack is stacked again."""

    def outer(c: Any, row: Any) -> Any:
        last, rows = tg.scan(lambda d, v: (tg.sin(d * v + c), d * w), row, c)
        return c * 0.5 + tg.mean(last), (rows, last)

    last, (rows, lasts) = tg.scan(outer, w, x)
    return tg.sum(last * last) + tg.sum(tg.cos(rows)) + tg.sum(lasts), rows


def whole_inside(w: Any, x: Any) -> Any:
    """Each iteration reads one row and all rows, and accumulates in place."""
    total, rows = tg.scan(lambda c, row: (c + row * w, tg.sum(x * row, axis=1)), tg.zeros((3,)), x)
    return tg.sum(total**2) + tg.sum(rows**2), total


def gradient_inside(w: Any, x: Any) -> Any:
    def loss(at: Any, row: Any) -> Any:
        last, _ = tg.scan(lambda c, v: (tg.sin(c * at) + v, None), row, x)
        return tg.sum(last**2)

    last, slopes = tg.scan(lambda at, row: (at - 0.1 * (g := tg.grad(loss)(at, row)), g), w, x)
    return tg.sum(last) + tg.sum(slopes * slopes)


def keyed(w: Any) -> Any:
    def body(key: Any, _: Any) -> Any:
        key, mine = tg.random.split(key)
        return key, tg.random.uniform(mine, (3,)) * w

    return tg.sum(tg.scan(body, tg.random.key(5), length=4)[1])


def branches(w: Any, x: Any) -> Any:
    """A branch on a run-time value, and one inside a loop."""
    first = tg.cond(tg.sum(x) > 0.0, lambda: tg.tanh(w) * 2.0, lambda: w @ w * tg.ones((3,)))
    last, rows = tg.scan(lambda c, row: (tg.cond(tg.sum(row) > 0.0, lambda: c * w, lambda: c + row), c), first, x)
    return tg.sum(last) + tg.sum(rows * rows), first


def branches_nested(w: Any, x: Any) -> Any:
    """A branch in a branch, and a loop in a branch."""

    def inner(v: Any) -> Any:
        return tg.cond(v[0] > 0.0, lambda: v * w, lambda: tg.scan(lambda c, row: (c * row, None), v, x)[0])

    choices = [tg.cond(v[1] > 0.0, inner, lambda v: v - 1.0, v) for v in (x[0], x[1], w)]
    return tg.sum(choices[0] * choices[1]) + tg.sum(choices[2])


def predicates(w: Any, x: Any, flags: Any) -> Any:
    """Predicates that are slices, and predicates that are carried."""

    def body(carry: Any, row: Any) -> Any:
        c, odd = carry
        c = tg.cond(row[1], lambda: c * w, lambda: c + row[0])
        return (tg.cond(odd, lambda: c * 0.5, lambda: c), tg.logical_not(odd)), None

    (last, odd), _ = tg.scan(body, (w, tg.array(True)), (x, flags))
    return tg.sum(last * last), odd


def passed_on(w: Any, x: Any) -> Any:
    """Carried values are swapped; rows and constants are results; one stack is both a result and read."""

    def body(carry: Any, row: Any) -> Any:
        first, second, same = carry
        return (second, first + row * same, same), (first, row, w)

    (first, second, _), (rows, again, fixed) = tg.scan(body, (w, w * 2.0, w), x)
    swapped, _ = tg.scan(lambda c, _: ((c[1], c[0]), None), (w, x[0]), length=3)
    return tg.sum(first * second) + tg.sum(rows * again) + tg.sum(swapped[0] * swapped[1]), rows, fixed


def products(w: Any, x: Any) -> Any:
    """Rows at offsets where no binding can begin."""
    return tg.sum(tg.square(tg.scan(lambda c, row: (tg.tanh(c @ w + row), c), x[0], x)[1]))


RNG = generator(2)
W, X = RNG.normal(size=3).astype(np.float32), RNG.normal(size=(4, 3)).astype(np.float32)
SQUARE, H, ROWS = (RNG.normal(size=s).astype(np.float32) for s in ((3, 3), (2, 3), (5, 2, 3)))

WIDE, WIDE_ROWS = RNG.normal(size=(70, 70)).astype(np.float32) * 0.1, RNG.normal(size=(5, 33, 70)).astype(np.float32)

LOOPS: dict[str, tuple[Callable[..., Any], list[NumpyArray]]] = {
    "recurrent": (recurrent, [SQUARE, H, ROWS]),
    "backwards": (backwards, [W, X.T.copy()]),
    "without_xs": (without_xs, [W]),
    "short": (short, [W, X]),
    "nested": (nested, [W, X]),
    "whole_inside": (whole_inside, [W, X]),
    "gradient_inside": (gradient_inside, [W, X]),
    "keyed": (keyed, [W]),
    "passed_on": (passed_on, [W, X]),
    "products": (products, [WIDE, WIDE_ROWS]),
}
BRANCHES: dict[str, tuple[Callable[..., Any], list[NumpyArray]]] = {
    "branches": (branches, [W, X]),
    "branches_other": (branches, [W, -X]),
    "predicates": (predicates, [W, X, np.array([True, False, True, False])]),
    "branches_nested": (branches_nested, [W, X]),
    "branches_nested_other": (branches_nested, [-W, -X]),
}
PROGRAMS = {**LOOPS, **BRANCHES}
by_name = pytest.mark.parametrize("name", PROGRAMS)


def module_of(name: str) -> tuple[ModuleOp, list[NumpyArray]]:
    """Returns a program with its gradients."""
    function, inputs = PROGRAMS[name]
    module = with_gradient(traced(function, inputs), float_positions(inputs))
    assert any(isinstance(op, ScanOp | CondOp) for op in module.walk())
    return module, inputs


@pytest.mark.in_turns(4)
@by_name
def test_levels(name: str) -> None:
    module, inputs = module_of(name)
    expected = reference(module, inputs)
    for level, results in levels(module, inputs):
        for result, correct in zip(results, expected, strict=True):
            assert_same(result, correct, 1e-5, level)


@pytest.mark.in_turns(4, 1)
@by_name
def test_a_plan_is_certified(name: str) -> None:
    certify_plan(*planned(name)[:2])


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["recurrent", "backwards", "nested", "branches"])
def test_a_wrong_plan_shows(name: str) -> None:
    """Two live values at the same place: the results differ, and no such plan is certified."""
    before, after, names, inputs = planned(name)
    expected = on_buffers(before, inputs, names)
    assert not any(np.isnan(result).any() for result in expected)
    shown, certified = [], []
    for wrong in moved(after):
        results = on_buffers(wrong, inputs, names)
        shown.append(
            any(not np.array_equal(result, correct) for result, correct in zip(results, expected, strict=True))
        )
        try:
            certify_plan(before, wrong)
        except NumericsError:
            certified.append(False)
        else:
            certified.append(True)
    assert sum(shown) > len(shown) / 3
    assert not any(differs and right for differs, right in zip(shown, certified, strict=True))


def planned(name: str) -> tuple[ModuleOp, ModuleOp, Names, list[NumpyArray]]:
    """Returns a program without and with a memory plan, the names of its results, and inputs."""
    module, inputs = module_of(name)
    names = Names(module)
    for pass_ in (LowerTgToBufPass(), FusePass()):
        apply(pass_, module)
    before = module.clone()
    apply(PlanMemoryPass(), module)
    return before, module, names, inputs


def moved(module: ModuleOp) -> Iterator[ModuleOp]:
    """Yields the module with each workspace value moved to the place of each other one."""
    places: dict[int, int] = {}
    for view in views_of(module):
        places.setdefault(number_of(view), view.start)
    for number, to in itertools.permutations(places, 2):
        wrong = module.clone()
        for view in views_of(wrong):
            if number_of(view) == number:
                view.properties["offset"] = IntegerAttr(view.start - places[number] + places[to], i64)
        try:
            wrong.verify()
        except VerifyException:
            continue  # it leaves the arena
        yield wrong


def views_of(module: ModuleOp) -> list[ViewOp]:
    """Returns the views of the workspace."""
    views = [op for op in module.walk() if isinstance(op, ViewOp)]
    arenas = {view: view.arena.owner for view in views}
    return [view for view, arena in arenas.items() if isinstance(arena, ArenaOp) and arena.label.data == "workspace"]


def number_of(view: ViewOp) -> int:
    """Returns the number of the value that a view belongs to."""
    number = view.attributes[VALUE]
    assert isinstance(number, IntegerAttr)
    return int(number.value.data)


def compiled(module: ModuleOp, device: WebGPUDevice) -> Program:
    for pass_ in inference_passes(device.target):
        apply(pass_, module)
    return build_program(module, device.target)


@pytest.mark.in_turns(14)
@by_name
def test_on_device(device: WebGPUDevice, name: str, tmp_path: Any) -> None:
    module, inputs = module_of(name)
    expected, names = reference(module, inputs), Names(module)
    program = compiled(module, device)
    program.save(tmp_path / "program.safetensors")
    loaded, _ = Program.load(tmp_path / "program.safetensors")
    assert loaded.plan == program.plan
    executable = WebGPUExecutable(loaded, device, trusted=True)
    for _ in range(2):
        outputs = executable.step(dict(zip(names.arguments, inputs, strict=True)), {})
        for key, correct in zip(names.results, expected, strict=True):
            assert_same(outputs[key.split("/", 1)[1] if "gradient" not in key else key].numpy(), correct, 2e-5, key)


@pytest.mark.in_turns(10, 1)
@by_name
def test_as_native_code(name: str) -> None:
    module, inputs = module_of(name)
    expected = reference(module, inputs)
    for actual, correct in zip(as_native_code(module, inputs), expected, strict=True):
        assert_same(actual, correct, 2e-5, name)


def test_one_branch_is_dispatched(device: WebGPUDevice) -> None:
    """The workgroup counts of the branch that runs are as planned, those of the other zero, also if nested."""
    function, inputs = PROGRAMS["branches_nested"]
    module = traced(function, inputs)
    names, program = Names(module), compiled(module, device)
    executable = WebGPUExecutable(program, device, trusted=True)
    dispatches = [step for step, _ in runs(program.plan) if isinstance(step, Dispatch) and step.indirect is not None]
    assert len(dispatches) >= 6
    dispatched = []
    for sign in (1, -1):
        values = {name: sign * value for name, value in zip(names.arguments, inputs, strict=True)}
        float(executable.step(values, {})[names.results[0].removeprefix("output/")])
        counts = []
        for step in dispatches:
            assert step.indirect is not None
            raw = device.read_ranges([(executable._buffers[step.indirect[0]], step.indirect[1], 12)])[0]
            counts.append(tuple(int(n) for n in raw.view(np.uint32)))
            assert counts[-1] in (step.workgroups, (0, 0, 0))
        dispatched.append([any(count) for count in counts])
        assert 0 < sum(dispatched[-1]) < len(dispatches)
    assert dispatched[0] != dispatched[1]


def test_what_does_not_run_leaves_no_trace(device: WebGPUDevice) -> None:
    """A branch that would produce NaN affects neither the value nor the gradient."""

    def loss(x: Any) -> Any:
        return tg.sum(tg.cond(tg.sum(x) > 0.0, lambda: tg.log(x), lambda: x * x) * x)

    x = np.array([1.0, -2.0], np.float32)
    module = with_gradient(traced(loss, [x]), [0])
    names, expected = Names(module), reference(module, [x])
    np.testing.assert_allclose(expected[1], 3 * x**2, rtol=1e-6)
    program = compiled(module, device)
    outputs = WebGPUExecutable(program, device, trusted=True).step({names.arguments[0]: x}, {})
    np.testing.assert_allclose(outputs["gradient/" + names.arguments[0]].numpy(), 3 * x**2, rtol=1e-6)


@pytest.mark.nightly
def test_programs_do_not_grow(device: WebGPUDevice) -> None:
    """Kernels and compiled code are the same for every length; dispatches grow linearly."""

    def program(length: int) -> Program:
        inputs = [SQUARE, H, np.zeros((length, 2, 3), np.float32)]
        return compiled(with_gradient(traced(recurrent, inputs), [0, 1, 2]), device)

    small, large = program(16), program(64)
    assert len(small.kernels) == len(large.kernels)
    counts = []
    for compiled_program in (small, large):
        steps = [(step, math.prod(counts)) for step, counts in runs(compiled_program.plan)]
        assert not [step for step, _ in steps if isinstance(step, Copy)]
        counts.append((sum(times for _, times in steps), len(steps)))
    (few, entries), (many, same) = counts
    assert entries == same
    inside = (many - few) // (64 - 16)
    assert few == entries + 15 * inside
    assert inside <= 5  # two or fewer of the network itself, three or fewer of its derivative
    statistics = WebGPUExecutable(large, device, trusted=True).statistics()
    assert statistics["dispatches"] == many and statistics["submits"] == 1
    assert statistics["bytes_moved"] > 3 * small.statistics["bytes_moved"]


@pytest.mark.nightly
def test_memory_grows_by_what_is_kept() -> None:
    """A longer loop needs memory only for its sequences and for what the derivative reads."""

    def peak(length: int) -> int:
        inputs = [SQUARE, H, np.zeros((length, 2, 3), np.float32)]
        module = with_gradient(traced(lambda *args: recurrent(*args)[0], inputs), [0, 1, 2])
        for pass_ in inference_passes()[:-2]:
            apply(pass_, module)
        (function,) = [op for op in module.walk() if isinstance(op, FuncOp)]
        arenas = [op for op in module.walk() if isinstance(op, ArenaOp) and op.role.data != "counter"]
        assert function.attributes["buf.workspace_bytes"]
        return sum(arena.size for arena in arenas)

    row = 2 * 3 * 4
    grown = (peak(96) - peak(32)) / 64 / row
    assert grown <= 8  # x, its gradient in two parts, the outputs, their cotangent, and three values that it reads
