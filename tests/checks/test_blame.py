"""`Training.blame` finds the origin of a step's first NaN or infinity: the op, its line, and its phase."""

from __future__ import annotations

import inspect
import re
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorgrad as tg
from tensorgrad.checks.blame import Blame
from tensorgrad.checks.nonfinite import NonfiniteSearch, _Flags
from tensorgrad.errors import DivergenceError, InputError, OptionError

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)


class Weights(tg.nn.Module):
    """A weight, and a function of it and the input."""

    def __init__(self, function: Callable[[tg.Tensor, tg.Tensor], tg.Tensor], value: float = 0.5) -> None:
        super().__init__()
        self.weight: Any = tg.nn.param((4,), init=value)
        self.function = function

    def __call__(self, x: tg.Tensor) -> tg.Tensor:
        return self.function(x, self.weight)


def compiled(
    function: Callable[[tg.Tensor, tg.Tensor], tg.Tensor], value: float = 0.5, device: Any = "numpy", **options: Any
) -> tg.Training:
    """Returns a training whose loss is the mean of a function of the input and a weight."""
    settings = {"optimizer": tg.optim.sgd(0.1), "inputs": {"x": (3, 4)}, **options}
    return tg.compile(Weights(function, value), loss=lambda model, x: tg.mean(model(x)), device=device, **settings)


def line_of(function: Callable[..., Any], text: str) -> str:
    """Returns the location of the line in a function that contains a text."""
    lines, first = inspect.getsourcelines(function)
    (number,) = (first + place for place, line in enumerate(lines) if text in line)
    return f"{inspect.getsourcefile(function)}:{number}"


def blame_of(training: tg.Training, **inputs: Any) -> Blame:
    blame = training.blame(**inputs)
    assert blame is not None
    return blame


def test_a_step_whose_values_are_finite_is_not_blamed() -> None:
    training = compiled(lambda x, w: x * w)
    assert training.blame(x=X) is None
    assert training.step_count == 0


def test_an_op_of_the_loss() -> None:
    def function(x: tg.Tensor, w: tg.Tensor) -> tg.Tensor:
        scaled = x * w
        logarithm = tg.log(scaled)
        return logarithm + 1

    blame = blame_of(compiled(function), x=X)
    assert (blame.op, blame.phase, blame.line) == ("tg.log", "forward", line_of(function, "tg.log"))
    assert (blame.result.nans, blame.result.infinities, blame.result.first) == (6, 0, (0, 0))
    (operand,) = blame.operands
    assert (operand.least, operand.most, operand.nans, operand.shape) == (-0.5, 0.5, 0, (3, 4))
    assert blame.nan is None and blame.given is None
    assert blame.reached[0] == "output 'loss'"
    assert str(blame).splitlines()[:2] == [
        f"{blame.line}: tg.log of the loss makes 6 NaN of 12 elements, the first at [0, 0], of",
        "  float32[3, 4] from -0.5 to 0.5",
    ]


def test_an_op_of_the_derivative_names_the_line_that_is_differentiated() -> None:
    def function(x: tg.Tensor, w: tg.Tensor) -> tg.Tensor:
        before = tg.sum(x * w, axis=1) * 0
        return tg.sqrt(before) + tg.sum(x * w, axis=1)

    blame = blame_of(compiled(function), x=X)
    assert (blame.phase, blame.line) == ("backward", line_of(function, "tg.sqrt"))
    assert blame.result.infinities == 3
    assert blame.nan is not None and line_of(function, "* 0") in blame.nan
    assert "output 'loss'" not in blame.reached
    assert "the updated 'weight'" in blame.reached


def test_an_op_of_the_update() -> None:
    training = compiled(lambda x, w: x * 0 * w, optimizer=tg.optim.adam(0.1, eps=0.0))
    blame = blame_of(training, x=X)
    assert (blame.op, blame.phase, blame.result.nans) == ("tg.div", "update", 4)


