"""`backward()`: leaves and graphs, modes, hooks, changes in place, derivatives of gradients, models and optimizers."""

from __future__ import annotations

import gc
import re
from typing import Any

import numpy as np
import pytest
import torch

import tensorgrad as tg
from tensorgrad.driver.homes import new_home
from tensorgrad.eager.tape import Node
from tensorgrad.optim import packed_update
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
    home = new_home("cpu", CpuDevice(), 1)
    w, b = (home.made(np.array(one, np.float32)).requires_grad_() for one in ([0.5, -1.0], [0.25, 2.0]))

    def passed(retain_graph: bool = False) -> list[str]:
        y = tg.tanh(w * b) + w
        loss = (y * y).sum()
        before = len(home._recording.structure.entries())
        loss.backward(retain_graph=retain_graph)
        found = [entry.template.name for entry in home._recording.structure.entries()[before:]]
        if retain_graph:
            loss.backward()
        return found

    assert passed() == ["backward"]
    assert passed() == ["backward", "add", "add"]  # which add to what there is
    assert len(home._folded) == 1
    expected = tg.grad(lambda w, b: tg.sum((tg.tanh(w * b) + w) ** 2), argnums=(0, 1))(w.numpy(), b.numpy())
    for leaf_, gradient in zip((w, b), expected, strict=True):
        assert leaf_.grad is not None
        np.testing.assert_allclose(leaf_.grad.numpy(), 2 * np.asarray(gradient), rtol=1e-5)
        leaf_.zero_grad()
    passed(retain_graph=True)
    assert w.grad is not None
    np.testing.assert_allclose(w.grad.numpy(), 2 * np.asarray(expected[0]), rtol=1e-5)


def test_a_graph_of_another_form_is_another_pass() -> None:
    """The same derivatives, between other values."""
    home = new_home("cpu", CpuDevice(), 1)
    x, y = (home.made(np.array(one, np.float32)).requires_grad_() for one in (3.0, 5.0))
    for inner, gradients in ((lambda: (x * y) * x, (30.0, 9.0)), (lambda: (x * y) * y, (25.0, 30.0))):
        inner().backward()
        assert (float(x.grad), float(y.grad)) == gradients
        x.zero_grad()
        y.zero_grad()
    ((x * y) * (x * x)).backward()
    assert (float(x.grad), float(y.grad)) == (3 * 9 * 5.0, 27.0)
    assert len(home._folded) == 3


