"""`tg.jit`: functions without a model."""

from __future__ import annotations

import asyncio
import copy
import functools
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import numpy as np
import pytest

import tensorgrad as tg
from tensorgrad.errors import (
    DTypeError,
    InputError,
    OptionError,
    ParameterError,
    ShapeError,
    TensorgradError,
    TraceError,
)

untyped: Any = tg
"""The package as code without types calls it."""

DEVICES = ["numpy", "cpu", "wgpu"]
X = np.arange(6, dtype=np.float32).reshape(2, 3)


class Line(NamedTuple):
    w: Any
    b: Any


@dataclass
class Pair:
    first: Any
    second: Any = 1.0


@pytest.mark.parametrize("device", DEVICES)
def test_trees_in_and_out(device):
    @tg.jit(device=device)
    def apply(x: Any, line: Any, *more: Any, scale: Any = 2.0, **named: Any) -> Any:
        y = x @ line.w + line.b
        return {"y": y * scale, "pair": Pair(x, sum(more)), "line": line, "none": None, "named": [named["key"] + 1, 7]}

    line = Line(np.ones((3, 2), np.float32), np.array([1, 2]))
    result = apply(X, line, 1, 2.5, key=np.array([1, 2]))
    y = X @ line.w + line.b
    assert np.array_equal(result["y"], 2 * y) and isinstance(result["y"], tg.Array)
    assert isinstance(result["pair"], Pair) and np.array_equal(result["pair"].first, X)
    assert float(result["pair"].second) == 3.5 and result["none"] is None
    assert isinstance(result["line"], Line) and result["line"].b.dtype == np.int32
    assert np.array_equal(result["named"][0], [2, 3]) and int(result["named"][1]) == 7
    again = apply(line=line, x=X, scale=np.float32(3), key=np.array([1, 2]))
    assert np.array_equal(again["y"], 3 * y) and int(again["pair"].second) == 0
    assert apply.specializations == 2 and apply.__name__ == "apply"
    assert device in apply.device
    assert apply.stats()["submits"] == (device != "numpy")


def test_compiles_once_for_each_set_of_shapes():
    traced: list[Any] = []

    @tg.jit(device="numpy")
    def f(x: Any) -> Any:
        traced.append((x.shape, x.dtype.name))
        return x + x

    for value in (X, X + 1, X.astype(np.float64), tg.array(X), X.T, X.astype(np.int64), 2, 2.5):
        assert np.array_equal(f(value), 2 * np.asarray(value))
    assert traced == [((2, 3), "float32"), ((3, 2), "float32"), ((2, 3), "int32"), ((), "int32"), ((), "float32")]
    assert f.specializations == 5
    assert "tensor<f32>" in f.module("traced") and "@f" in f.module("traced")
    for size in range(40):
        f(np.zeros(size))
    assert f.specializations == 32


def test_the_same_leaves_in_another_tree():
    f = tg.jit(lambda tree: sum(tree.values()) if isinstance(tree, dict) else tree[0] - tree[1])
    assert float(f({"a": 3.0, "b": 2.0})) == 5 and float(f([3.0, 2.0])) == 1 and float(f((3.0, 2.0))) == 1
    assert float(f({"a": 1.0, "c": 1.0})) == 2 and f.specializations == 4


def test_static_arguments():
    traced: list[Any] = []

    @tg.jit(static=("kind", "times"))
    def f(x: Any, kind: str = "sum", *, times: int = 1) -> Any:
        traced.append((kind, times))
        return getattr(tg, kind)(x) * times

    assert float(f(X)) == 15 and float(f(X, "max")) == 5 and float(f(X, kind="max", times=2)) == 10
    assert float(f(X + 1, "max")) == 6 and float(f(X, "max", times=2.0)) == 10 and float(f(X, "max", times=True)) == 5
    assert traced == [("sum", 1), ("max", 1), ("max", 2), ("max", 2.0), ("max", True)]
    with pytest.raises(InputError, match=r"f\(\): static argument 'kind': unhashable"):
        f(X, ["sum"])