def test_an_infinity_that_becomes_nan_is_blamed_on_what_made_it() -> None:
    def function(x: tg.Tensor, w: tg.Tensor) -> tg.Tensor:
        grown = tg.exp(x * w * 1000)
        return grown - grown

    blame = blame_of(compiled(function), x=X)
    assert (blame.op, blame.line) == ("tg.exp", line_of(function, "tg.exp"))
    assert blame.nan is not None and line_of(function, "grown - grown") in blame.nan


def test_infinities_that_vanish_are_not_faults() -> None:
    def function(x: tg.Tensor, w: tg.Tensor) -> tg.Tensor:
        masked = tg.where(x > 0, x * w, -float("inf"))
        vanishing = 1 / (1 + tg.exp(x * 1000))
        return tg.softmax(tg.concat([masked, x], axis=1), axis=1)[:, :4] + vanishing

    assert compiled(function).blame(x=X) is None


def test_a_nan_of_constant_infinities_is_blamed_on_the_op_that_makes_it() -> None:
    def function(x: tg.Tensor, w: tg.Tensor) -> tg.Tensor:
        masked = tg.where(x > 2, x * w, -float("inf"))
        return masked - tg.max(masked, axis=1, keepdims=True)

    blame = blame_of(compiled(function), x=X)
    assert (blame.op, blame.line) == ("tg.sub", line_of(function, "tg.max"))
    assert blame.operands[0].infinities == 12


def test_constants_that_reach_the_loss() -> None:
    def selected(x: tg.Tensor, w: tg.Tensor) -> tg.Tensor:
        return tg.where(x > 0, x * w, float("inf"))

    blame = blame_of(compiled(selected), x=X)
    assert (blame.op, blame.line, blame.result.infinities) == ("tg.select", line_of(selected, "tg.where"), 6)

    def masked(x: tg.Tensor, w: tg.Tensor) -> tg.Tensor:
        return tg.max(tg.where(x > 5, x * w, -float("inf")), axis=1)

    assert blame_of(compiled(masked), x=X).op == "tg.select"

    def carried(x: tg.Tensor, w: tg.Tensor) -> tg.Tensor:
        return tg.scan(lambda c, row: (tg.maximum(c, row), c), tg.full((4,), -np.inf, "f32"), x * w)[1]

    assert blame_of(compiled(carried), x=X).result.infinities
    with pytest.raises(DivergenceError, match=r"tg\.select of the loss makes 6 infinite"):
        compiled(selected, check_numerics=True).step(x=X)


def test_an_infinity_at_another_place_is_not_to_blame() -> None:
    def function(x: tg.Tensor, w: tg.Tensor) -> tg.Tensor:
        grown = tg.exp(tg.where(x > 0, x * w - 5, 1000.0)) - 3
        logarithm = tg.log(grown)
        return tg.where(x > 0, logarithm, 0.0)

    blame = blame_of(compiled(function), x=X)
    assert (blame.op, blame.line, blame.nan) == ("tg.log", line_of(function, "tg.log"), None)


def test_only_what_depends_on_the_origin_is_reached() -> None:
    class Two(tg.nn.Module):
        """A model with two weights, and a fault caused by each."""

        def __init__(self) -> None:
            super().__init__()
            self.a: Any = tg.nn.param((4,), init=0.5)
            self.b: Any = tg.nn.param((4,), init=0.5)

    training = tg.compile(
        Two(),
        loss=lambda model, x: tg.mean(tg.sqrt(model.a * x - 9)) + 0 * tg.mean(tg.sqrt(model.b * x - 9)),
        optimizer=tg.optim.adam(0.1),
        inputs={"x": (3, 4)},
        device="numpy",
    )
    reached = blame_of(training, x=X).reached
    assert "output 'loss'" in reached and "the updated 'a'" in reached and "the optimizer's 'adam.m/a'" in reached
    assert "the updated 'b'" not in reached


