"""Forward mode, and Jacobians by both modes, compared with reverse mode in f64, for every differentiable case."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from case import Case
from cases import CASES, SMOOTH, by_turns
from differences import directional, float_positions, in_f64, mid_graph, mid_graph_inputs
from harness import NumpyArray, apply, check_module, reference, traced, with_gradient
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, SSAValue

from tensorgrad.dialects import tg
from tensorgrad.dialects.functions import find_function
from tensorgrad.dialects.signature import arguments_of, results_of
from tensorgrad.dialects.tg.base import tensor
from tensorgrad.dialects.tg.build import TensorBuilder, type_of
from tensorgrad.passes.functions import block_of, return_of, set_returned, set_signature
from tensorgrad.passes.tensors.batch import repeated
from tensorgrad.passes.tensors.grad.rules import NO_DERIVATIVE
from tensorgrad.passes.tensors.jvp import JvpPass
from tensorgrad.passes.tensors.simplify import SimplifyPass
from tensorgrad.tracing.tensor import Tensor
from tensorgrad.transforms.jacobian import jacobian, jvp

TOLERANCE = 1e-10
"""Of two ways to the same derivative in f64, relative to the largest element."""


def directions_for(inputs: Sequence[NumpyArray], wrt: Sequence[int]) -> list[NumpyArray]:
    """Returns a random direction for each of some inputs."""
    random = np.random.default_rng(13)
    return [np.asarray(random.normal(size=inputs[position].shape)) for position in wrt]


def assert_close(actual: NumpyArray, expected: NumpyArray, what: str) -> None:
    """Compares with `TOLERANCE`."""
    assert actual.shape == expected.shape, what
    scale = max(1.0, float(np.abs(expected).max(initial=0.0)))
    np.testing.assert_allclose(actual, expected, rtol=0, atol=TOLERANCE * scale, err_msg=what)


@pytest.mark.parametrize("case", by_turns(SMOOTH, 16, 1))
def test_first_order(case: Case) -> None:
    inputs = mid_graph_inputs(case)
    wrt = float_positions(inputs)
    directions = directions_for(inputs, wrt)
    _, *gradients = reference(with_gradient(traced(mid_graph(case.function), inputs), wrt), inputs)
    slope = sum(float(np.sum(g * d)) for g, d in zip(gradients, directions, strict=True))
    module = traced(mid_graph(case.function), inputs)
    apply(JvpPass(wrt=tuple(wrt)), module)
    assert_close(reference(module, [*inputs, *directions])[1], np.asarray(slope), "tangent")


@pytest.mark.parametrize("case", by_turns(SMOOTH, 40, 1))
def test_second_order(case: Case) -> None:
    """The gradient along a direction: forward over reverse compared with reverse over reverse."""
    inputs = mid_graph_inputs(case)
    wrt = float_positions(inputs)
    directions = directions_for(inputs, wrt)
    whole = [*directions, *inputs]
    backward = with_gradient(traced(directional(mid_graph(case.function), wrt), whole), [i + len(wrt) for i in wrt])
    forward = with_gradient(traced(mid_graph(case.function), inputs), wrt)
    apply(JvpPass(wrt=tuple(wrt)), forward)
    apply(SimplifyPass(), forward)
    expected = reference(backward, whole)[1:]
    products = reference(forward, [*inputs, *directions])[len(wrt) + 2 :]
    assert len(products) == len(expected)
    for position, result, correct in zip(wrt, products, expected, strict=True):
        assert_close(result, correct, f"argument {position}")


@pytest.mark.parametrize("case", by_turns(SMOOTH, 20, 3))
def test_jacobians(case: Case) -> None:
    """Both Jacobians are equal, and their product with a direction is the tangent along it."""
    inputs = in_f64(case.inputs)
    wrt = float_positions(inputs)
    directions = directions_for(inputs, wrt)
    if max(case.value().size, *(inputs[i].size for i in wrt)) > 64:
        return

    def both(*arguments: Tensor) -> list[Tensor]:
        points, tangents = arguments[: len(inputs)], arguments[len(inputs) :]

        def moving(*floats: Tensor) -> Tensor:
            new = dict(zip(wrt, floats, strict=True))
            return case.function(*[new.get(i, point) for i, point in enumerate(points)])

        floats = [points[i] for i in wrt]
        tangent = jvp(moving, floats, tangents)[1]
        numbers = range(len(wrt))
        return [tangent, *jacobian(moving, numbers)(*floats), *jacobian(moving, numbers, "forward")(*floats)]

    tangent, *products = reference(traced(both, [*inputs, *directions]), [*inputs, *directions])
    product = np.zeros(tangent.shape)
    for reverse, forward, direction in zip(products[: len(wrt)], products[len(wrt) :], directions, strict=True):
        assert_close(forward, reverse, "modes")
        product += np.tensordot(reverse, direction, direction.ndim)
    assert_close(product, tangent, "tangent")


def test_what_has_no_derivative_has_no_tangent() -> None:
    kinds = {case.op for case in CASES if case.op in NO_DERIVATIVE}
    assert kinds
    for kind in kinds:
        case = next(case for case in CASES if case.op is kind)
        inputs = [np.asarray(x) for x in case.inputs]  # bitcast takes no f64
        module = traced(case.function, inputs)
        apply(JvpPass(), module)
        results = reference(module, [*inputs, *(np.ones(inputs[i].shape) for i in float_positions(inputs))])
        assert all(not np.any(result) for result in results[1:])


SOME = tuple(case for kind in tg.OPS for case in [case for case in CASES if case.op is kind and case.inputs][:3])
"""A few cases of each op."""


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("case", SOME, ids=lambda case: case.id)
def test_ops_run_along_a_new_axis(case: Case) -> None:
    """Each op of the case, batched over three values of all inputs, and of each input alone."""
    inputs = [np.asarray(x) for x in case.inputs]
    rows = [np.stack([x, np.roll(x, 1), np.flip(x)]) for x in inputs]
    subsets = [range(len(inputs)), *([i] for i in range(len(inputs)) if len(inputs) > 1)]
    for chosen in subsets:
        module = traced(case.function, inputs)
        expected = [
            reference(module, [rows[i][row] if i in chosen else x for i, x in enumerate(inputs)])[0] for row in range(3)
        ]
        arguments = [rows[i] if i in chosen else x for i, x in enumerate(inputs)]
        (batched,) = reference(along_new_axis(module, chosen, 3), arguments)
        np.testing.assert_allclose(batched, np.stack(expected), rtol=1e-6, atol=1e-30 if case.rtol else 0)


def along_new_axis(module: ModuleOp, chosen: Sequence[int], count: int) -> ModuleOp:
    """Returns the module with a new leading axis on the chosen arguments and on the result."""
    function = find_function(module, None)
    block, (result,) = block_of(function), return_of(function).operands
    set_returned(function, [])
    arguments, returned = list(block.args), return_of(function)
    builder = TensorBuilder(block, before=returned, location=returned.location)
    scratch = Block()
    for op in list(block.ops)[:-1]:
        op.detach()
        scratch.add_op(op)
    known: dict[SSAValue, SSAValue] = {}
    for i in chosen:
        kind = type_of(arguments[i])
        known[arguments[i]] = block.insert_arg(
            tensor((count, *kind.get_shape()), kind.get_element_type()), len(block.args)
        )
    results = repeated(scratch, known, [result], builder)
    set_returned(function, results)
    order = [known.get(argument, argument) for argument in arguments]
    fixed = [block.insert_arg(argument.type, len(block.args)) for argument in order]
    for argument, other in zip(order, fixed, strict=True):
        argument.replace_all_uses_with(other)
    for argument in list(block.args)[: -len(fixed)]:
        block.erase_arg(argument)
    set_signature(function, arguments_of(function), results_of(function))
    check_module(module)
    return module
