"""Modules: declaring, finding, sampling and binding parameters."""

from __future__ import annotations

import copy
import dataclasses
import math
import pickle
from collections import namedtuple
from typing import Any, cast
from xml.etree.ElementTree import fromstring

import numpy as np
import pytest
from models import MLP, compiled

import tensorgrad as tg
from tensorgrad.errors import DTypeError, InputError, OptionError, ParameterError, ShapeError

untyped: Any = tg
"""The package as code without types calls it."""

Pair = namedtuple("Pair", "first second")


class Nested(tg.nn.Module):
    def __init__(self) -> None:
        # On purpose without super().__init__().
        self.blocks = [tg.nn.Linear(2, 3), {"w": tg.nn.param((3,), init=1.0)}]
        self.pair = Pair(tg.nn.Linear(3, 3, bias=False), 5)
        self.name = "nested"
        self.again = self.blocks[0]
        self.same = self.pair.first.weight

    def __call__(self, x: Any) -> Any:
        return self.pair.first(self.again(x) * self.blocks[1]["w"]) * self.pair.second


@dataclasses.dataclass
class Scale(tg.nn.Module):
    factor: tg.nn.Parameter

    def __call__(self, x: Any) -> Any:
        return x * self.factor


def drawn(model: tg.nn.Module, seed: int = 0) -> dict[str, np.ndarray]:
    training = tg.compile(
        model,
        loss=lambda model: 0.0,
        optimizer=tg.optim.sgd(0.0),
        inputs={},
        device="numpy",
        seed=seed,
    )
    return training.parameters()


def test_parameters_are_named_by_their_first_path():
    parameters = Nested().named_parameters()
    assert {path: parameter.shape for path, parameter in parameters.items()} == {
        "blocks.0.weight": (2, 3),
        "blocks.0.bias": (3,),
        "blocks.1.w": (3,),
        "pair.first.weight": (3, 3),
    }


def test_inside_a_trace_the_named_are_tensors():
    class Tracking(Nested):
        def __init__(self):
            super().__init__()
            self.mean = tg.nn.buffer(3)

    def loss(model, x):
        assert list(model.named_parameters()) == list(Tracking().named_parameters())
        assert list(model.blocks[0].named_parameters()) == ["weight", "bias"]
        assert all(isinstance(value, tg.Tensor) for value in (*model.parameters(), *model.buffers()))
        (mean,) = model.named_buffers().values()
        mean.assign(0.5 * mean + x)
        penalty = sum(tg.sum(value**2) for value in model.named_parameters().values())
        return penalty + tg.sum(tg.nn.inference(model).named_parameters()["blocks.1.w"] * 0.0)

    options = {"loss": loss, "optimizer": tg.optim.sgd(0.25), "inputs": {"x": (3,)}, "device": "numpy"}
    training = tg.compile(Tracking(), **options)
    before = training.parameters()
    squares = float(training.step(x=[2, 4, 6]))
    assert squares == pytest.approx(sum((value**2).sum() for value in before.values()), rel=1e-5)
    assert all(np.allclose(value, 0.5 * before[path]) for path, value in training.parameters().items())
    assert training.buffers()["mean"].tolist() == [2, 4, 6]
    look = training.attach(
        lambda model: [tg.sum(value) for value in (*model.parameters(), *model.buffers())], inputs={}
    )
    assert [float(value) for value in look()][-1] == 12


def test_containers_dataclasses_and_shared_parts_compute():
    model = Nested()
    training = tg.compile(
        model,
        loss=lambda model, x: tg.sum(model(x)),
        optimizer=tg.optim.sgd(0.1),
        inputs={"x": (4, 2)},
        device="numpy",
    )
    w = training.parameters()
    x = np.random.default_rng(0).normal(size=(4, 2)).astype(np.float32)
    expected = ((x @ w["blocks.0.weight"] + w["blocks.0.bias"]) * w["blocks.1.w"]) @ w["pair.first.weight"] * 5
    assert float(training.step(x=x)) == pytest.approx(expected.sum(), rel=1e-4, abs=1e-4)
    scaled = tg.compile(
        Scale(tg.nn.param((), init=3.0)),
        loss=lambda model, x: tg.sum(model(x)),
        optimizer=tg.optim.sgd(0.0),
        inputs={"x": 2},
        device="numpy",
    )
    assert float(scaled.step(x=[1.0, 2.0])) == 9.0