def test_keys_of_other_types_are_other_trees():
    f = tg.jit(lambda tree: tree[1] if 1 in tree else -tree["1"], device="numpy")
    assert float(f({1: 2.0})) == 2 and float(f({"1": 2.0})) == -2 and float(f({True: 2.0})) == 2
    assert f.specializations == 3


@dataclass(frozen=True)
class Setting:
    """Settings that are compared by their values."""

    value: Any
    note: str = field(default="", compare=False)


SETTINGS: list[tuple[Any, Any]] = [
    (0.0, -0.0),
    (1, 1.0),
    ((1,), (1.0,)),
    ((1, (True, "a")), (1, (1, "a"))),
    (frozenset((1,)), frozenset((1.0,))),
    (Setting(1), Setting(1.0)),
    (Setting((0.0,)), Setting((-0.0,))),
    (complex(0, 0.0), complex(0, -0.0)),
    (np.float32(0), np.float32(-0.0)),
]


@pytest.mark.parametrize(("first", "second"), SETTINGS)
def test_static_arguments_that_only_compare_equal(first: Any, second: Any) -> None:
    traced: list[Any] = []

    @tg.jit(static="setting", device="numpy")
    def f(x: Any, setting: Any) -> Any:
        traced.append(setting)
        return x

    for setting in (first, second, first, second):
        f(X, setting)
    assert first == second and list(map(repr, traced)) == [repr(first), repr(second)]


@pytest.mark.parametrize("make", [lambda: float("nan"), lambda: (float("nan"),), lambda: Setting(float("nan"), "a")])
def test_a_static_nan_is_compiled_once(make: Any) -> None:
    f = tg.jit(lambda x, setting: x, static="setting", device="numpy")
    for setting in (make(), make()):
        f(X, setting)
    assert f.specializations == 1


def test_fixed_attributes_of_modules_that_only_compare_equal() -> None:
    class Scaled(tg.nn.Module):
        def __init__(self, factor: Any) -> None:
            self.factor = factor

        def __call__(self, x: Any) -> Any:
            return x / tg.ones(()) * float(self.factor)

    f = tg.jit(lambda model, x: model(x), device="numpy")
    signs = [float(np.copysign(1, f(Scaled(zero).initialized(0), 1.0))) for zero in (0.0, -0.0)]
    assert signs == [1, -1] and f.specializations == 2
    for _ in range(2):
        f(Scaled(float("nan")).initialized(0), 1.0)
    assert f.specializations == 3


@pytest.mark.parametrize("device", DEVICES)
def test_derivatives_inside_and_outside(device):
    cubes = tg.jit(lambda x: tg.sum(x**3), device=device)
    slope = tg.jit(tg.grad(lambda x: tg.sum(x**3)), device=device)
    assert np.allclose(slope(X), 3 * X**2) and np.allclose(tg.grad(cubes)(X), 3 * X**2)
    assert np.allclose(tg.jit(tg.grad(cubes), device=device)(X), 3 * X**2)
    value, curvature = tg.jit(lambda x: (cubes(x), tg.grad(lambda y: tg.sum(tg.grad(cubes)(y)))(x)), device=device)(X)
    assert float(value) == (X**3).sum() and np.allclose(curvature, 6 * X)


@pytest.mark.parametrize("device", DEVICES)
def test_without_arguments_and_without_elements(device):
    assert np.array_equal(tg.jit(lambda: tg.arange(4), device=device)(), np.arange(4))
    assert np.array_equal(tg.jit(lambda x: x * 2, device=device)(np.zeros((0, 3))), np.zeros((0, 3)))
    noise = tg.jit(lambda key: tg.random.uniform(key, (5,)), device=device)
    assert np.array_equal(noise(tg.random.key(1)), tg.random.uniform(tg.random.key(1), (5,)))


