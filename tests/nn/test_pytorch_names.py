"""PyTorch's state dicts in both directions: the same names, layouts and results as PyTorch's modules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np
import pytest
import torch

import tensorgrad as tg
from tensorgrad.errors import (
    ArgumentError,
    AxisError,
    DTypeError,
    GradientError,
    InputError,
    OptionError,
    ParameterError,
    UnknownNameError,
)

untyped: Any = tg
"""The package as code without types calls it."""


def images(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).normal(size=shape).astype(np.float32)


def tokens() -> np.ndarray:
    return np.arange(6, dtype=np.int32).reshape(2, 3)


CASES: dict[str, tuple[Callable[[], tg.nn.Module], Callable[[], torch.nn.Module], np.ndarray]] = {
    "Linear": (lambda: tg.nn.Linear(3, 4), lambda: torch.nn.Linear(3, 4), images(2, 3)),
    "Linear without bias": (lambda: tg.nn.Linear(3, 4, False), lambda: torch.nn.Linear(3, 4, False), images(2, 3)),
    "Conv1d": (lambda: tg.nn.Conv1d(2, 4, 3), lambda: torch.nn.Conv1d(2, 4, 3), images(2, 2, 7)),
    "Conv2d": (
        lambda: tg.nn.Conv2d(4, 6, (3, 2), groups=2),
        lambda: torch.nn.Conv2d(4, 6, (3, 2), groups=2),
        images(2, 4, 5, 5),
    ),
    "Conv3d": (lambda: tg.nn.Conv3d(1, 2, 2), lambda: torch.nn.Conv3d(1, 2, 2), images(1, 1, 3, 3, 3)),
    "ConvTranspose1d": (
        lambda: tg.nn.ConvTranspose1d(2, 3, 3),
        lambda: torch.nn.ConvTranspose1d(2, 3, 3),
        images(2, 2, 4),
    ),
    "ConvTranspose2d": (
        lambda: tg.nn.ConvTranspose2d(4, 6, 3, stride=2, groups=2),
        lambda: torch.nn.ConvTranspose2d(4, 6, 3, stride=2, groups=2),
        images(2, 4, 3, 3),
    ),
    "ConvTranspose3d": (
        lambda: tg.nn.ConvTranspose3d(1, 2, 2),
        lambda: torch.nn.ConvTranspose3d(1, 2, 2),
        images(1, 1, 2, 2, 2),
    ),
    "Embedding": (lambda: tg.nn.Embedding(6, 4), lambda: torch.nn.Embedding(6, 4), tokens()),
    "LayerNorm": (lambda: tg.nn.LayerNorm((2, 3)), lambda: torch.nn.LayerNorm([2, 3]), images(4, 2, 3)),
    "RMSNorm": (lambda: tg.nn.RMSNorm(3, eps=1e-5), lambda: torch.nn.RMSNorm(3, eps=1e-5), images(4, 3)),
    "GroupNorm": (lambda: tg.nn.GroupNorm(2, 4), lambda: torch.nn.GroupNorm(2, 4), images(2, 4, 3)),
    "PReLU": (lambda: tg.nn.PReLU(3), lambda: torch.nn.PReLU(3), images(2, 3, 4)),
    "Sequential": (
        lambda: tg.nn.Sequential(tg.nn.Conv2d(1, 2, 3), tg.nn.ReLU(), tg.nn.Flatten(), tg.nn.Linear(8, 3)),
        lambda: torch.nn.Sequential(
            torch.nn.Conv2d(1, 2, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8, 3)
        ),
        images(2, 1, 4, 4),
    ),
}


def randomized(module: torch.nn.Module) -> torch.nn.Module:
    """Returns the module with values other than the ones and zeros that some layers start with."""
    torch.manual_seed(0)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter)
    return module


def output_of(model: Any, values: Mapping[str, np.ndarray], *inputs: np.ndarray) -> np.ndarray:
    names = [f"x{i}" for i in range(len(inputs))]
    training = tg.compile(
        model,
        loss=lambda model, **x: tg.sum(model(*x.values())) * 1.0,
        optimizer=tg.optim.sgd(0.1),
        inputs={name: tg.spec(x.shape, x.dtype) for name, x in zip(names, inputs, strict=True)},
        device="numpy",
    )
    training.load_parameters(values)
    return np.asarray(training.attach(lambda model, **x: model(*x.values()))(**dict(zip(names, inputs, strict=True))))


def check(ours: Any, theirs: torch.nn.Module, apply: Callable[..., torch.Tensor], *inputs: np.ndarray) -> None:
    """Checks that converted values give the same results, and are unchanged after converting them back."""
    state = theirs.state_dict()
    values = tg.nn.from_torch(ours, state)
    tensors = [torch.from_numpy(x.astype(np.int64) if x.dtype == np.int32 else x) for x in inputs]
    with torch.no_grad():
        expected = apply(*tensors).numpy()
    assert np.allclose(output_of(ours, values, *inputs), expected, rtol=1e-4, atol=1e-5)
    back = tg.nn.to_torch(ours, values)
    assert list(back) == list(state)
    assert all(np.array_equal(back[name], value.numpy()) for name, value in state.items())
    theirs.load_state_dict({name: torch.from_numpy(value) for name, value in back.items()})


@pytest.mark.parametrize("name", CASES)
def test_layers(name):
    ours, theirs, x = CASES[name]
    module = randomized(theirs())
    check(ours(), module, module, x)


@pytest.mark.parametrize("bias", [True, False])
def test_attention(bias):
    module: Any = randomized(torch.nn.MultiheadAttention(8, 2, bias=bias, batch_first=True))
    check(tg.nn.MultiHeadAttention(8, 2, bias=bias), module, lambda x: module(x, x, x)[0], images(2, 5, 8))


def test_attention_with_other_keys_and_values():
    module: Any = randomized(torch.nn.MultiheadAttention(8, 2, kdim=3, vdim=5, batch_first=True))
    ours = tg.nn.MultiHeadAttention(8, 2, kdim=3, vdim=5)
    check(ours, module, lambda *x: module(*x)[0], images(2, 5, 8), images(2, 4, 3), images(2, 4, 5))


def test_attention_with_shared_heads_is_four_linear_layers():
    ours = tg.nn.MultiHeadAttention(8, 4, num_kv_heads=2, bias=False)
    values = {path: images(*parameter.shape) for path, parameter in ours.named_parameters().items()}
    state = tg.nn.to_torch(ours, values)
    assert state["k.weight"].shape == (4, 8) and list(state) == ["q.weight", "k.weight", "v.weight", "out.weight"]
    back = tg.nn.from_torch(ours, state)
    assert all(np.array_equal(back[path], value) for path, value in values.items())


@pytest.mark.parametrize("name", ["RNN", "GRU", "LSTM"])
def test_recurrent_layers(name):
    settings = {"num_layers": 2, "bidirectional": True}
    module: Any = randomized(getattr(torch.nn, name)(3, 4, **settings))
    layer: Any = getattr(tg.nn, name)(3, 4, **settings)
    values = tg.nn.from_torch(layer, module.state_dict())
    back = tg.nn.to_torch(layer, values)
    assert list(back) == list(module.state_dict())
    assert all(np.array_equal(back[path], value.numpy()) for path, value in module.state_dict().items())


class Tied(tg.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = tg.nn.Linear(3, 3)
        self.layers = [self.first, tg.nn.Linear(3, 3)]

    def __call__(self, x: Any) -> Any:
        return self.layers[1](tg.tanh(self.layers[0](self.first(x))))


class TorchTied(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(3, 3)
        self.layers = torch.nn.ModuleList([self.first, torch.nn.Linear(3, 3)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers[1](torch.tanh(self.layers[0](self.first(x))))


def test_shared_modules_have_each_of_their_names():
    module = randomized(TorchTied())
    check(Tied(), module, module, images(2, 3))
    state: dict[str, Any] = dict(module.state_dict())
    expected = tg.nn.from_torch(Tied(), state)
    assert list(expected) == list(Tied().named_parameters())
    del state["layers.0.weight"]
    assert np.array_equal(tg.nn.from_torch(Tied(), state)["first.weight"], expected["first.weight"])
    with pytest.raises(InputError, match=r"layers\.0\.bias differs from what first\.bias is"):
        tg.nn.from_torch(Tied(), {**state, "layers.0.bias": state["first.bias"] + 1})


def test_other_attributes_and_what_is_ignored():
    module = randomized(torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2)))
    state = {f"net.{name}": value for name, value in module.state_dict().items()}
    names = {"layers.0": "net.0", "layers.1": "net.2"}
    ours = tg.nn.MLP(3, 4, 2)
    values = tg.nn.from_torch(ours, {**state, "steps": torch.tensor(3)}, names, ignore="step*")
    with torch.no_grad():
        assert np.allclose(output_of(ours, values, images(2, 3)), module(torch.from_numpy(images(2, 3))), atol=1e-5)
    assert tg.nn.to_torch(ours, values, names).keys() == state.keys()
    with pytest.raises(OptionError, match=r"'layers\.7' is not a path"):
        tg.nn.from_torch(ours, state, {"layers.7": "net"})
    with pytest.raises(OptionError, match=r"ignore 'x\*' matches none of net\.0"):
        tg.nn.from_torch(ours, state, names, ignore=["x*"])


def test_all_that_is_wrong_is_listed():
    state: dict[str, Any] = dict(torch.nn.Linear(3, 4).state_dict())
    message = r"missing: bias; unexpected: extra; of another shape: weight is \[4, 3\], expected \[3, 4\]"
    with pytest.raises(InputError, match=message) as caught:
        tg.nn.from_torch(tg.nn.Linear(4, 3), {"weight": state["weight"], "extra": state["bias"]})
    assert __file__ in str(caught.value)
    with pytest.raises(InputError, match="missing parameter 'bias'"):
        tg.nn.to_torch(tg.nn.Linear(4, 3), {"weight": np.zeros((4, 3))})
    with pytest.raises(InputError, match="bias"):
        tg.nn.from_torch(tg.nn.Linear(3, 4), {**state, "bias": ["a", "b", "c", "d"]})


def test_dtypes():
    layer = tg.nn.Linear(3, 4, dtype="f16")
    theirs = torch.nn.Linear(3, 4)
    for dtype in (torch.float64, torch.bfloat16, torch.float16):
        values = tg.nn.from_torch(layer, theirs.to(dtype).state_dict())
        assert {value.dtype for value in values.values()} == {np.dtype(np.float16)}
    with pytest.raises(InputError, match="too large for f16"):
        tg.nn.from_torch(layer, {"weight": np.full((4, 3), 1e6), "bias": np.zeros(4)})
    training_state = {**tg.nn.from_torch(layer, theirs.state_dict()), "training/step": np.array(3)}
    assert list(tg.nn.to_torch(layer, training_state)) == ["weight", "bias"]


def test_what_is_not_strict_names_what_it_did_without():
    ours = tg.nn.Sequential(tg.nn.Linear(3, 4), tg.nn.BatchNorm1d(4), tg.nn.Linear(4, 2))
    theirs = randomized(torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4)))
    state = {**theirs.state_dict(), "extra.weight": torch.zeros(2), "extra.bias": torch.zeros(2)}
    del state["0.bias"]
    with pytest.raises(
        InputError, match=r"missing: 0\.bias.*unexpected: extra\.weight.*strict=False takes what there is"
    ):
        tg.nn.from_torch(ours, state)
    values = tg.nn.from_torch(ours, state, ignore="extra.bias", strict=False)
    assert values.missing == ("0.bias", "2.weight", "2.bias") and values.unexpected == ("extra.weight",)
    assert np.array_equal(values["0.weight"], state["0.weight"].numpy().T) and "2.weight" not in values
    training = tg.compile(
        ours, loss=lambda m, x: tg.sum(m(x)), optimizer=tg.optim.sgd(0.1), inputs={"x": (4, 3)}, device="numpy"
    )
    before = training.state_dict()
    loaded = training.load_parameters({**values, "head": 1.0}, strict=False)
    assert (loaded.missing, loaded.unexpected) == (values.missing, ("head",))
    after = training.state_dict()
    assert all(np.array_equal(value, values.get(name, before[name])) for name, value in after.items())
    with pytest.raises(InputError, match=r"of another shape: 1\.weight.*ignore= leaves names out"):
        tg.nn.from_torch(ours, {**state, "1.weight": torch.zeros(5)}, strict=False)


REDUCTIONS = ["sum", "mean", "amax", "amin", "prod", "logsumexp", "softmax", "argmax"]


@pytest.mark.parametrize("device", ["numpy", "cpu"])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_eager_tensors_take_the_names_that_traced_ones_take(name: str, device: tg.DeviceName) -> None:
    x: Any = tg.tensor(np.arange(6, dtype=np.float32).reshape(2, 3), device=device)
    function = getattr(tg, name)
    expected = np.asarray(function(np.asarray(x), axis=1))
    for actual in (getattr(x, name)(dim=1), function(x, dim=1), function(x, dims=1)):
        assert np.allclose(np.asarray(actual), expected, rtol=1e-6) and actual.device == device
    for call in (lambda: getattr(x, name)(axes=1), lambda: function(x, axes=1)):
        with pytest.raises(ArgumentError, match=rf"{name}\(\) has no argument 'axes'; it is axis here; it takes \("):
            call()
    with pytest.raises(ArgumentError, match=rf"{name}\(\) (takes|has)"):
        getattr(x, name)(1, False, 2, 3, 4, 5, 6, 7)


def test_declared_parameters_are_counted_and_frozen() -> None:
    model: Any = tg.nn.MLP(4, 8, 1)
    assert sum(p.numel() for p in model.parameters()) == sum(p.size for p in model.parameters()) == 49
    assert [p.ndim for p in model.parameters()] == [2, 1, 2, 1]
    for parameter in model.layers[0].parameters():
        parameter.requires_grad = False
    assert [p.requires_grad for p in model.parameters()] == [False, False, True, True]
    model.layers[0].weight.requires_grad_()
    assert model.layers[0].weight.trainable
    values: Any = model.initialized(0)
    values.layers[0].weight.requires_grad = False
    assert not values.layers[0].weight.trainable and values.layers[1].weight.trainable
    for name, advice in {"nelement": r"p\.numel\(\)", "mean": "it has no values", "nothing": ""}.items():
        with pytest.raises(
            UnknownNameError, match=rf"declared parameter f32\[4, 8\] has no attribute '{name}'.*{advice}"
        ):
            getattr(model.layers[0].weight, name)


def test_size_is_a_number_and_a_method() -> None:
    x: Any = tg.tensor(np.ones((2, 3), np.float32), device="numpy")
    assert (x.size, x.size(), x.size(0), x.size(dim=-1)) == (6, (2, 3), 2, 3)
    weight: Any = tg.nn.Linear(4, 5).weight
    assert (weight.size + 1, weight.size(1)) == (21, 5)
    flat: Any = tg.jit(lambda x: x.reshape(x.size(0) * x.size(1)), device="numpy")(x)
    assert flat.shape == (6,)
    with pytest.raises(AxisError, match=r"size: axis 2 is out of range for shape \(2, 3\)"):
        x.size(2)


def test_weights_in_pytorchs_layout_are_refused() -> None:
    state = torch.nn.Linear(2, 2).state_dict()
    model = tg.nn.Linear(2, 2).initialized(0, device="numpy")
    training = tg.compile(
        tg.nn.Linear(2, 2), loss=lambda m: tg.sum(m.weight), optimizer=tg.optim.sgd(0.1), inputs={}, device="numpy"
    )
    for load in (model.load_state_dict, training.load_parameters):
        with pytest.raises(InputError, match=r"weight is PyTorch's, which lays weights out otherwise.*from_torch"):
            load(state)
    model.load_state_dict(tg.nn.from_torch(tg.nn.Linear(2, 2), state))
    np.testing.assert_array_equal(model.weight.numpy(), state["weight"].numpy().T)


IN_PLACE: list[tuple[str, tuple[Any, ...]]] = [
    *[(name, ()) for name in ("ReLU", "ReLU6", "SELU", "SiLU", "Mish", "Hardsigmoid", "Hardswish")],
    *[("ELU", (0.5,)), ("CELU", (0.5,)), ("LeakyReLU", (0.1,)), ("Hardtanh", (-2.0, 2.5))],
]


@pytest.mark.parametrize(("name", "arguments"), IN_PLACE)
def test_activations_take_and_ignore_whether_they_are_in_place(name: str, arguments: tuple[Any, ...]) -> None:
    x = np.linspace(-4, 4, 13, dtype=np.float32)
    layer: Any = getattr(tg.nn, name)
    expected = getattr(torch.nn, name)(*arguments)(torch.from_numpy(x)).numpy()
    for made in (layer(*arguments), layer(*arguments, True), layer(*arguments, inplace=True)):
        np.testing.assert_allclose(made(x), expected, rtol=1e-5, atol=1e-6)
    with pytest.raises(OptionError, match=f"{name}: inplace must be True or False, got 6"):
        layer(*arguments, inplace=6)


def test_layers_without_arguments_name_those_they_do_not_take() -> None:
    for make, message in {
        lambda: untyped.nn.Sigmoid(3): r"Sigmoid\(\) takes no argument, got 1",
        lambda: untyped.nn.Tanh(inplace=True): r"Tanh\(\) has no argument 'inplace'",
        lambda: untyped.nn.Module(3): r"Module\(\) takes no argument, got 1",
    }.items():
        with pytest.raises(ArgumentError, match=message) as caught:
            make()
        assert caught.value.location.startswith(f"{__file__}:")
    assert tg.nn.Identity(54, unused=True)(3) == 3
    assert tg.nn.inference(tg.nn.Dropout2d(0.5, inplace=True))(tg.ones((1, 1, 1, 1))).shape == (1, 1, 1, 1)


MISTAKES: dict[str, tuple[type[Exception], str, Any]] = {
    "a list of layers": (
        OptionError,
        r"layer 0 can't be called: it is a list; give its layers one by one, as Sequential\(\*layers\)",
        lambda: tg.nn.Sequential(cast(Any, [tg.nn.ReLU()])),
    ),
    "batch_first": (
        ArgumentError,
        "has no argument 'batch_first'; the batch always comes first",
        lambda: untyped.nn.MultiHeadAttention(8, 2, batch_first=True),
    ),
    "a hook": (
        UnknownNameError,
        r"no attribute 'register_forward_hook'; tg.capture\(name, x\)",
        lambda: untyped.nn.Linear(2, 2).register_forward_hook,
    ),
    "integer targets": (
        DTypeError,
        r"takes floats, not f32 and i32; cast first, as x.astype\('f32'\)",
        lambda: tg.binary_cross_entropy_with_logits([1.0, 2.0], [0, 1]),
    ),
    "a module of PyTorch": (
        ParameterError,
        r"not Linear; tg.from_torch\(model, example inputs\) imports",
        lambda: tg.compile(cast(Any, torch.nn.Linear(2, 2)), loss=lambda m, x: tg.mean(m(x)), inputs={"x": (3, 2)}),
    ),
    "one module, two names": (
        OptionError,
        "'t' is not a part of the model with parameters of its own; there are q",
        lambda: tg.compile(
            dict.fromkeys("qt", tg.nn.Linear(2, 2)),
            loss=lambda m, x: tg.mean(m["q"](x)),
            optimizer={"q": tg.optim.sgd(0.1), "t": None},
            inputs={"x": (3, 2)},
            device="numpy",
        ),
    ),
    "a constant model": (
        GradientError,
        r'the parameters of model.initialized\(0, device="cpu"\) do',
        lambda: tg.sum(tg.nn.Linear(2, 2).initialized(0)(tg.tensor(np.ones((1, 2)), device="numpy"))).backward(),
    ),
    "a key that isn't declared": (
        InputError,
        r'missing a required argument: \'key\'; declare a key as "key": tg.spec\(2, "u32"\)',
        lambda: tg.compile(
            tg.nn.Linear(2, 2),
            loss=lambda m, x: tg.mean(m(x)),
            optimizer=tg.optim.sgd(0.1),
            inputs={"x": (3, 2)},
            device="numpy",
        ).attach(lambda m, o, key: m(o) + tg.random.normal(key, (3, 2)), inputs={"o": (3, 2)}),
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_say_what_to_do(name: str) -> None:
    error, message, call = MISTAKES[name]
    with pytest.raises(error, match=message):
        call()


def test_what_is_like_pytorch() -> None:
    assert tg.zeros(cast(Any, np.int64(3))).shape == (3,)
    assert tg.spec(cast(Any, np.prod((2, 4))), "i32").shape == (8,)
    assert tg.ones(3, dtype=torch.bfloat16).dtype == tg.bf16 and tg.ones(3, dtype=torch.int64).dtype == tg.i64
    assert tg.optim.adam(1e-3, groups={"*.w": {"lr": 1.0}}).groups == {"*.w": {"learning_rate": 1.0}}

    class Scaled(tg.nn.Module):
        def __init__(self) -> None:
            self.weight = torch.nn.Parameter(torch.full((3,), 2.0))

    assert np.array_equal(cast(Any, Scaled().initialized(0)).weight, [2, 2, 2])