@pytest.mark.parametrize("leaf", [tg.nn.param((2, 3), init=0.0), tg.nn.buffer(3)])
@pytest.mark.parametrize(
    "use", [drawn, lambda model: model.initialized(0), lambda model: model.named_parameters()], ids=range(3)
)
def test_a_path_with_a_slash_is_refused(leaf: Any, use: Any) -> None:
    model = Nested()
    model.blocks.append({"en/fr": [leaf]})
    with pytest.raises(ParameterError, match=r"the path 'blocks\.2\.en/fr\.0' .* has a slash.*'blocks\.2\.en_fr\.0'"):
        use(model)


def test_a_shared_module_gets_the_sum_of_its_gradients():
    class Tied(tg.nn.Module):
        def __init__(self) -> None:
            self.a = tg.nn.Linear(2, 2, bias=False)
            self.b = self.a

        def __call__(self, x: Any) -> Any:
            return self.a(x) + 2 * self.b(x)

    training = tg.compile(
        Tied(), loss=lambda m, x: tg.sum(m(x)), optimizer=tg.optim.sgd(1.0), inputs={"x": (1, 2)}, device="numpy"
    )
    before = training.parameters()["a.weight"]
    training.step(x=np.ones((1, 2)))
    assert list(training.parameters()) == ["a.weight"]
    assert np.allclose(before - training.parameters()["a.weight"], 3.0, atol=1e-5)


def test_the_module_itself_stays_as_it_was_and_serves_several_programs():
    model = MLP(3, 5, 2)
    before = model.named_parameters()

    def caching(model: Any, x: Any, y: Any) -> Any:
        model.cache = model(x)
        model.layers.append("not a parameter")
        return tg.mse(model.cache, y)

    first, second = compiled(model=model, loss=caching), compiled(model=model)
    inputs = {"x": np.ones((4, 3)), "y": np.ones((4, 2))}
    assert float(first.step(**inputs)) == float(second.step(**inputs))
    assert model.named_parameters() == before
    assert not hasattr(model, "cache") and len(model.layers) == 2


class Assigned(tg.nn.Module):
    """Arrays as parameters, and a table that is not one."""

    def __init__(self) -> None:
        self.w: Any = np.arange(6.0).reshape(3, 2)
        self.b: Any = tg.zeros(2)
        self.half: Any = np.ones(2, np.float16)
        self.order = np.array([2, 0, 1])
        self.count: Any = 0
        self.last: Any = None

    def __call__(self, x: Any) -> Any:
        return (x[:, self.order] @ self.w + self.b) * tg.cast(self.half, tg.f32)


def test_arrays_of_floats_that_are_assigned_are_parameters():
    model = Assigned()
    assert repr(model).split("\n")[1:] == ["  w: f32[3, 2]", "  b: f32[2]", "  half: f16[2]"]
    values = drawn(model)
    assert np.array_equal(values["w"], np.arange(6).reshape(3, 2)) and values["half"].dtype == np.float16
    start = np.ones(2)
    model.b = start
    start[:] = 0
    assert np.array_equal(drawn(model)["b"], [1, 1])
    predict = tg.jit(lambda model, x: model(x))
    with pytest.raises(ParameterError):
        predict(model, np.eye(3))
    training = compiled(model=model, device="numpy")
    assert np.allclose(training.attach(lambda model, x: model(x), inputs={"x": (1, 3)})(x=[[1, 0, 0]]), [[3, 4]])
    with pytest.raises(InputError, match=r"test_nn\.py:\d+: Assigned\.w has values too large for f32"):
        model.w = np.full((3, 2), 1e300)
    model.others = [np.ones(2)]
    with pytest.raises(ParameterError, match=r"'others\.0' is an array in a container: declare it by tg\.nn\.param"):
        model.named_parameters()