def test_state_that_was_infinite_before_is_no_fault() -> None:
    class Masked(tg.nn.Module):
        """A mask of infinities."""

        def __init__(self) -> None:
            super().__init__()
            self.weight: Any = tg.nn.param((4,), init=0.5)
            mask = np.where(np.tri(3, 4) > 0, 0, -np.inf).astype(np.float32)
            self.mask: Any = tg.nn.buffer((3, 4), init=mask)

        def __call__(self, x: tg.Tensor) -> tg.Tensor:
            return tg.softmax(x * self.weight + self.mask)

    training = tg.compile(
        Masked(),
        loss=lambda model, x: tg.mean(model(x) ** 2),
        optimizer=tg.optim.sgd(0.1),
        inputs={"x": (3, 4)},
        device="cpu",
        check_numerics=True,
    )
    assert np.isfinite(float(training.step(x=X)))


@pytest.mark.parametrize("what", ["input", "parameter"])
def test_what_is_given_is_named(what: str) -> None:
    training = compiled(lambda x, w: tg.relu(x * w) + tg.log(x))
    x = np.abs(X) + 1
    if what == "input":
        x[1, 2] = np.nan
    else:
        training.load_parameters({"weight": np.array([1, np.nan, 1, 1], np.float32)})
    blame = blame_of(training, x=x)
    assert blame.given == {"input": "input 'x'", "parameter": "parameter 'weight'"}[what]
    assert blame.op is None and blame.result.nans == 1
    assert "before the step" in str(blame)


def test_a_given_infinity_that_becomes_nan() -> None:
    def function(x: tg.Tensor, w: tg.Tensor) -> tg.Tensor:
        return x * w - x * w

    x = X.copy()
    x[0, 0] = np.inf
    blame = blame_of(compiled(function), x=x)
    assert blame.given == "input 'x'"
    assert blame.nan is not None and "tg.sub of the loss" in blame.nan


def test_inside_loops_and_branches() -> None:
    def body(carry: tg.Tensor, row: tg.Tensor) -> tuple[tg.Tensor, tg.Tensor]:
        following = tg.log(carry - 1) * row
        return following, following

    def loop(x: tg.Tensor, w: tg.Tensor) -> tg.Tensor:
        last, rows = tg.scan(body, w * 4, x)
        return last + tg.sum(rows)

    blame = blame_of(compiled(loop), x=X)
    assert (blame.op, blame.phase, blame.line) == ("tg.log", "forward", line_of(body, "tg.log"))

    def branch(x: tg.Tensor, w: tg.Tensor) -> tg.Tensor:
        return tg.cond(tg.sum(x * x) > 0, lambda v: tg.log(v - 1), lambda v: v, w)

    blame = blame_of(compiled(branch), x=X)
    assert (blame.op, blame.line) == ("tg.log", line_of(branch, "tg.log"))


def test_a_row_of_a_given_array_in_a_loop() -> None:
    def loop(x: tg.Tensor, w: tg.Tensor) -> tg.Tensor:
        return tg.scan(lambda carry, row: (carry + row, row), w, x)[0]

    x = X.copy()
    x[2, 1] = np.nan
    assert blame_of(compiled(loop), x=x).given == "input 'x'"


def test_one_of_many_layers() -> None:
    class Layer(tg.nn.Module):
        """A residual layer whose derivative may be NaN although its value is not."""

        def __init__(self, planted: bool) -> None:
            super().__init__()
            self.linear = tg.nn.Linear(4, 4)
            self.planted = planted

        def __call__(self, x: tg.Tensor) -> tg.Tensor:
            hidden = self.linear(x)
            if self.planted:
                return x + tg.sqrt(hidden * 0)  # the line
            return x + tg.tanh(hidden)

    class Layers(tg.nn.Module):
        """Twenty-four such layers."""

        def __init__(self) -> None:
            super().__init__()
            self.layers = [Layer(number == 13) for number in range(24)]

        def __call__(self, x: tg.Tensor) -> tg.Tensor:
            for layer in self.layers:
                x = layer(x)
            return x

    training = tg.compile(
        Layers(),
        loss=lambda model, x: tg.mean(model(x) ** 2),
        optimizer=tg.optim.adam(0.1),
        inputs={"x": (3, 4)},
        device="numpy",
    )
    blame = blame_of(training, x=X)
    assert (blame.phase, blame.line) == ("backward", line_of(Layer, "# the line"))
    # It reaches the layers below, and the planted one, but none above.
    assert "the updated 'layers.13.linear.weight'" in blame.reached
    assert "the updated 'layers.14.linear.weight'" not in blame.reached


