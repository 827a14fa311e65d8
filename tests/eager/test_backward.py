"""`backward()`: leaves and graphs, modes, hooks, in-place changes, and derivatives of gradients."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tensorgrad as tg
from tensorgrad.driver.handles.eager_devices import new_eager_device
from tensorgrad.eager.tape import TapeNode
from tensorgrad.errors import EmptyAxisWarning
from tensorgrad.runtime.cpu import CpuDevice

DEVICES: tuple[tg.DeviceName, ...] = ("numpy", "cpu", "wgpu")


@pytest.fixture(params=DEVICES)
def place(request: pytest.FixtureRequest) -> Any:
    """Each device that tensors live on."""
    return request.param


def leaf(values: Any, place: tg.DeviceName = "numpy") -> Any:
    return tg.tensor(values, device=place, requires_grad=True)


def test_gradients_add_up_on_leaves(place: tg.DeviceName) -> None:
    x = leaf([1.0, 2.0], place)
    (x * x).sum().backward()
    (x * 3).sum().backward()
    assert x.grad.tolist() == [5.0, 7.0]
    x.zero_grad()
    assert x.grad is None
    y = x * 2
    assert (x.is_leaf, y.is_leaf, y.requires_grad, y.grad) == (True, False, True, None)


def test_a_gradient_is_given(place: tg.DeviceName) -> None:
    x = leaf([[1.0, 2.0], [3.0, 4.0]], place)
    y = x.T * 2
    y.backward(np.array([[1.0, 0.0], [5.0, 0.0]]))
    assert x.grad.tolist() == [[2.0, 10.0], [0.0, 0.0]]
    y = x * 1.0
    y.backward(x.detach())
    assert x.grad.tolist() == [[3.0, 12.0], [3.0, 4.0]]


def test_what_backward_refuses() -> None:
    x = leaf([1.0, 2.0])
    with pytest.raises(tg.errors.GradientError, match=r"a tensor of shape \(2,\) needs a gradient of that shape"):
        (x * 2).backward()
    with pytest.raises(tg.errors.ShapeError, match=r"backward: the gradient has shape \(3,\), the tensor \(2,\)"):
        (x * 2).backward(np.ones(3))
    with pytest.raises(tg.errors.GradientError, match="backward: the tensor requires no gradient"):
        x.detach().sum().backward()
    with pytest.raises(tg.errors.GradientError, match="backward: the array is a constant of the host"):
        tg.array(1.0).backward()
    with pytest.raises(tg.errors.GradientError, match="a tensor of i32 has no gradient; only floats have"):
        tg.tensor([1, 2], device="numpy", requires_grad=True)
    with pytest.raises(tg.errors.GradientError, match="requires_grad can be set on leaves only"):
        (x * 2).requires_grad_(False)
    assert x.grad is None


def test_a_pass_is_one_application() -> None:
    eager_device = new_eager_device("cpu", CpuDevice(), 1)
    w, b = (eager_device.made(np.array(values, np.float32)).requires_grad_() for values in ([0.5, -1.0], [0.25, 2.0]))

    def passed(retain_graph: bool = False) -> list[str]:
        y = tg.tanh(w * b) + w
        loss = (y * y).sum()
        before = len(eager_device._recording.structure.entries())
        loss.backward(retain_graph=retain_graph)
        names = [entry.template.name for entry in eager_device._recording.structure.entries()[before:]]
        if retain_graph:
            loss.backward()
        return names

    assert passed() == ["backward"]
    assert passed() == ["backward", "add", "add"]  # which add to what there is
    assert len(eager_device._folded) == 1
    expected = tg.grad(lambda w, b: tg.sum((tg.tanh(w * b) + w) ** 2), argnums=(0, 1))(w.numpy(), b.numpy())
    for leaf_, gradient in zip((w, b), expected, strict=True):
        assert leaf_.grad is not None
        np.testing.assert_allclose(leaf_.grad.numpy(), 2 * np.asarray(gradient), rtol=1e-5)
        leaf_.zero_grad()
    passed(retain_graph=True)
    assert w.grad is not None
    np.testing.assert_allclose(w.grad.numpy(), 2 * np.asarray(expected[0]), rtol=1e-5)


def test_a_graph_of_another_form_is_another_pass() -> None:
    """The same derivatives, with different values in between."""
    eager_device = new_eager_device("cpu", CpuDevice(), 1)
    x, y = (eager_device.made(np.array(value, np.float32)).requires_grad_() for value in (3.0, 5.0))
    for inner, gradients in ((lambda: (x * y) * x, (30.0, 9.0)), (lambda: (x * y) * y, (25.0, 30.0))):
        inner().backward()
        assert (float(x.grad), float(y.grad)) == gradients
        x.zero_grad()
        y.zero_grad()
    ((x * y) * (x * x)).backward()
    assert (float(x.grad), float(y.grad)) == (3 * 9 * 5.0, 27.0)
    assert len(eager_device._folded) == 3


def test_the_graph_is_let_go(place: tg.DeviceName) -> None:
    x = leaf([1.0, 2.0], place)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [4.0, 8.0]
    with pytest.raises(
        tg.errors.GradientError, match=r"freed by an earlier backward pass; backward\(retain_graph=True\)"
    ):
        y.backward()
    assert x.grad.tolist() == [4.0, 8.0]


def test_shared_parts(place: tg.DeviceName) -> None:
    x = leaf(3.0, place)
    y = x * x
    (y * y + y).backward()
    assert float(x.grad) == 4 * 27 + 6


def test_no_grad_and_enable_grad() -> None:
    x = leaf([1.0, 2.0])
    assert tg.is_grad_enabled()
    with tg.no_grad():
        assert not tg.is_grad_enabled()
        assert not (x * 2).requires_grad
        with tg.enable_grad():
            assert (x * 2).requires_grad
        assert not tg.is_grad_enabled()

    @tg.no_grad()
    def evaluated(x: Any) -> Any:
        return x * 2

    assert not evaluated(x).requires_grad
    with pytest.raises(ValueError, match="inside"), tg.no_grad():
        raise ValueError("inside")
    assert tg.is_grad_enabled()


def wave(x: Any) -> Any:
    return tg.sin(x) * x**3


def test_any_order(place: tg.DeviceName) -> None:
    x = leaf(1.5, place)
    value: Any = wave(x)
    for order in range(1, 4):
        x.grad = None
        value.backward(create_graph=True)
        value = x.grad
        assert value is not None
        expected: Any = wave
        for _ in range(order):
            expected = tg.grad(expected)
        assert float(value) == pytest.approx(float(expected(1.5)), rel=2e-5)


def test_a_penalty_on_the_gradient(place: tg.DeviceName) -> None:
    """The gradient is part of a loss, as in the training of critics."""
    x: Any = leaf([1.0, -2.0], place)
    w: Any = leaf([0.5, 0.25], place)
    (tg.tanh(x * w)).sum().backward(create_graph=True, inputs=[x])
    assert not w.grad
    penalty = (x.grad * x.grad).sum()
    x.grad = None
    penalty.backward(inputs=w)

    def by_trace(w: Any, x: Any) -> Any:
        inner = tg.grad(lambda x: tg.tanh(x * w).sum())(x)
        return (inner * inner).sum()

    np.testing.assert_allclose(
        w.grad.numpy(), np.asarray(tg.grad(by_trace)(w.detach().numpy(), x.detach().numpy())), rtol=1e-5
    )
    assert x.grad is None


def test_hooks() -> None:
    x = leaf([1.0, 2.0])
    y = x * 3
    seen: list[Any] = []
    first = y.register_hook(lambda g: seen.append(g.tolist()))
    second = x.register_hook(lambda g: g * 10)
    y.sum().backward(retain_graph=True)
    assert seen == [[1.0, 1.0]]
    assert x.grad.tolist() == [30.0, 30.0]
    first.remove()
    second.remove()
    second.remove()
    x.zero_grad()
    y.register_hook(lambda g: g * 0)
    y.sum().backward()
    assert (len(seen), x.grad.tolist()) == (1, [0.0, 0.0])
    bad = x * 1
    bad.register_hook(lambda g: "nothing")
    with pytest.raises(tg.errors.GradientError, match="a hook returned 'nothing' for a gradient of shape"):
        bad.sum().backward()
    with pytest.raises(tg.errors.GradientError, match="register_hook: the tensor requires no gradient"):
        x.detach().register_hook(print)


def test_the_gradient_of_a_result_is_kept() -> None:
    x = leaf([1.0, 2.0])
    y = x * 2
    y.retain_grad()
    (y * y).sum().backward()
    assert y.grad.tolist() == [4.0, 8.0]
    with pytest.raises(tg.errors.GradientError, match="retain_grad: the tensor requires no gradient"):
        x.detach().retain_grad()


def test_gradients_are_tensors_of_their_own(place: tg.DeviceName) -> None:
    x, y = leaf([1.0, 2.0], place), leaf([3.0, 4.0], place)
    (x + y).sum().backward()
    x.grad += 1
    assert (x.grad.tolist(), y.grad.tolist()) == ([2.0, 2.0], [1.0, 1.0])
    x.grad = x.grad * 2
    assert x.grad.tolist() == [4.0, 4.0]
    with pytest.raises(tg.errors.GradientError, match="a gradient is a tensor of the shape"):
        x.grad = x.grad.sum()


def line_of(raised: pytest.ExceptionInfo[Any]) -> list[int]:
    return [int(number) for number in re.findall(r"test_backward\.py:(\d+)", str(raised.value))]


def test_a_change_in_place_names_both_lines(place: tg.DeviceName) -> None:
    x = leaf([1.0, 2.0], place)
    y = x * 2
    z = tg.exp(y) * y
    y.add_(1)
    with pytest.raises(tg.errors.GradientError, match="was changed in place by the line") as raised:
        z.sum().backward()
    backward, used, changed = line_of(raised)
    assert (changed - used, backward - changed) == (1, 2)
    assert x.grad is None


def test_a_result_that_was_changed(place: tg.DeviceName) -> None:
    x = leaf([1.0, 2.0], place)
    y = tg.exp(x)
    y += 1
    with pytest.raises(tg.errors.GradientError, match="was changed in place"):
        y.sum().backward()


def test_a_change_that_nothing_needs(place: tg.DeviceName) -> None:
    """The derivative of a sum needs no operand, and that of a product doesn't need the product."""
    x = leaf([1.0, 2.0], place)
    y = x + 1
    z = y + x
    y.mul_(5)
    z.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    x.zero_grad()
    y = x * x
    y += 3
    y[0] = 7.0
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 4.0]