@pytest.mark.parametrize("lost", ["last", "count"])
def test_what_a_loss_assigns_to_attributes_is_not_lost_in_silence(lost):
    def keeping(model: Any, x: Any, y: Any) -> Any:
        model.scratch = model(x)
        setattr(model, lost, model.scratch if lost == "last" else model.count + 1)
        return tg.mse(model.scratch, y)

    with pytest.raises(ParameterError, match=rf"keeping\(\) sets {lost} of the copy .* tg\.nn\.buffer and assign"):
        compiled(model=Assigned(), loss=keeping)


def test_parameters_are_drawn_from_the_seed_and_the_path():
    first, again, other = drawn(MLP(3, 5, 2)), drawn(MLP(3, 5, 2)), drawn(MLP(3, 5, 2), seed=1)
    assert all(np.array_equal(first[path], again[path]) for path in first)
    assert not any(np.array_equal(first[path], other[path]) for path in first)
    deeper = drawn(MLP(3, 5, 2, 7))
    assert np.array_equal(first["layers.0.weight"], deeper["layers.0.weight"])


def test_linear_starts_within_its_bound():
    parameters = drawn(tg.nn.Linear(400, 300))
    for values in parameters.values():
        assert abs(values).max() <= 1 / math.sqrt(400)
        assert values.std() == pytest.approx(1 / math.sqrt(3 * 400), rel=0.1)
    assert drawn(tg.nn.Linear(4, 3, bias=False, dtype="f64"))["weight"].dtype == np.float64


@pytest.mark.parametrize(
    ("name", "variance"),
    [
        ("glorot_uniform", 2 / (200 + 100)),
        ("glorot_normal", 2 / (200 + 100)),
        ("he_uniform", 2 / 200),
        ("he_normal", 2 / 200),
        ("lecun_uniform", 1 / 200),
        ("lecun_normal", 1 / 200),
    ],
)
def test_initializers_know_the_fans(name, variance):
    initializer = getattr(tg.initializers, name)
    values = initializer(tg.random.key(0), (200, 100), np.dtype(np.float32))
    assert values.dtype == np.float32
    assert values.var() == pytest.approx(variance, rel=0.05)
    kernel = initializer(tg.random.key(0), (25, 50, 2, 2), np.dtype(np.float32))
    assert kernel.var() == pytest.approx(variance, rel=0.05)
    with pytest.raises(ShapeError, match="fans"):
        initializer(tg.random.key(0), (3,), np.dtype(np.float32))


def test_what_a_parameter_may_start_from():
    model: Any = tg.nn.Module()
    model.number = tg.nn.param((2,), init=1.5)
    model.array = tg.nn.param((2,), init=np.array([1.0, 2.0]))
    model.function = tg.nn.param((2,), init=lambda key, shape, dtype: np.full(shape, 4, dtype))
    model.half = tg.nn.param((2,), init=tg.initializers.normal(1.0, mean=100.0), dtype="f16")
    values = drawn(model)
    assert values["number"].tolist() == [1.5, 1.5]
    assert values["array"].tolist() == [1.0, 2.0]
    assert values["function"].tolist() == [4.0, 4.0]
    assert values["half"].dtype == np.float16 and (values["half"] > 90).all()


def test_repr_shows_the_tree():
    assert repr(Nested()).splitlines() == [
        "Nested: 21 parameters",
        "  blocks",
        "    0: Linear (9)",
        "      weight: f32[2, 3]",
        "      bias: f32[3]",
        "    1",
        "      w: f32[3]",
        "  pair",
        "    first: Linear (9)",
        "      weight: f32[3, 3]",
        "  again: Linear (shared with blocks.0)",
        "  same: f32[3, 3] (shared with pair.first.weight)",
    ]