@pytest.mark.parametrize("device", ["numpy", "cpu", "wgpu"])
def test_a_step_that_is_checked_is_taken_back(device: str) -> None:
    def function(x: tg.Tensor, w: tg.Tensor) -> tg.Tensor:
        return tg.log(x * w)

    training = compiled(function, device=device, check_numerics=True, optimizer=tg.optim.adam(0.1))
    training.step(x=np.abs(X) + 1)
    before = training.state_dict()
    with pytest.raises(DivergenceError, match=r"step 2, which has been taken back: .*tg\.log of the loss makes 6 NaN"):
        training.step(x=X)
    after = training.state_dict()
    assert all(after[name].tobytes() == before[name].tobytes() for name in before)
    assert np.isfinite(float(training.step(x=np.abs(X) + 1)))
    assert training.step_count == 2


def test_micro_batches_are_checked_too() -> None:
    training = compiled(lambda x, w: tg.log(x * w), check_numerics=True, accumulate=2, device="cpu")
    training.step(x=np.abs(X) + 1)
    with pytest.raises(DivergenceError, match=re.escape("tg.log of the loss")):
        training.step(x=X)
    assert (training.step_count, training.accumulated) == (0, 1)
    training.step(x=np.abs(X) + 1)
    with pytest.raises(DivergenceError, match=re.escape("tg.log of the loss")):
        training.step(x=X)
    assert (training.step_count, training.accumulated) == (1, 0)


def test_metrics_may_be_what_they_are() -> None:
    training = tg.compile(
        Weights(lambda x, w: x * w),
        loss=lambda model, x: (tg.mean(model(x)), {"odd": tg.log(-tg.sum(x * x))}),
        optimizer=tg.optim.sgd(0.1),
        inputs={"x": (3, 4)},
        device="numpy",
        check_numerics=True,
    )
    loss, metrics = training.step(x=X)
    assert np.isfinite(float(loss)) and np.isnan(float(metrics["odd"]))


def test_the_key_is_that_of_the_next_step() -> None:
    def loss(model: Weights, x: tg.Tensor, key: tg.Tensor) -> tg.Tensor:
        return tg.mean(tg.log(model(x) * 0 + tg.random.uniform(key, (3, 4)) - 0.5))

    training = tg.compile(
        Weights(lambda x, w: x * w), loss=loss, optimizer=tg.optim.sgd(0.0), inputs={"x": (3, 4)}, device="numpy"
    )
    first = blame_of(training, x=X)
    training.step(x=X)
    assert first.result.nans and first.operands != blame_of(training, x=X).operands


def faults() -> dict[str, tg.Training]:
    """Trainings that produce a NaN or infinity, each in a different way."""

    def grown(x: tg.Tensor, w: tg.Tensor) -> tg.Tensor:
        infinite = tg.exp(x * w * 1000)
        return infinite - infinite

    def root(x: tg.Tensor, w: tg.Tensor) -> tg.Tensor:
        return tg.sqrt(tg.sum(x * w, axis=1) * 0) + tg.sum(x * w, axis=1)

    def masked(x: tg.Tensor, w: tg.Tensor) -> tg.Tensor:
        scores = tg.where(x > 0, x * w, -float("inf"))
        return tg.softmax(tg.concat([scores, x], axis=1), axis=1)[:, :4] / (w - 0.5)

    def loop(x: tg.Tensor, w: tg.Tensor) -> tg.Tensor:
        return tg.scan(lambda carry, row: (tg.log(carry - 1) * row, carry), w * 4, x)[0]

    functions = [grown, root, masked, loop, lambda x, w: (x * 1e30) * (w * 1e30), lambda x, w: 1 / (x * w - x * w)]
    return {str(number): compiled(function) for number, function in enumerate(functions)}