def test_functions_of_every_kind():
    class Scaled:
        factor = 3.0

        def __call__(self, x: Any) -> Any:
            return x * self.factor

        @tg.jit(static="self")
        def method(self, x: Any) -> Any:
            return x * self.factor

    scaled = Scaled()
    assert float(tg.jit(scaled)(2.0)) == 6 == float(scaled.method(2.0))
    assert float(tg.jit(functools.partial(lambda k, x: k * x, 4.0))(2.0)) == 8
    assert float(tg.jit(tg.exp)(0.0)) == 1
    handle = tg.jit(lambda x: x + 1, device="wgpu")(1.0)

    async def read() -> float:
        return float(await handle)

    assert asyncio.run(read()) == 2.0
    assert "lambda_line_" in repr(tg.jit(lambda x: x))


def test_what_comes_later_sees_earlier_results_as_they_were():
    double = tg.jit(lambda x: x * 2, device="wgpu")
    results = [double(float(i)) for i in range(150)]
    assert [float(result) for result in results] == [2.0 * i for i in range(150)]


def fails(x: Any, y: Any = 1) -> Any:
    return x + y @ x


CALLS: list[tuple[Any, type[TensorgradError], str]] = [
    (lambda: tg.jit(fails)(X, X), ShapeError, "matmul"),
    (lambda: tg.jit(fails)(), InputError, r"fails\(\): missing a required argument: 'x'; it takes \(x: 'Any', y"),
    (lambda: tg.jit(fails)(X, z=1), InputError, "unexpected keyword argument 'z'"),
    (lambda: tg.jit(fails)(X, X, y=X), InputError, "multiple values for argument 'y'"),
    (lambda: tg.jit(fails)(X, "text"), DTypeError, r"in argument 'y' of fails\(\); what is not an array goes into"),
    (lambda: tg.jit(fails)({"a": [1j]}), DTypeError, r"complex128 as a tensor, in argument 'x\.a\.0'"),
    (lambda: tg.jit(fails)(2**40), DTypeError, r"outside of i32; .*, in argument 'x' of fails\(\)"),
    (lambda: tg.jit(fails)(tg.nn.Linear(2, 2)), ParameterError, "has no values"),
    (lambda: tg.jit(lambda x: None)(X), TraceError, r"lambda_line_\d+\(\) returned no tensor"),
    (lambda: tg.jit(lambda x: "text")(X), TraceError, "returned str"),
    (lambda: tg.jit(lambda x: x if x > 0 else -x)(2.0), TraceError, "Python control flow"),
    (lambda: tg.jit(fails, static="z"), OptionError, r"static argument 'z' is none of \(x"),
    (lambda: untyped.jit(3), OptionError, "takes a function, got 3"),
]


@pytest.mark.parametrize(("call", "error", "message"), CALLS)
def test_errors_name_the_line(call, error, message):
    with pytest.raises(error, match=message) as caught:
        call()
    assert __file__ in str(caught.value)


def test_options():
    with pytest.raises(OptionError, match="device must be one of auto, wgpu, cpu, numpy"):
        untyped.jit(fails, device="cuda")
    with pytest.raises(TensorgradError, match="f64"):
        tg.jit(lambda x: tg.cast(x, "f64"), device="wgpu")(1.0)
    assert tg.jit(lambda x: tg.cast(x, "f64"), device="numpy")(1.0).dtype == np.float64