def test_repr_in_a_notebook():
    class Odd(tg.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = {"<script>": tg.nn.Linear(2, 600), "relu": tg.nn.ReLU(), "numbers": [1, 2]}
            self.loop = self

    model = Odd()
    assert repr(model).splitlines()[1:3] == ["  parts", "    <script>: Linear (1,800)"]
    assert repr(model).splitlines()[-2:] == ["    relu: ReLU", "  loop: Odd (shared with the model itself)"]
    shown = model._repr_html_()
    assert "<script>" not in shown and "&lt;script&gt;: Linear (1,800)" in shown and "numbers" not in shown
    fromstring(shown)  # it is well-formed
    assert repr(tg.nn.ReLU()) == "ReLU: 0 parameters"


def test_shared_parts_keep_one_set_of_parameters():
    class Tied(tg.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens = tg.nn.Embedding(7, 4)
            self.layers = [tg.nn.Linear(4, 4)] * 3
            self.head = {"weight": self.tokens.weight, "last": self.layers[0]}

        def __call__(self, tokens: Any) -> Any:
            x = self.tokens(tokens)
            for layer in [*self.layers, self.head["last"]]:
                x = tg.tanh(layer(x))
            return x @ self.head["weight"].T

    model, tokens = Tied(), np.array([3, 1, 5], np.int32)
    assert list(model.named_parameters()) == ["tokens.weight", "layers.0.weight", "layers.0.bias"]

    def loss(model: Any, tokens: Any) -> Any:
        return tg.cross_entropy(model(tokens), tokens)

    options: Any = {"optimizer": tg.optim.sgd(0.5), "inputs": {"tokens": tg.spec(3, "i32")}}
    trainings = [tg.compile(model, loss=loss, device=device, **options) for device in ("numpy", "numpy", "wgpu")]
    runs = [training.run(5, {"tokens": tokens}) for training in trainings]
    assert np.array_equal(runs[0], runs[1]) and np.allclose(runs[0], runs[2], rtol=1e-4)

    def by_hand(w: Any) -> Any:
        x = w["tokens.weight"][tokens]
        for _ in range(4):
            x = tg.tanh(x @ w["layers.0.weight"] + w["layers.0.bias"])
        return tg.cross_entropy(x @ w["tokens.weight"].T, tokens)

    values = {path: np.array(value) for path, value in drawn(Tied()).items()}
    for expected in runs[0]:
        value, gradient = tg.value_and_grad(by_hand)(values)
        assert float(value) == pytest.approx(expected, rel=1e-5)
        values = {path: values[path] - 0.5 * np.asarray(gradient[path]) for path in values}


def test_one_model_in_several_programs():
    model = MLP(2, 1)
    options: Any = {"loss": lambda model, x: tg.mean(model(x) ** 2), "inputs": {"x": (3, 2)}, "device": "numpy"}
    first, second = (tg.compile(model, optimizer=tg.optim.sgd(rate), **options) for rate in (0.1, 0.2))
    x, start = np.ones((3, 2)), second.parameters()
    first.run(3, {"x": x})
    assert all(np.array_equal(second.parameters()[path], values) for path, values in start.items())
    second.load_parameters(first.parameters())
    assert np.array_equal(first.attach(lambda m, x: m(x))(x=x), second.attach(lambda m, x: m(x))(x=x))


def test_copies_are_models_of_their_own():
    model = MLP(3, 5, 2)
    copied = copy.deepcopy(model)
    assert list(copied.named_parameters()) == list(model.named_parameters())
    assert not set(map(id, copied.named_parameters().values())) & set(map(id, model.named_parameters().values()))


def test_modules_are_trees_of_their_parameters():
    """The gradient with respect to a whole model has the model's structure."""

    def loss(model: Any, x: Any) -> Any:
        gradient = tg.grad(lambda model: tg.sum(model(x) ** 2))(model)
        return tg.sum(gradient.layers[0].weight ** 2) + tg.sum(gradient.layers[0].bias)

    training = tg.compile(MLP(2, 1), loss=loss, optimizer=tg.optim.sgd(0.0), inputs={"x": (3, 2)}, device="numpy")
    w, x = training.parameters(), np.random.default_rng(0).normal(size=(3, 2)).astype(np.float32)
    residual = 2 * (x @ w["layers.0.weight"] + w["layers.0.bias"])
    expected = ((x.T @ residual) ** 2).sum() + residual.sum()
    assert float(training.step(x=x)) == pytest.approx(expected, rel=1e-4)


def test_two_parameters_of_one_path():
    model: Any = tg.nn.Module()
    weight = {"init": 0.0, "shape": (1,)}
    model.d = {"a.b": tg.nn.param(**weight), "a": {"b": tg.nn.param(**weight)}}
    with pytest.raises(ParameterError, match=r"'d.a.b'"):
        model.named_parameters()


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: tg.nn.param((2,), init=0.0, dtype="i32"), DTypeError),
        (lambda: tg.nn.param((-2,), init=0.0), ShapeError),
        (lambda: tg.nn.param((2,), init=cast(Any, "zeros")), OptionError),
        (lambda: tg.nn.param((2,), init=np.zeros(3)), OptionError),
        (lambda: tg.nn.Linear(0, 3), ShapeError),
        (lambda: untyped.nn.Linear(3, 2.0), ShapeError),
        (lambda: tg.initializers.uniform(1.0, 0.0), OptionError),
        (lambda: tg.initializers.normal(-1.0), OptionError),
        (lambda: tg.initializers.variance_scaling(1.0, "both", "normal"), OptionError),
        (lambda: drawn(tg.nn.Module()), ParameterError),
        (lambda: tg.sum(tg.nn.param((2,), init=0.0)), ParameterError),
        (lambda: cast(Any, np.ones((2, 3))) @ tg.nn.Linear(3, 2).weight, ParameterError),
        (lambda: tg.nn.Linear(3, 2)(tg.ones((2, 3))), ParameterError),
    ],
)
def test_bad_declarations(call, error):
    with pytest.raises(error):
        call()