def test_the_processors_flags_only_save_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """If no flag is ever raised, that is noticed, and every result is checked."""
    trainings = faults()
    expected = {name: str(blame_of(training, x=X)) for name, training in trainings.items()}
    runs: list[bool] = []
    run = NonfiniteSearch._run

    def counted(search: NonfiniteSearch, *arguments: Any) -> Any:
        runs.append(search._flags.is_thorough)
        return run(search, *arguments)

    monkeypatch.setattr(NonfiniteSearch, "_run", counted)
    assert {name: str(blame_of(training, x=X)) for name, training in trainings.items()} == expected
    assert not any(runs), "flags were raised, so that once was enough"
    monkeypatch.setattr(_Flags, "raised", lambda flags, kind, raised: None)
    assert {name: str(blame_of(training, x=X)) for name, training in faults().items()} == expected
    assert any(runs), "the search was made again"


def test_a_nan_that_reaches_the_loss_in_any_case_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []
    observe = NonfiniteSearch._observe

    def observed(search: NonfiniteSearch, op: Any, function: Callable[..., Any]) -> Callable[..., Any]:
        run = observe(search, op, function)

        def counted(*operands: Any) -> Any:
            ran.append(op.name)
            return run(*operands)

        return counted

    def certain(x: tg.Tensor, w: tg.Tensor) -> tg.Tensor:
        return tg.cos(tg.log(x * w))

    def uncertain(x: tg.Tensor, w: tg.Tensor) -> tg.Tensor:
        return tg.where(x < 0, tg.stop_gradient(tg.cos(tg.log(x * w))), x * w)

    monkeypatch.setattr(NonfiniteSearch, "_observe", observed)
    blame = blame_of(compiled(certain), x=X)
    assert (blame.op, blame.line, ran[-1]) == ("tg.log", line_of(certain, "tg.log"), "tg.log")
    assert {"output 'loss'", "the updated 'weight'"} <= {*blame.reached}
    ran.clear()
    blame = blame_of(compiled(uncertain), x=X)
    assert (blame.op, blame.line) == ("tg.log", line_of(uncertain, "tg.log"))
    assert "tg.cos" in ran and ran[-1] != "tg.log"


def test_arrays_that_are_not_finite_are_not_kept() -> None:
    """Neither while the step continues with NaN in all arrays, nor afterwards."""
    extent, ops = 1 << 18, 40

    def loss(model: Any, x: tg.Tensor) -> tg.Tensor:
        value = tg.log(x * model.weight)
        for _ in range(ops):
            value = tg.where(x > 0, value + x, x)  # by the IR alone, x may be what reaches the loss
        return tg.mean(value)

    class Model(tg.nn.Module):
        """One weight."""

        def __init__(self) -> None:
            super().__init__()
            self.weight: Any = tg.nn.param((1,), init=-1.0)

    training = tg.compile(Model(), loss=loss, optimizer=tg.optim.sgd(0.1), inputs={"x": (extent,)}, device="numpy")
    x = np.ones(extent, np.float32)
    assert blame_of(training, x=x).result.nans == extent
    tracemalloc.start()
    try:
        blame_of(training, x=x)
        still_allocated, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < ops / 2 * x.nbytes and still_allocated < x.nbytes


def test_mistakes() -> None:
    training = compiled(lambda x, w: x * w)
    with pytest.raises(InputError, match="missing input 'x'"):
        training.blame()
    with pytest.raises(OptionError, match="check_numerics must be True or False"):
        compiled(lambda x, w: x * w, check_numerics=1)