def test_gradients_through_changes_in_place(place: tg.DeviceName) -> None:
    x, w = leaf([1.0, 2.0, 3.0], place), leaf([5.0], place)
    y = x * 1.0
    part = y[1:]
    part *= w
    y[0] = w[0] * 2
    (y * y).sum().backward()
    assert x.grad.tolist() == [0.0, 2 * 2.0 * 25, 2 * 3.0 * 25]
    assert w.grad.tolist() == [2 * 10.0 * 2 + 2 * 5 * (4 + 9)]


def test_leaves_are_changed_inside_no_grad(place: tg.DeviceName) -> None:
    x = leaf([1.0, 2.0], place)
    for change in (lambda: x.add_(1), lambda: x.__setitem__(0, 1.0), lambda: x[1:].mul_(2), lambda: x.copy_([0, 0])):
        with pytest.raises(tg.errors.GradientError, match="requires a gradient, so that it can't be changed in place"):
            change()
    (x * x).sum().backward()
    with tg.no_grad():
        x -= 0.5 * x.grad
        x[1:] += 1
    assert (x.tolist(), x.is_leaf, x.requires_grad) == ([0.0, 1.0], True, True)
    x.zero_grad()
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_an_old_graph_is_not_run_with_new_parameters() -> None:
    x = leaf([1.0, 2.0])
    y = (x * x).sum()
    with tg.no_grad():
        x -= 1
    with pytest.raises(tg.errors.GradientError, match="was changed in place"):
        y.backward()


