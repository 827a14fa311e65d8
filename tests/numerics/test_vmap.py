"""`vmap` of every case compared with a Python loop over the examples, and nested `vmap`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from case import Case, normal
from cases import CASES, SMOOTH, by_turns
from harness import NumpyArray, assert_same, reference, traced

import tensorgrad as tg
from tensorgrad.transforms.grad import value_and_grad

EXAMPLES = 3
WITH_INPUTS = [case for case in CASES if case.inputs]


def examples(x: NumpyArray) -> list[NumpyArray]:
    """Returns different examples with the same elements, so that indices stay in range."""
    return [np.array(example) for example in (x, np.roll(x, 1), np.flip(x))]


def ran(function: Any, inputs: list[NumpyArray]) -> NumpyArray:
    """Returns a function's result, traced, as an eager call with an index out of range raises an error."""
    return reference(traced(function, inputs), inputs)[0]


def looped(case: Case, rows: list[list[NumpyArray]]) -> NumpyArray:
    module = traced(case.function, rows[0])
    return np.stack([reference(module, row)[0] for row in rows])


@pytest.mark.parametrize("case", by_turns(WITH_INPUTS, 16))
def test_every_argument_has_examples(case: Case) -> None:
    columns = [examples(x) for x in case.inputs]
    rows = [[column[i] for column in columns] for i in range(EXAMPLES)]
    result = ran(tg.vmap(case.function), [np.stack(column) for column in columns])
    rtol = case.tolerance
    assert_same(result, looped(case, rows), rtol, "vmap")


@pytest.mark.parametrize("case", by_turns([case for case in WITH_INPUTS if len(case.inputs) > 1], 24, 1))
def test_one_argument_has_examples(case: Case) -> None:
    for position in range(len(case.inputs)):
        column = examples(case.inputs[position])
        rows = [[*case.inputs[:position], example, *case.inputs[position + 1 :]] for example in column]
        axes = tuple(x.ndim if i == position else None for i, x in enumerate(case.inputs))
        arguments = [np.stack(column, -1) if i == position else x for i, x in enumerate(case.inputs)]
        result = ran(tg.vmap(case.function, in_axes=axes, out_axes=-1), arguments)
        rtol = case.tolerance
        assert_same(np.moveaxis(result, -1, 0), looped(case, rows), rtol, f"vmap of argument {position}")


def length(function: Any, inputs: list[NumpyArray]) -> int:
    """Returns the number of ops of a function."""
    return sum(1 for _ in traced(function, inputs).walk())


@pytest.mark.parametrize("case", by_turns(WITH_INPUTS, 48, 2))
def test_the_program_for_many_is_as_long_as_that_for_few(case: Case) -> None:
    few, many = ([np.stack([x] * count) for x in case.inputs] for count in (4, 64))
    assert length(tg.vmap(case.function), few) == length(tg.vmap(case.function), many)
    for position in range(len(case.inputs)) if len(case.inputs) > 1 else ():
        axes = tuple(0 if i == position else None for i in range(len(case.inputs)))
        alone = [[*case.inputs[:position], x[position], *case.inputs[position + 1 :]] for x in (few, many)]
        assert len({length(tg.vmap(case.function, in_axes=axes), inputs) for inputs in alone}) == 1


def test_random_numbers_of_many_keys_are_drawn_at_once() -> None:
    keys = tg.random.split(tg.random.key(3), 64)

    def drawn(key: Any) -> Any:
        return tg.random.normal(key, (3,)), tg.random.permutation(key, 5), tg.random.split(key)

    drawings = [np.asarray(x) for x in tg.vmap(drawn)(keys)]
    for row in (0, 17, 63):
        for all_, single in zip(drawings, drawn(keys[row]), strict=True):
            np.testing.assert_array_equal(all_[row], np.asarray(single))
    ops = [op.name for op in traced(tg.vmap(drawn), [np.asarray(keys)]).walk()]
    assert ops.count("tg.threefry") == [op.name for op in traced(drawn, [np.asarray(keys)[0]]).walk()].count(
        "tg.threefry"
    )