def test_the_graph_is_let_go(place: tg.DeviceName) -> None:
    x = leaf([1.0, 2.0], place)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [4.0, 8.0]
    with pytest.raises(
        tg.errors.GradientError, match=r"let go by an earlier backward pass; backward\(retain_graph=True\)"
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
    """The gradient in a loss, as in the training of critics."""
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
    with pytest.raises(tg.errors.GradientError, match="a hook gave 'nothing' for a gradient of shape"):
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


def line_of(found: pytest.ExceptionInfo[Any]) -> list[int]:
    return [int(number) for number in re.findall(r"test_backward\.py:(\d+)", str(found.value))]


def test_a_change_in_place_names_both_lines(place: tg.DeviceName) -> None:
    x = leaf([1.0, 2.0], place)
    y = x * 2
    z = tg.exp(y) * y
    y.add_(1)
    with pytest.raises(tg.errors.GradientError, match="was changed in place by the line") as found:
        z.sum().backward()
    backward, used, changed = line_of(found)
    assert (changed - used, backward - changed) == (1, 2)
    assert x.grad is None


def test_a_result_that_was_changed(place: tg.DeviceName) -> None:
    x = leaf([1.0, 2.0], place)
    y = tg.exp(x)
    y += 1
    with pytest.raises(tg.errors.GradientError, match="was changed in place"):
        y.sum().backward()


def test_a_change_that_nothing_needs(place: tg.DeviceName) -> None:
    """The derivative of a sum needs no operand, and that of a product not the product."""
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
    """docs/reference/kinks.md."""
    x, y = leaf([1.0, 2.0], place), leaf([1.0, 1.0], place)
    tg.maximum(x, y).sum().backward()
    assert (x.grad.tolist(), y.grad.tolist()) == ([0.5, 1.0], [0.5, 0.0])
    z = leaf([3.0, 1.0, 3.0], place)
    tg.max(z).backward()
    assert z.grad.tolist() == [0.5, 0.0, 0.5]
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
    assert isinstance(node, Node)
    loss = (middle * middle).sum()
    del middle
    loss.backward()
    assert loss.live is not None
    assert (node.values, node.edges, loss.live.edge[0].edges) == (None, (), ())


def digits() -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_digits

    found: Any = load_digits()
    return (found.data / 16).astype(np.float32), found.target.astype(np.int32)


def classifier() -> Any:
    return tg.nn.Sequential(tg.nn.Linear(64, 32), tg.relu, tg.nn.Linear(32, 10))


@pytest.mark.parametrize("place", ["numpy", "cpu"])
def test_an_eager_loop_trains_as_the_compiled_step(place: tg.DeviceName) -> None:
    images, labels = digits()
    training = tg.compile(
        classifier(),
        loss=lambda model, x, y: tg.cross_entropy(model(x), y),
        optimizer=tg.optim.adam(1e-2),
        inputs={"x": (64, 64), "y": tg.spec(64, "i32")},
        device=place,
        seed=3,
    )
    model = classifier().initialized(seed=3, device=place)
    optimizer = tg.optim.Adam(model.parameters(), lr=1e-2)
    random = np.random.default_rng(0)
    for _ in range(100):
        chosen = random.integers(0, 1500, 64)
        expected = training.step(x=images[chosen], y=labels[chosen])
        loss = tg.cross_entropy(model(tg.tensor(images[chosen], device=place)), labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        assert float(loss) == pytest.approx(float(expected), rel=2e-3, abs=2e-4)
    with tg.no_grad():
        found = tg.argmax(model(tg.tensor(images[1500:], device=place)), 1)
    assert np.mean(found.numpy() == labels[1500:]) > 0.85
    moved = tg.compile(
        model,
        loss=lambda model, x, y: tg.cross_entropy(model(x), y),
        optimizer=tg.optim.adam(1e-2),
        inputs={"x": (64, 64), "y": tg.spec(64, "i32")},
        device=place,
    )
    assert float(moved.step(x=images[:64], y=labels[:64])) < 0.5


OPTIMIZERS: dict[str, tuple[Any, Any]] = {
    "sgd": (lambda p: tg.optim.SGD(p, lr=0.1), tg.optim.sgd(0.1)),
    "momentum": (lambda p: tg.optim.SGD(p, 0.1, momentum=0.9, nesterov=True), tg.optim.sgd(0.1, 0.9, nesterov=True)),
    "adam": (lambda p: tg.optim.Adam(p, lr=0.01), tg.optim.adam(0.01)),
    "adamw": (lambda p: tg.optim.AdamW(p, lr=0.01, weight_decay=0.1), tg.optim.adamw(0.01, weight_decay=0.1)),
    "rmsprop": (lambda p: tg.optim.RMSprop(p, lr=0.01), tg.optim.rmsprop(0.01)),
    "adagrad": (lambda p: tg.optim.Adagrad(p, lr=0.01), tg.optim.adagrad(0.01)),
    "lion": (lambda p: tg.optim.Lion(p, lr=0.001), tg.optim.lion(0.001)),
    "clipped": (
        lambda p: tg.optim.Stepper(p, tg.optim.adam(0.01, clip_norm=0.1)),
        tg.optim.adam(0.01, clip_norm=0.1),
    ),
    "scheduled": (
        lambda p: tg.optim.SGD(p, tg.optim.schedules.cosine(0.1, 5)),
        tg.optim.sgd(tg.optim.schedules.cosine(0.1, 5)),
    ),
    "muon": (
        lambda p: tg.optim.Stepper(p, tg.optim.muon(0.01, others=tg.optim.adam(0.01))),
        tg.optim.muon(0.01, others=tg.optim.adam(0.01)),
    ),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_do_what_the_compiled_ones_do(name: str) -> None:
    make, compiled = OPTIMIZERS[name]
    x = np.random.default_rng(1).normal(size=(8, 3)).astype(np.float32)

    def loss(model: Any, x: Any) -> Any:
        return tg.mean((model(x) - 1.0) ** 2)

    training = tg.compile(tg.nn.Linear(3, 2), loss=loss, optimizer=compiled, inputs={"x": (8, 3)}, device="numpy")
    model = tg.nn.Linear(3, 2).initialized(device="numpy")
    optimizer = make(model)
    for _ in range(4):
        training.step(x=x)
        optimizer.zero_grad()
        loss(model, x).backward()
        optimizer.step()
    for path, value in training.state_dict(parts="model").items():
        np.testing.assert_allclose(model.named_parameters()[path].numpy(), value, rtol=1e-5, atol=1e-6)
    assert optimizer.step_count == 4


@pytest.mark.parametrize("dtype", ["f16", "f32", "f64"])
@pytest.mark.parametrize("name", ["adam", "adafactor"])
def test_state_has_shapes_and_dtypes_of_its_own(name: str, dtype: str) -> None:
    """State of half floats is f32, and adafactor keeps rows and columns; both go on from a file."""
    make: Any = {"adam": lambda: tg.optim.adam(0.05), "adafactor": lambda: tg.optim.adafactor()}[name]
    start = np.random.default_rng(0).normal(size=(4, 3))

    def trained(parts: list[int]) -> np.ndarray:
        x: Any = tg.tensor(start, dtype, device="numpy", requires_grad=True)
        state: Any = None
        for steps in parts:
            optimizer = tg.optim.Stepper([x], make())
            if state is not None:
                optimizer.load_state_dict(state)
            for _ in range(steps):
                optimizer.zero_grad()
                (x * x).sum().backward()
                optimizer.step()
            state = optimizer.state_dict()
        assert str(x.dtype) == str(tg.array(0.0, dtype).dtype)
        return x.numpy()

    whole = trained([4])
    assert np.sum(whole.astype(np.float64) ** 2) < np.sum(start**2)
    np.testing.assert_array_equal(trained([2, 2]), whole)


def test_the_state_of_an_optimizer_goes_on() -> None:
    def trained(steps: int, state: Any = None, start: Any = None) -> tuple[Any, Any]:
        model = tg.nn.Linear(3, 2).initialized(device="cpu", values=start)
        optimizer = tg.optim.Adam(model.named_parameters(), lr=0.05)
        if state is not None:
            optimizer.load_state_dict(state)
        for _ in range(steps):
            optimizer.zero_grad()
            tg.mean((model(np.ones((4, 3), np.float32)) - 2.0) ** 2).backward()
            optimizer.step()
        return {path: one.numpy() for path, one in model.named_parameters().items()}, optimizer

    whole, _ = trained(6)
    half, optimizer = trained(3)
    rest, _ = trained(3, optimizer.state_dict(), half)
    for path, value in whole.items():
        np.testing.assert_allclose(rest[path], value, rtol=1e-6)
    with pytest.raises(tg.errors.InputError, match="'training/step' is missing"):
        optimizer.load_state_dict({})
    with pytest.raises(tg.errors.InputError, match=r"unknown state 'adam\.m/other'"):
        optimizer.load_state_dict({**optimizer.state_dict(), "adam.m/other": np.zeros(3)})
    assert optimizer.step_count == 3


def test_settings_of_an_optimizer() -> None:
    x = leaf([1.0])
    optimizer = tg.optim.SGD([x], lr=0.5)
    assert optimizer.learning_rate == 0.5
    optimizer.learning_rate = 0.25
    (x * 1.0).sum().backward()
    optimizer.step()
    assert x.tolist() == [0.75]
    with pytest.raises(tg.errors.OptionError, match="learning_rate must be"):
        optimizer.learning_rate = -1.0
    with pytest.raises(tg.errors.GradientError, match="step: no parameter has a gradient"):
        optimizer.zero_grad()
        optimizer.step()


def test_what_optimizers_refuse() -> None:
    no_optimizer: Any = 0.1
    with pytest.raises(tg.errors.OptionError, match="an optimizer takes parameters: there are none"):
        tg.optim.SGD([], 0.1)
    with pytest.raises(tg.errors.OptionError, match=r"model\.initialized\(seed, device=\.\.\.\) has tensors"):
        tg.optim.SGD(tg.nn.Linear(2, 2).parameters(), 0.1)
    with pytest.raises(tg.errors.GradientError, match="'0' has not"):
        tg.optim.SGD([tg.tensor([1.0], device="numpy")], 0.1)
    with pytest.raises(tg.errors.OptionError, match="parameters of one device"):
        tg.optim.SGD([leaf([1.0]), leaf([1.0], "cpu")], 0.1)
    with pytest.raises(tg.errors.OptionError, match=r"Stepper takes an optimizer such as tg\.optim\.adam"):
        tg.optim.Stepper([leaf([1.0])], no_optimizer)


def test_parameters_without_a_gradient_stay() -> None:
    x, y = leaf([1.0]), leaf([1.0])
    optimizer = tg.optim.Adam({"x": x, "y": y}, lr=0.1)
    (x * 2).sum().backward()
    optimizer.step()
    assert (x.tolist() != [1.0], y.tolist()) == (True, [1.0])


@pytest.mark.parametrize("place", ["numpy", "cpu"])
@pytest.mark.parametrize("row_bytes", [1, 1 << 26])
def test_state_lies_in_rows(row_bytes: int, place: tg.DeviceName, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many rows there are, and though some parameters have no gradient in some steps."""
    monkeypatch.setattr(packed_update, "ROW_BYTES", row_bytes)
    start = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)
    parameters = [leaf(one, place) for one in start]
    others = [torch.nn.Parameter(torch.tensor(one)) for one in start]
    ours, theirs = tg.optim.Adam(parameters, lr=0.1), torch.optim.Adam(others, lr=0.1)
    for step in range(6):
        for optimizer, values in ((ours, parameters), (theirs, others)):
            optimizer.zero_grad()
            given: Any = values if step != 5 else values[:2]
            loss: Any = sum((one**2).sum() for one in given)
            loss.backward()
            optimizer.step()
    for one, other in zip(parameters, others, strict=True):
        np.testing.assert_allclose(one.numpy(), other.detach().numpy(), rtol=1e-5, atol=1e-6)
    state = ours.state_dict()
    for number, other in enumerate(others):
        for key, theirs_ in (("m", "exp_avg"), ("v", "exp_avg_sq")):
            np.testing.assert_allclose(state[f"adam.{key}/{number}"], theirs.state[other][theirs_].numpy(), rtol=1e-4)


def test_batch_norm_keeps_its_statistics() -> None:
    model = tg.nn.BatchNorm1d(3).initialized(device="cpu")
    x = np.random.default_rng(0).normal(2.0, 3.0, (64, 3)).astype(np.float32)
    for _ in range(3):
        model(tg.tensor(x, device="cpu"))
    mean = next(value for path, value in model.named_buffers().items() if "mean" in path)
    assert np.all(np.abs(mean.numpy()) > 0.2)
    evaluated = tg.nn.inference(model)(tg.tensor(x, device="cpu"))
    assert float(tg.mean(evaluated)) != pytest.approx(0.0, abs=1e-3)


def test_a_model_lets_its_gradients_go() -> None:
    model = tg.nn.Linear(2, 1).initialized(device="numpy")
    model(np.ones((1, 2), np.float32)).sum().backward()
    assert all(one.grad is not None for one in model.parameters())
    model.zero_grad()
    assert all(one.grad is None for one in model.parameters())
    with pytest.raises(tg.errors.ParameterError, match="zero_grad: weight is declared and gathers no gradient"):
        tg.nn.Linear(2, 1).zero_grad()


def test_frozen_parameters_gather_none() -> None:
    model = classifier()
    model.freeze("0.*")
    made = model.initialized(device="numpy")
    assert [one.requires_grad for one in made.parameters()] == [False, False, True, True]


@pytest.mark.parametrize(("place", "steps"), [("numpy", 2_000), ("cpu", 10_000)])
def test_ten_thousand_steps_leave_nothing(place: tg.DeviceName, steps: int) -> None:
    x = leaf([1.0, 2.0], place)
    optimizer = tg.optim.SGD([x], lr=1e-4)
    counts: list[int] = []
    losses: list[Any] = []
    for step in range(steps):
        optimizer.zero_grad()
        loss = (x * x).sum()
        loss.backward()
        optimizer.step()
        losses = [*losses[-4:], loss]
        if step in (100, steps - 1):
            gc.collect()
            counts.append(len(gc.get_objects()))
    assert counts[1] - counts[0] < 200