def test_ties_and_kinks_as_documented(place: tg.DeviceName) -> None:
    """Compared with docs/reference/kinks.md."""
    x, y = leaf([1.0, 2.0], place), leaf([1.0, 1.0], place)
    tg.maximum(x, y).sum().backward()
    assert (x.grad.tolist(), y.grad.tolist()) == ([0.5, 1.0], [0.5, 0.0])
    z = leaf([3.0, 1.0, 3.0], place)
    tg.max(z).backward()
    assert z.grad.tolist() == [0.5, 0.0, 0.5]
    empty = leaf(np.zeros((2, 0), np.float32), place)
    with pytest.warns(EmptyAxisWarning):
        tg.mean(empty, axis=1).sum().backward()
    assert empty.grad.shape == (2, 0)
    constant = leaf([0.0, 3.0], place)
    (constant**0).sum().backward()
    assert constant.grad.tolist() == [0.0, 0.0]
    assert not (z > 2).requires_grad
    assert not tg.argmax(z).requires_grad


def test_transformations_let_gradients_through(place: tg.DeviceName) -> None:
    w = leaf([0.5, -0.25], place)
    xs = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], np.float32)

    def of(loss: Any) -> np.ndarray:
        w.zero_grad()
        loss(w).backward()
        assert w.grad is not None
        return w.grad.numpy()

    def scanned(w: Any) -> Any:
        return tg.scan(lambda carry, x: (tg.tanh(carry * w + x), carry), tg.zeros(2), xs)[0].sum()

    def chosen(w: Any) -> Any:
        return tg.cond(w.sum() > 0, lambda x: (x * w).sum(), lambda x: (x * w * 2).sum(), tg.array([2.0, 3.0]))

    @tg.custom_vjp
    def odd(x: Any) -> Any:
        return x * 2.0

    odd.defvjp(lambda x: (x * 2.0, x), lambda x, g: (g * x,))
    losses = {
        "scan": scanned,
        "cond": chosen,
        "grad": lambda w: tg.grad(lambda x: (tg.sin(x) * w).sum())(tg.array([1.0, 2.0])).sum(),
        "vmap": lambda w: tg.vmap(lambda x: (x * w).sum())(tg.array(xs)).sum(),
        "jit": lambda w: tg.jit(lambda x, w: (x @ w).sum(), device="numpy")(xs, w),
        "checkpoint": lambda w: tg.checkpoint(lambda w: tg.sin(tg.sin(w)).sum())(w),
        "custom_vjp": lambda w: odd(w).sum(),
    }
    for name, loss in losses.items():
        expected = np.asarray(tg.grad(loss)(np.array([0.5, -0.25], np.float32)))
        np.testing.assert_allclose(of(loss), expected, rtol=1e-5, atol=1e-6, err_msg=name)
    np.testing.assert_array_equal(of(lambda w: odd(w).sum()), w.numpy())