def test_attention_keeps_no_scores_without_a_derivative():
    query = np.ones((1, 2, 256, 16), np.float32)
    attend = tg.jit(lambda q: tg.nn.scaled_dot_product_attention(q, q, q, is_causal=True), device="wgpu")
    attend(query)
    assert "@attention" in attend.module("tg")
    assert attend.program.statistics["peak_bytes"] < 4 * 2 * 256 * 256

    class Model(tg.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = tg.nn.param((), init=1.0)

    training = tg.compile(
        Model(),
        loss=lambda model, q: tg.mean(model.scale * q),
        optimizer=tg.optim.sgd(0.1),
        inputs={"q": query.shape},
        device="numpy",
    )
    forward = training.attach(
        lambda model, q: tg.nn.scaled_dot_product_attention(q * model.scale, q, q, is_causal=True)
    )
    assert np.allclose(forward(q=query), attend(query), atol=1e-5)
    assert "@attention" in forward.module("tg")


class Scaled(tg.nn.Module):
    def __init__(self, factor: float = 1.0) -> None:
        super().__init__()
        self.layer, self.norm, self.factor = tg.nn.Linear(3, 4), tg.nn.BatchNorm1d(4), factor

    def __call__(self, x: Any) -> Any:
        return self.norm(self.layer(x)) * self.factor


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("device", ["numpy", "cpu", "wgpu"])
def test_initialized_models_are_called_and_compiled(device: tg.DeviceName) -> None:
    model, x = Scaled(), np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    values = model.initialized(3)
    training = tg.compile(
        model, loss=lambda m, x: tg.sum(m(x)), optimizer=None, inputs={"x": x.shape}, device=device, seed=3
    )
    assert all(np.array_equal(values.named_parameters()[path], v) for path, v in training.parameters().items())
    assert np.array_equal(training.model().layer.weight, values.layer.weight)
    expected = np.asarray(training.attach(lambda m, x: tg.nn.inference(m)(x))(x=x))
    assert np.allclose(tg.nn.inference(values)(x), expected, rtol=1e-5, atol=1e-6)

    @tg.jit(device=device)
    def forward(model: Any, x: Any) -> Any:
        return tg.nn.inference(model)(x)

    assert np.allclose(forward(values, x), expected, rtol=1e-5, atol=1e-6)
    other = model.initialized(4)
    assert not np.allclose(forward(other, x), expected) and forward.specializations == 1
    assert np.allclose(forward(Scaled(2.0).initialized(3), x), 2 * expected, rtol=1e-5, atol=1e-6)
    assert forward.specializations == 2  # another number in the model is another program
    moved = model.initialized(3, {"norm.running_mean": np.full(4, 5.0)})
    assert np.allclose(forward(moved, x), expected - 5 * (1 + 1e-5) ** -0.5, rtol=1e-4, atol=1e-4)

    @tg.jit(device=device)
    def descend(model: Any, x: Any) -> Any:
        loss, slope = tg.value_and_grad(lambda m: tg.mean(tg.nn.inference(m)(x) ** 2))(model)
        weights = {
            path: value - 0.1 * slope.named_parameters()[path] for path, value in model.named_parameters().items()
        }
        return loss, slope, weights

    loss, slope, weights = descend(values, x)
    assert isinstance(slope, Scaled) and isinstance(slope.layer.weight, tg.Array)
    assert np.array_equal(np.asarray(slope.norm.running_var), np.ones(4))
    assert float(descend(model.initialized(3, weights), x)[0]) < float(loss)
    with pytest.raises(ParameterError, match=r"norm\.running_mean.*only the loss .* tg\.nn\.inference\(model\)"):
        tg.jit(lambda m, x: m(x), device=device)(values, x)


def test_what_is_initialized_stays() -> None:
    model = Scaled()
    values = model.initialized()
    with pytest.raises(ParameterError, match=r"Linear\.weight is set in an initialized model, where it is an array: "):
        values.layer.weight = np.zeros((3, 4))
    values.factor = 2.0
    assert model.factor == 1.0  # the declared model is another
    with pytest.raises(ParameterError, match=r"'norm\.running_mean' is that of an initialized model"):
        values(np.ones((5, 3)))
    with pytest.raises(InputError, match="unknown parameter 'nothing'"):
        model.initialized(0, {"nothing": 1.0})
    again = copy.deepcopy(values)
    assert again is not values and np.array_equal(again.layer.weight, values.layer.weight)
    pair = tg.compile({"a": values, "b": again}, loss=lambda m: 0.0, optimizer=None, inputs={}, device="numpy")
    start = pair.parameters()
    assert len(start) == 8 and np.array_equal(start["a.layer.weight"], start["b.layer.weight"])
    with pytest.raises(ParameterError, match=r"has no values: .*model\.initialized\(seed\)"):
        tg.jit(lambda m: tg.sum(m.layer.weight), device="numpy")(model)

    def replaced(m: Any) -> Any:
        m.layer.weight = m.layer.weight * 2
        return m

    with pytest.raises(ParameterError, match=r"replaced\(\) must leave a module as it is.*removed layer\.weight"):
        tg.jit(replaced, device="numpy")(values)


def test_arrays_that_come_again_are_still_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    from tensorgrad.runtime.webgpu import WebGPUDevice

    uploads: list[int] = []
    write = WebGPUDevice.write_range

    def counted(self: Any, buffer: Any, offset: int, data: Any) -> None:
        uploads.append(len(data))
        write(self, buffer, offset, data)

    model = tg.nn.Linear(300, 200, bias=False).initialized(0)
    forward = tg.jit(lambda model, x: model(x), device="wgpu")
    x = np.ones((2, 300), np.float32)
    expected = np.asarray(forward(model, x))
    monkeypatch.setattr(WebGPUDevice, "write_range", counted)
    assert np.array_equal(forward(model, x), expected) and sum(uploads) == x.nbytes
    x[:] = 2.0  # an array of numpy may change in place
    assert np.allclose(forward(model, x), 2 * expected, rtol=1e-5, atol=1e-5)
    uploads.clear()
    zeros = model.initialized(values={"weight": np.zeros((300, 200), np.float32)})
    assert not np.any(forward(zeros, x)) and np.any(forward(model, x)) and sum(uploads) > 2 * 4 * 300 * 200
    uploads.clear()
    again = tg.array(x)
    for _ in range(3):
        assert np.allclose(forward(model, again), 2 * expected, rtol=1e-5, atol=1e-5)
    assert sum(uploads) == x.nbytes


@pytest.mark.parametrize("device", ["numpy", "cpu", "wgpu"])
def test_results_live_on_the_device(device: tg.DeviceName) -> None:
    x = np.ones(3, np.float32)
    result: Any = tg.jit(lambda a: (a, a * 2), device=device)(x)
    for part in result:
        assert part.device == device
        part.add_(1.0)
    assert result[0].tolist() == [2, 2, 2] and result[1].tolist() == [3, 3, 3] and x.tolist() == [1, 1, 1]
    training = tg.compile(tg.nn.Linear(3, 1), loss=lambda m: tg.sum(m.weight), optimizer=None, inputs={}, device=device)
    weight: Any = training.attach(lambda m: m.weight)()
    before = training.parameters()["weight"]
    weight.zero_()
    assert np.array_equal(training.parameters()["weight"], before) and weight.device == device


@pytest.mark.parametrize("device", ["numpy", "cpu", "wgpu"])
@pytest.mark.parametrize("size", [3, 40_000])
def test_any_source_may_follow_another(device: tg.DeviceName, size: int) -> None:
    """Arrays of NumPy's and tensors that change in place, tensors that can't, results, and several models in turn."""
    draw = np.random.default_rng(0)
    step = tg.jit(lambda layer, x, y: (x + 2 * y) * layer["scale"], device=device)
    layers = [{"scale": tg.array(float(scale))} for scale in range(1, 4)]
    array, live = np.zeros(size, np.float32), tg.tensor(np.zeros(size, np.float32), device="cpu")
    fixed, result = tg.array(np.full(size, 7.0, np.float32)), tg.array(np.ones(size, np.float32))
    for _ in range(60):
        array += 1.0
        live += 2.0
        layer = layers[draw.integers(3)]
        x, y = ((array, live, fixed, result)[draw.integers(4)] for _ in range(2))
        expected = (np.array(x) + 2 * np.array(y)) * float(layer["scale"])
        actual = step(layer, x, y)
        np.testing.assert_array_equal(actual, expected)
        result = result if draw.integers(2) else tg.array(np.asarray(actual) % 5)
    assert step.specializations == 1


def test_what_is_donated_may_be_passed_elsewhere() -> None:
    step = tg.jit(lambda state, x: (state + x, 3 * x), donate="state", device="cpu")
    other = tg.jit(lambda state, x: state - x, donate="state", device="cpu")
    ones = np.ones(4, np.float32)
    total, state, x = 0 * ones, cast(Any, 0 * ones), cast(Any, ones)
    for number in range(1, 9):
        total = total + np.array(x)
        state, tripled = step(state, x)
        np.testing.assert_array_equal(other(9 * ones, state), 9 - total)
        np.testing.assert_array_equal(state, total)
        x = tripled if number % 3 == 0 else ones