def test_an_initializer_of_another_shape():
    model: Any = tg.nn.Module()
    model.w = tg.nn.param((2,), init=lambda key, shape, dtype: np.zeros(3, dtype))
    with pytest.raises(ParameterError, match=r"parameter w is f32\[2\]"):
        drawn(model)


class Masked(tg.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = Scaled()
        self.parts = {"conv": tg.nn.Conv2d(3, 8, 3), "norm": tg.nn.BatchNorm2d(4), "embedding": tg.nn.Embedding(10, 4)}

    def __call__(self, x: Any, part: str | None = None) -> Any:
        return self.layer(x, mask=tg.ones((3,))) if part is None else self.parts[part](x)


class Scaled(tg.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = tg.nn.param((5,), init=1.0)

    def __call__(self, x: Any, mask: Any) -> Any:
        return x * self.scale * mask


LAYER_MISTAKES: list[tuple[tuple[int, ...], dict[str, Any], str]] = [
    ((2, 4), {}, "`layer` (Scaled) got (2, 4), mask=(3,): multiply: "),
    ((2, 4, 5, 5), {"part": "conv"}, "`parts.conv` (Conv2d 3 -> 8) got (2, 4, 5, 5): "),
    ((2, 3, 5, 5), {"part": "norm"}, "`parts.norm` (BatchNorm2d 4) got (2, 3, 5, 5): "),
]


@pytest.mark.parametrize(("shape", "options", "start"), LAYER_MISTAKES)
@pytest.mark.parametrize("how", ["eager", "device", "jit", "compile"])
def test_shape_errors_start_with_the_innermost_layer(
    how: str, shape: tuple[int, ...], options: dict[str, Any], start: str
) -> None:
    model, x = Masked(), np.ones(shape, np.float32)
    with pytest.raises(ShapeError) as caught:
        if how == "eager":
            model.initialized(0)(x, **options)
        elif how == "device":
            model.initialized(0, device="numpy")(tg.tensor(x, device="numpy"), **options)
        elif how == "jit":
            tg.jit(lambda m, x: m(x, **options), device="numpy")(model.initialized(0), x)
        else:
            tg.compile(model, loss=lambda m, x: tg.mean(m(x, **options)), inputs={"x": shape}, device="numpy")
    assert caught.value.message.startswith(start)
    assert caught.value.layer == start.partition(": ")[0]
    assert str(caught.value).startswith(caught.value.location)


def test_errors_of_layers_survive_pickling_and_wrapping() -> None:
    with pytest.raises(ShapeError) as caught:
        Masked().initialized(0)(np.ones((2, 4), np.float32))
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    assert InputError(caught.value).layer == caught.value.layer


def test_layers_say_what_they_take_and_return() -> None:
    linear, embedding = tg.nn.Linear(4, 3), tg.nn.Embedding(10, 5)
    assert (linear.in_features, linear.out_features) == (4, 3)
    assert (embedding.num_embeddings, embedding.embedding_dim) == (10, 5)
    assert (linear.initialized(0).in_features, linear.initialized(0).out_features) == (4, 3)