def test_a_look_inside_no_grad_loses_nothing(place: tg.DeviceName) -> None:
    w = leaf([1.0, 2.0, 3.0], place)
    y = w * 1.0
    view = y[0:2]
    y.mul_(2.0)
    with tg.no_grad():
        assert view.tolist() == [2.0, 4.0]
    (view.sum() + y.sum()).backward()
    assert w.grad.tolist() == [4.0, 4.0, 2.0]


def test_a_view_requires_what_its_tensor_does(place: tg.DeviceName) -> None:
    w, x = leaf(5.0, place), tg.tensor([1.0, 2.0], device=place)
    view = x[:1]
    x.mul_(w)
    assert view.requires_grad
    with pytest.raises(tg.errors.TraceError, match="that requires a gradient is used in"):
        tg.jit(lambda a: (a * view).sum(), device="numpy")(np.ones(1, np.float32))
    with tg.no_grad():
        unrecorded = w.reshape(())
    assert not unrecorded.requires_grad


def test_lists_of_tensors_are_no_constants() -> None:
    v = leaf(2.0)
    for use in (
        lambda: tg.array([v, v * 2]),
        lambda: tg.sum([v, v]),
        lambda: tg.add(tg.array([1.0, 2.0]), [v, v]),
        lambda: tg.tensor([v, v]),
        lambda: tg.array(v),
    ):
        with pytest.raises(tg.errors.GradientError, match=r"would be a constant here: tg\.stack makes one tensor"):
            use()
    tg.stack([v, v * 2]).sum().backward()
    assert float(v.grad) == 3.0
    assert not tg.tensor(v).requires_grad


def test_hooks_are_taken_back_once() -> None:
    w = leaf(1.0)
    first = w.register_hook(lambda g: g * 2)
    first.remove()
    w.register_hook(lambda g: g * 10)
    first.remove()
    (w * 1.0).backward()
    assert float(w.grad) == 10.0


def test_what_a_pass_is_asked_for_is_not_gathered_by_others() -> None:
    w = leaf(2.0)
    y = w * 2
    z = y * y
    z.backward(inputs=[y], retain_graph=True)
    z.backward()
    assert (float(y.grad), float(w.grad)) == (8.0, 16.0)


def test_a_frozen_leaf_keeps_its_gradient() -> None:
    w = leaf(2.0)
    (w * 3).backward()
    w.requires_grad_(False)
    assert float(w.grad) == 3.0
    w.requires_grad_()
    (w * 3).backward()
    assert float(w.grad) == 6.0


def test_a_gradient_that_is_set() -> None:
    x = leaf([1.0, 2.0], "cpu")
    x.grad = tg.array([1.0, 2.0])
    (x * 2).sum().backward()
    assert (x.grad.device, x.grad.tolist()) == ("cpu", [3.0, 4.0])
    wrong: Any
    for wrong in (np.ones(2), [1.0, 2.0]):
        with pytest.raises(tg.errors.GradientError, match="a gradient is a tensor of the shape"):
            x.grad = wrong
    with pytest.raises(tg.errors.ArgumentError, match="a tensor on numpy is used together with one on cpu"):
        x.grad = leaf([1.0, 2.0]).detach()


def test_numpy_loses_no_gradient() -> None:
    x = leaf([1.0, 2.0])
    np.exp(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.exp([1.0, 2.0]), rtol=1e-6)
    for call in (lambda: np.sum(x), lambda: np.add.reduce(x), lambda: np.concatenate([x, x])):
        with pytest.raises(tg.errors.GradientError, match=r"np\.\w+ gives NumPy's arrays, through which no gradient"):
            call()
    assert np.sum(x.detach()) == 3.0


def test_no_graph_hangs_on_a_logged_loss() -> None:
    x = leaf([1.0, 2.0])
    middle = x * 2
    assert middle.live is not None
    node = middle.live.edge[0]
    assert isinstance(node, TapeNode)
    loss = (middle * middle).sum()
    del middle
    loss.backward()
    assert loss.live is not None
    assert (node.values, node.edges, loss.live.edge[0].edges) == (None, (), ())
