"""Optimizers compared with a transcription of PyTorch's formulas."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin
from xdsl.dialects.func import Func, FuncOp
from xdsl.parser import Parser
from xdsl.utils.exceptions import DiagnosticException

import tensorgrad as tg
from tensorgrad.dialects.signature import arguments_of, results_of
from tensorgrad.dialects.tg import Tg
from tensorgrad.errors import OptionError
from tensorgrad.passes.tensors.append_updates import AppendUpdatesPass
from tensorgrad.runtime.program import Program
from tensorgrad.tools.trace_optimizer import TraceOptimizerPass, read_optimizer

untyped: Any = tg
"""The package as code without types calls it."""

Array = np.ndarray[Any, Any]
Step = Callable[[int, Array, Array, float], Array]


def numpy_sgd(momentum=0.0, dampening=0.0, nesterov=False, weight_decay=0.0) -> Step:
    buffers: list[Array] = []

    def step(number: int, p: Array, g: Array, learning_rate: float) -> Array:
        if weight_decay:
            g = g + weight_decay * p
        if momentum:
            buffers.append(g if number == 1 else momentum * buffers[-1] + (1 - dampening) * g)
            g = g + momentum * buffers[-1] if nesterov else buffers[-1]
        return p - learning_rate * g

    return step


def numpy_adam(betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0) -> Step:
    state: dict[str, Any] = {"m": 0.0, "v": 0.0}
    beta1, beta2 = betas

    def step(number: int, p: Array, g: Array, learning_rate: float) -> Array:
        if weight_decay:
            g = g + weight_decay * p
        state["m"] = beta1 * state["m"] + (1 - beta1) * g
        state["v"] = beta2 * state["v"] + (1 - beta2) * g * g
        denominator = np.sqrt(state["v"]) / math.sqrt(1 - beta2**number) + eps
        return p - learning_rate / (1 - beta1**number) * state["m"] / denominator

    return step


def numpy_adamw(betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2) -> Step:
    adam = numpy_adam(betas, eps)

    def step(number: int, p: Array, g: Array, learning_rate: float) -> Array:
        return adam(number, p - learning_rate * weight_decay * p, g, learning_rate)

    return step


def numpy_rmsprop(alpha=0.99, eps=1e-8, weight_decay=0.0, momentum=0.0, centered=False) -> Step:
    state: dict[str, Any] = {"v": 0.0, "m": 0.0, "buffer": 0.0}

    def step(number: int, p: Array, g: Array, learning_rate: float) -> Array:
        g = g + weight_decay * p
        state["v"] = alpha * state["v"] + (1 - alpha) * g * g
        state["m"] = alpha * state["m"] + (1 - alpha) * g
        variance = state["v"] - state["m"] ** 2 if centered else state["v"]
        state["buffer"] = momentum * state["buffer"] + g / (np.sqrt(variance) + eps)
        return p - learning_rate * state["buffer"]

    return step


def numpy_adagrad(lr_decay=0.0, weight_decay=0.0, initial_accumulator_value=0.0, eps=1e-10) -> Step:
    state: dict[str, Any] = {"sum": initial_accumulator_value}

    def step(number: int, p: Array, g: Array, learning_rate: float) -> Array:
        g = g + weight_decay * p
        state["sum"] = state["sum"] + g * g
        return p - learning_rate / (1 + (number - 1) * lr_decay) * g / (np.sqrt(state["sum"]) + eps)

    return step


def numpy_lion(betas=(0.9, 0.99), weight_decay=0.0) -> Step:
    state: dict[str, Any] = {"m": 0.0}

    def step(number: int, p: Array, g: Array, learning_rate: float) -> Array:
        direction = np.sign(betas[0] * state["m"] + (1 - betas[0]) * g)
        state["m"] = betas[1] * state["m"] + (1 - betas[1]) * g
        return p - learning_rate * weight_decay * p - learning_rate * direction

    return step


def clipped(transcription: Callable[..., Step]) -> Callable[..., Step]:
    """An optimizer with `torch.nn.utils.clip_grad_norm_` before it."""

    def make(clip_norm: float, **options: Any) -> Step:
        inner = transcription(**options)

        def step(number: int, p: Array, g: Array, learning_rate: float) -> Array:
            return inner(number, p, g * min(1.0, clip_norm / (np.sqrt(np.sum(g * g)) + 1e-6)), learning_rate)

        return step

    return make


CASES: list[tuple[Callable[..., Any], Callable[..., Step], dict[str, Any]]] = [
    (tg.optim.sgd, numpy_sgd, {}),
    (tg.optim.sgd, numpy_sgd, {"weight_decay": 0.1}),
    (tg.optim.sgd, numpy_sgd, {"momentum": 0.9}),
    (tg.optim.sgd, numpy_sgd, {"momentum": 0.9, "dampening": 0.3, "weight_decay": 0.01}),
    (tg.optim.sgd, numpy_sgd, {"momentum": 0.8, "dampening": 1.0}),
    (tg.optim.sgd, numpy_sgd, {"momentum": 0.9, "nesterov": True}),
    (tg.optim.adam, numpy_adam, {}),
    (tg.optim.adam, numpy_adam, {"betas": (0.5, 0.9), "eps": 1e-3}),
    (tg.optim.adam, numpy_adam, {"betas": (0.0, 0.0), "eps": 0.1}),
    (tg.optim.adam, numpy_adam, {"weight_decay": 0.1}),
    (tg.optim.adamw, numpy_adamw, {}),
    (tg.optim.adamw, numpy_adamw, {"weight_decay": 0.5, "betas": (0.8, 0.9), "eps": 1e-3}),
    (tg.optim.adamw, numpy_adamw, {"weight_decay": 0.0}),
    (tg.optim.rmsprop, numpy_rmsprop, {}),
    (tg.optim.rmsprop, numpy_rmsprop, {"alpha": 0.9, "weight_decay": 0.1, "momentum": 0.5}),
    (tg.optim.rmsprop, numpy_rmsprop, {"alpha": 0.9, "centered": True, "eps": 0.1}),
    (tg.optim.rmsprop, numpy_rmsprop, {"alpha": 0.5, "centered": True, "momentum": 0.2, "eps": 0.1}),
    (tg.optim.adagrad, numpy_adagrad, {}),
    (tg.optim.adagrad, numpy_adagrad, {"lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.5}),
    (tg.optim.lion, numpy_lion, {}),
    (tg.optim.lion, numpy_lion, {"betas": (0.5, 0.8), "weight_decay": 0.3}),
    (tg.optim.sgd, clipped(numpy_sgd), {"momentum": 0.9, "clip_norm": 1.5}),
    (tg.optim.adamw, clipped(numpy_adamw), {"clip_norm": 2.0}),
]


class Point(tg.nn.Module):
    def __init__(self, start: Array, dtype: str):
        self.p = tg.nn.param(start.shape, init=start, dtype=dtype)


def train(optimizer: Any, start: Array, targets: Array, dtype: str, rates: list[float]) -> list[Array]:
    training = tg.compile(
        Point(start, dtype),
        loss=lambda model, target: tg.sum((model.p - target) ** 2 * 0.5),
        optimizer=optimizer,
        inputs={"target": tg.spec(start.shape, dtype)},
        device="numpy",
    )
    values = []
    for target, rate in zip(targets, rates, strict=True):
        training.set_learning_rate(rate)
        training.step(target=target)
        values.append(training.parameters()["p"])
    return values


@pytest.mark.parametrize(("make", "transcription", "options"), CASES)
@pytest.mark.parametrize(("dtype", "tolerance"), [("f64", 1e-12), ("f32", 2e-5), ("f16", 1e-2)])
def test_updates_are_those_of_pytorch(make, transcription, options, dtype, tolerance):
    generator = np.random.default_rng(0)
    start, targets = generator.normal(size=(3, 2)), generator.normal(size=(20, 3, 2))
    rates = [0.05] * 10 + [0.01] * 10
    values = train(make(0.05, **options), start, targets, dtype, rates)
    step, p = transcription(**options), start.astype(dtype.replace("f", "float"))
    p = p.astype(np.float64)
    for number, (target, rate) in enumerate(zip(targets, rates, strict=True), 1):
        p = step(number, p, p - target, rate)
        assert np.allclose(values[number - 1], p, rtol=tolerance, atol=tolerance)
    assert not np.allclose(values[-1], start, atol=0.05)


class Pair(tg.nn.Module):
    def __init__(self) -> None:
        self.weight = tg.nn.param(3, init=np.array([3.0, 0.0, -1.0]))
        self.bias = tg.nn.param((), init=2.0)


def pair_loss(model: Any, x: Any) -> Any:
    return tg.sum(model.weight * x) + model.bias * 4.0


def pair_step(optimizer: Any, device: tg.DeviceName = "numpy") -> tuple[tg.Training, dict[str, Array]]:
    training = tg.compile(Pair(), loss=pair_loss, optimizer=optimizer, inputs={"x": 3}, device=device)
    training.step(x=np.array([0.0, 3.0, 0.0], np.float32))
    return training, training.parameters()


@pytest.mark.parametrize("device", ["numpy", "cpu", "wgpu"])
def test_the_norm_is_that_of_all_gradients(device):
    _, parameters = pair_step(tg.optim.sgd(1.0, clip_norm=2.5), device)
    assert np.allclose(parameters["weight"], [3.0, -1.5, -1.0], rtol=1e-6) and np.isclose(
        parameters["bias"], 0.0, atol=1e-6
    )
    _, parameters = pair_step(tg.optim.sgd(1.0, clip_norm=5.5), device)
    assert np.array_equal(parameters["weight"], [3.0, -3.0, -1.0]) and parameters["bias"] == -2.0


@pytest.mark.parametrize(
    "optimizer",
    [
        tg.optim.adamw(0.1, clip_norm=1.0),
        tg.optim.rmsprop(0.1, momentum=0.5, centered=True, eps=0.1, weight_decay=0.1),
        tg.optim.adagrad(0.1, initial_accumulator_value=0.5, weight_decay=0.1),
        tg.optim.lion(0.1, weight_decay=0.1, decay="weight"),
    ],
    ids=lambda optimizer: optimizer.name,
)
def test_devices_agree(optimizer):
    (_, actual), (_, expected) = pair_step(optimizer, "wgpu"), pair_step(optimizer)
    assert all(np.allclose(actual[name], expected[name], rtol=1e-5, atol=1e-6) for name in expected)


@pytest.mark.parametrize("decay", ["weight", ["w*"], ["w*", "weight"], lambda name: name != "bias"])
@pytest.mark.parametrize("make", [tg.optim.sgd, tg.optim.adam, tg.optim.adamw, tg.optim.lion])
def test_decay_is_for_some(make, decay):
    _, without = pair_step(make(0.5, weight_decay=0.0))
    _, everywhere = pair_step(make(0.5, weight_decay=0.5))
    _, decayed = pair_step(make(0.5, weight_decay=0.5, decay=decay))
    assert np.array_equal(decayed["weight"], everywhere["weight"]) and decayed["bias"] == without["bias"]
    assert not np.array_equal(everywhere["weight"], without["weight"])


def test_a_decay_pattern_that_fits_nothing_is_refused():
    with pytest.raises(OptionError, match=r"decay '\*\.w' matches no parameter; the parameters are weight, bias"):
        pair_step(tg.optim.adamw(decay=["weight", "*.w"]))


@pytest.mark.parametrize("make", [tg.optim.sgd, tg.optim.adamw, tg.optim.rmsprop, tg.optim.adagrad, tg.optim.lion])
def test_schedules_stand_for_learning_rates(make):
    schedule = tg.optim.schedules.linear(0.06, 5, warmup=1)
    rates = [schedule(step) for step in range(1, 7)]
    start, targets = np.ones((2, 2)), np.random.default_rng(1).normal(size=(6, 2, 2))
    expected = train(make(1.0, weight_decay=0.1), start, targets, "f64", rates)
    actual = train(make(schedule, weight_decay=0.1), start, targets, "f64", [0.06] * 6)
    assert np.allclose(actual, expected, rtol=1e-12)


def test_another_rate_scales_a_schedule():
    training, _ = pair_step(tg.optim.sgd(tg.optim.schedules.step(1.0, 2, factor=0.5)))
    assert training.learning_rate == 1.0
    training.set_learning_rate(4.0)
    training.step(x=np.zeros(3, np.float32))
    assert training.learning_rate == 2.0
    assert training.parameters()["bias"] == 2.0 - 4.0 - 16.0


def test_a_saved_program_has_its_schedule(tmp_path):
    training, _ = pair_step(tg.optim.sgd(tg.optim.schedules.step(1.0, 1, factor=0.5)))
    training.save(tmp_path / "program.tg")
    loaded, _ = Program.load(tmp_path / "program.tg")
    formulas = [slot.formula for slot in loaded.tensors if slot.formula]
    assert formulas == ["(learning_rate * (0.5 ** floor((step - 1) / 1)))"]


GRADIENTS = """
func.func @step(%w: tensor<2xf32> {tg.name = "w", tg.role = "parameter"},
                %b: tensor<3xf32> {tg.name = "b", tg.role = "parameter"},
                %g: tensor<2xf32>, %h: tensor<3xf32>)
    -> (tensor<2xf32> {tg.name = "loss", tg.role = "output"},
        tensor<2xf32> {tg.name = "w", tg.role = "gradient"}, tensor<3xf32> {tg.name = "b", tg.role = "gradient"}) {
  func.return %g, %g, %h : tensor<2xf32>, tensor<2xf32>, tensor<3xf32>
}
"""


def parsed(text: str) -> Any:
    context = Context()
    for dialect in (Builtin, Func, Tg):
        context.load_dialect(dialect)
    return Parser(context, text).parse_module()


def appended(optimizer: str, text: str = GRADIENTS) -> FuncOp:
    module = parsed(text)
    for pass_ in (TraceOptimizerPass(optimizer), AppendUpdatesPass()):
        pass_.apply(Context(), module)
    module.verify()
    return next(op for op in module.ops if isinstance(op, FuncOp))


def test_adam_appends_state_scalars_and_updates():
    function = appended("adam")
    arguments = [(slot.role, slot.name) for slot in arguments_of(function)][4:]
    formulas = [
        "1 - beta1",
        "beta2",
        "1 - beta2",
        "sqrt(1 - beta2 ** step)",
        "eps",
        "learning_rate / (1 - beta1 ** step)",
    ]
    states = ["adam.m/w", "adam.m/b", "adam.v/w", "adam.v/b"]
    assert arguments == [
        *(("state", name) for name in states),
        *(("scalar", formula) for formula in formulas),
    ]
    assert [slot.formula for slot in arguments_of(function) if slot.formula] == formulas
    results = [(slot.role, slot.name) for slot in results_of(function)]
    assert results == [("output", "loss"), *(("update", name) for name in ["w", "b", *states])]


def test_plain_sgd_has_no_state():
    function = appended("sgd")
    assert [slot.role for slot in arguments_of(function)][4:] == ["scalar"]
    assert [slot.role for slot in results_of(function)] == ["output", "update", "update"]


def replaced(*pairs: tuple[str, str]) -> str:
    """Returns `GRADIENTS` with some entries replaced."""
    text = GRADIENTS
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return text


OF_NO_PARAMETER = replaced(('{tg.name = "b", tg.role = "gradient"}', '{tg.name = "c", tg.role = "gradient"}'))
OF_ANOTHER_SHAPE = replaced(
    ("func.return %g, %g, %h : tensor<2xf32>, tensor<2xf32>", "func.return %g, %h, %h : tensor<2xf32>, tensor<3xf32>"),
    ('tensor<2xf32> {tg.name = "w", tg.role = "gradient"}', 'tensor<3xf32> {tg.name = "w", tg.role = "gradient"}'),
)


@pytest.mark.parametrize(
    ("optimizer", "text", "message"),
    [
        ("adam", GRADIENTS.replace('"gradient"', '"output"'), "no gradient"),
        ("adam", OF_NO_PARAMETER, "no parameter 'c'"),
        ("adam", OF_ANOTHER_SHAPE, "its gradient"),
        ("adamw(decay='c')", GRADIENTS, "decay 'c' matches no parameter"),
        ("adam(groups={'c': {'eps': 1.0}})", GRADIENTS, "'c' matches no trained parameter"),
    ],
)
def test_passes_refuse(optimizer, text, message):
    module = parsed(text)
    before = str(module)
    with pytest.raises(DiagnosticException, match=message):
        TraceOptimizerPass(optimizer).apply(Context(), module)
        before = str(module)
        AppendUpdatesPass().apply(Context(), module)
    assert str(module) == before


@pytest.mark.parametrize(
    "text",
    [
        "adam(",
        "adam(beta1=1.0)",
        "adam(1e-3).name",
        "__import__('os')",
        "schedules._parsed('1')",
        "newton",
        "clip(1.0)",
        "sgd(0.1, momentum=-1.0)",
        "sgd(0.1 + 0.1)",
        "optimizer(1)",
        "chain(clip(1.0))",
        "sgd(f(0.1))",
    ],
)
def test_what_is_no_optimizer(text):
    with pytest.raises(ValueError, match=r"\w"):
        TraceOptimizerPass(text)


def test_an_optimizer_is_written_as_in_python():
    text = """chain(
        clip_by_global_norm(1), scale(-0.5),
        adamw(schedules.cosine(1e-3, 100, warmup=10), decay=["w"], groups={"b": {"eps": 1e-6}}),
    )"""
    optimizer = read_optimizer(text)
    assert [link.name for link in optimizer.links] == ["clip_by_global_norm", "scale"]
    assert optimizer.schedule == tg.optim.schedules.cosine(1e-3, 100, warmup=10)
    assert optimizer.groups == {"b": {"eps": 1e-6}} and optimizer.links[1].settings == {"factor": -0.5}


def test_appending_twice_is_refused():
    text = GRADIENTS.replace("%g: tensor<2xf32>,", '%g: tensor<2xf32> {tg.name = "adam.m/w", tg.role = "state"},')
    with pytest.raises(DiagnosticException, match=r"has a state adam\.m/w already"):
        appended("adam", text)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: tg.optim.adam(math.nan), "learning_rate"),
        (lambda: tg.optim.adam(-1e-3), "learning_rate"),
        (lambda: tg.optim.adam(math.inf), "learning_rate"),
        (lambda: untyped.optim.adam("fast"), "learning_rate"),
        (lambda: tg.optim.adam(1e-3, betas=(0.9, 1.0)), r"betas\[1\]"),
        (lambda: tg.optim.adam(1e-3, betas=(-0.1, 0.9)), r"betas\[0\]"),
        (lambda: untyped.optim.adam(1e-3, betas=0.9), "betas"),
        (lambda: tg.optim.adam(1e-3, eps=math.nan), "eps"),
        (lambda: tg.optim.adam(1e-3, weight_decay=-1), "weight_decay"),
        (lambda: tg.optim.sgd(math.nan), "learning_rate"),
        (lambda: tg.optim.sgd(0.1, momentum=-0.5), "momentum"),
        (lambda: tg.optim.sgd(0.1, dampening=1.5), "dampening"),
        (lambda: tg.optim.sgd(0.1, nesterov=True), "nesterov"),
        (lambda: tg.optim.sgd(0.1, momentum=0.9, dampening=0.1, nesterov=True), "nesterov"),
        (lambda: tg.optim.adamw(betas=(1.0, 0.9)), r"betas\[0\]"),
        (lambda: tg.optim.adamw(clip_norm=0.0), "clip_norm"),
        (lambda: tg.optim.adamw(clip_norm=math.inf), "clip_norm"),
        (lambda: untyped.optim.adamw(decay=3), "decay"),
        (lambda: tg.optim.rmsprop(alpha=1.0), "alpha"),
        (lambda: tg.optim.rmsprop(momentum=-1), "momentum"),
        (lambda: tg.optim.adagrad(lr_decay=math.nan), "lr_decay"),
        (lambda: tg.optim.adagrad(initial_accumulator_value=-1), "initial_accumulator_value"),
        (lambda: tg.optim.lion(weight_decay=-1), "weight_decay"),
    ],
)
def test_settings_out_of_range(call, name):
    with pytest.raises(OptionError, match=name):
        call()