@pytest.mark.in_turns(3)
@pytest.mark.parametrize("case", SMOOTH[::7], ids=lambda case: case.id)
def test_gradients_of_every_example(case: Case) -> None:
    """`vmap` of `grad`, and `grad` of the sum over `vmap`, both equal a loop over `grad`."""
    wrt = next(i for i, x in enumerate(case.inputs) if x.dtype.kind == "f")

    def loss(*inputs: Any) -> Any:
        return tg.sum(tg.sin(case.function(*inputs)))

    columns = [[x, np.ascontiguousarray(x[::-1]) if x.ndim else x, x] for x in case.inputs]
    stacked = [np.stack(column) for column in columns]
    compiled: Any = tg.jit if case.refused else lambda function: function  # in a compiled one no index is known
    step = compiled(value_and_grad(loss, wrt))
    each = [step(*[column[i] for column in columns])[1] for i in range(EXAMPLES)]
    expected = np.stack([np.asarray(gradient) for gradient in each])
    inside = compiled(tg.vmap(tg.grad(loss, wrt)))(*stacked)
    around = compiled(tg.grad(lambda *inputs: tg.sum(tg.vmap(loss)(*inputs)), wrt))(*stacked)
    scale = max(1.0, float(np.abs(expected).max(initial=0.0)))
    for result in (inside, around):
        np.testing.assert_allclose(np.asarray(result), expected, rtol=0, atol=2e-5 * scale)


def test_nested_it_runs_over_pairs() -> None:
    x, y = normal(4, 3), normal(5, 3)
    pairs = tg.vmap(tg.vmap(tg.matmul, in_axes=(None, 0)), in_axes=(0, None))
    np.testing.assert_allclose(np.asarray(pairs(x, y)), x @ y.T, rtol=1e-5)


def test_axes_may_be_trees() -> None:
    x, y, z = normal(4, 3), normal(3, 4), normal(3)

    def function(pair: dict[str, Any], *, shift: Any) -> tuple[Any, Any]:
        return pair["a"] * pair["b"] + shift, tg.sum(pair["c"])

    tree = {"a": x, "b": y, "c": z}
    first, second = tg.vmap(function, in_axes=({"a": 0, "b": 1, "c": None},), out_axes=(1, None))(tree, shift=normal(4))
    np.testing.assert_allclose(np.asarray(first), (x * y.T + normal(4)[:, None]).T, rtol=1e-6)
    np.testing.assert_allclose(np.asarray(second), z.sum(), rtol=1e-6)


def test_jacobians_and_hessians_of_every_example() -> None:
    x = normal(4, 3)

    def function(row: Any) -> Any:
        return tg.sum(tg.sin(row) * row)

    hessians = np.asarray(tg.vmap(tg.hessian(function))(x))
    np.testing.assert_allclose(hessians, np.stack([np.asarray(tg.hessian(function)(row)) for row in x]), atol=1e-5)


ERRORS: dict[str, tuple[type[Exception], str, Any]] = {
    "axis": (tg.errors.ShapeError, "axis 2 is out of range for an argument of 1 axes", lambda: tg.vmap(tg.sin, 2)(X)),
    "scalar": (tg.errors.ShapeError, "axis 0 is out of range", lambda: tg.vmap(tg.sin)(1.0)),
    "counts": (tg.errors.ShapeError, "have 3 and 4 examples", lambda: tg.vmap(tg.add)(X, normal(4))),
    "empty": (tg.errors.ShapeError, "have none examples", lambda: tg.vmap(tg.sin)(normal(0))),
    "none": (tg.errors.TraceError, "no argument has an axis", lambda: tg.vmap(tg.sin, None)(X)),
    "arity": (tg.errors.TraceError, "in_axes has 2 entries for 1 arguments", lambda: tg.vmap(tg.sin, (0, 0))(X)),
    "no integer": (tg.errors.TraceError, "holds 'a', no integer", lambda: tg.vmap(tg.sin, "a")(X)),
    "tree": (tg.errors.TraceError, "in_axes holds", lambda: tg.vmap(tg.sin, ((0, 1),))(X)),
    "differs": (
        tg.errors.ShapeError,
        "out_axes is None for a result that differs",
        lambda: tg.vmap(tg.sin, 0, None)(X),
    ),
    "out": (tg.errors.ShapeError, "out_axes 3 is out of range", lambda: tg.vmap(tg.sin, 0, 3)(X)),
}
X = normal(3)


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    kind, said, act = ERRORS[name]
    with pytest.raises(kind, match=said) as caught:
        act()
    assert "test_vmap.py" in str(caught.value)
