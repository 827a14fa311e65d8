"""Loops and branches at every level and on a device, and their gradients, against the reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from differences import float_positions
from harness import Names, NumpyArray, apply, assert_same, levels, reference, traced, with_gradient
from xdsl.dialects.builtin import ModuleOp

import tensorgrad as tg
from tensorgrad.dialects.tg.control import CondOp, ScanOp
from tensorgrad.passes.build_program import build_program
from tensorgrad.passes.pipelines import inference_passes
from tensorgrad.runtime.program import Program
from tensorgrad.runtime.webgpu import WebGPUDevice, WebGPUExecutable


def recurrent(w: Any, h: Any, x: Any) -> Any:
    """A small recurrent network: its last state and all its outputs."""
    last, rows = tg.scan(lambda c, row: ((new := tg.tanh(c @ w + row)), new * tg.sin(c)), h, x)
    return tg.sum(last**3) + tg.sum(tg.cos(rows) * x), last, rows


def backwards(w: Any, x: Any) -> Any:
    """In reverse, over transposed rows, with a carry that every kind of dtype is in."""

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
    """Of length 0 and 1."""
    none, nothing = tg.scan(lambda c, row: (c * row, c), w, x[:0])
    once, one = tg.scan(lambda c, row: (c * row, c + row), w, x[:1])
    return tg.sum(none * once) + tg.sum(one) + tg.sum(nothing), none, once


def nested(w: Any, x: Any) -> Any:
    """A loop in a loop: the inner one goes over what the outer one carries, and its stack is stacked again."""

    def outer(c: Any, row: Any) -> Any:
        last, rows = tg.scan(lambda d, v: (tg.sin(d * v + c), d * w), row, c)
        return c * 0.5 + tg.mean(last), (rows, last)

    last, (rows, lasts) = tg.scan(outer, w, x)
    return tg.sum(last * last) + tg.sum(tg.cos(rows)) + tg.sum(lasts), rows


def whole_inside(w: Any, x: Any) -> Any:
    """Each time reads one row and all rows, and accumulates where it lies."""
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
    """A branch by a value that is known at run time only, and one inside of a loop."""
    first = tg.cond(tg.sum(x) > 0.0, lambda: tg.tanh(w) * 2.0, lambda: w @ w * tg.ones((3,)))
    last, rows = tg.scan(lambda c, row: (tg.cond(tg.sum(row) > 0.0, lambda: c * w, lambda: c + row), c), first, x)
    return tg.sum(last) + tg.sum(rows * rows), first


def branches_nested(w: Any, x: Any) -> Any:
    """A branch in a branch, and a loop in a branch."""

    def inner(v: Any) -> Any:
        return tg.cond(v[0] > 0.0, lambda: v * w, lambda: tg.scan(lambda c, row: (c * row, None), v, x)[0])

    found = [tg.cond(v[1] > 0.0, inner, lambda v: v - 1.0, v) for v in (x[0], x[1], w)]
    return tg.sum(found[0] * found[1]) + tg.sum(found[2])


RNG = np.random.default_rng(2)
W, X = RNG.normal(size=3).astype(np.float32), RNG.normal(size=(4, 3)).astype(np.float32)
SQUARE, H, ROWS = (RNG.normal(size=s).astype(np.float32) for s in ((3, 3), (2, 3), (5, 2, 3)))

LOOPS: dict[str, tuple[Callable[..., Any], list[NumpyArray]]] = {
    "recurrent": (recurrent, [SQUARE, H, ROWS]),
    "backwards": (backwards, [W, X.T.copy()]),
    "without_xs": (without_xs, [W]),
    "short": (short, [W, X]),
    "nested": (nested, [W, X]),
    "whole_inside": (whole_inside, [W, X]),
    "gradient_inside": (gradient_inside, [W, X]),
    "keyed": (keyed, [W]),
}
BRANCHES: dict[str, tuple[Callable[..., Any], list[NumpyArray]]] = {
    "branches": (branches, [W, X]),
    "branches_other": (branches, [W, -X]),
    "branches_nested": (branches_nested, [W, X]),
    "branches_nested_other": (branches_nested, [-W, -X]),
}
PROGRAMS = {**LOOPS, **BRANCHES}
by_name = pytest.mark.parametrize("name", PROGRAMS)


def module_of(name: str) -> tuple[ModuleOp, list[NumpyArray]]:
    """A program with its gradients."""
    function, inputs = PROGRAMS[name]
    module = with_gradient(traced(function, inputs), float_positions(inputs))
    assert any(isinstance(op, ScanOp | CondOp) for op in module.walk())
    return module, inputs


@by_name
def test_levels(name: str) -> None:
    module, inputs = module_of(name)
    expected = reference(module, inputs)
    for level, results in levels(module, inputs):
        for found, one in zip(results, expected, strict=True):
            assert_same(found, one, 1e-5, level)


def compiled(module: ModuleOp, device: WebGPUDevice) -> Program:
    for one in inference_passes(device.target.to_json()):
        apply(one, module)
    return build_program(module, device.target)


@by_name
def test_on_device(device: WebGPUDevice, name: str, tmp_path: Any) -> None:
    module, inputs = module_of(name)
    expected, names = reference(module, inputs), Names(module)
    program = compiled(module, device)
    program.save(tmp_path / "program.safetensors")
    loaded, _ = Program.load(tmp_path / "program.safetensors")
    assert loaded.plan == program.plan
    executable = WebGPUExecutable(loaded, device)
    for _ in range(2):
        outputs = executable.step(dict(zip(names.arguments, inputs, strict=True)), {})
        for key, one in zip(names.results, expected, strict=True):
            assert_same(outputs[key.split("/", 1)[1] if "gradient" not in key else key].numpy(), one, 2e-5, key)
