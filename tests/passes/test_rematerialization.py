"""`tg.checkpoint` and the pass `remat`: equal values and derivatives, fewer bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.utils.exceptions import DiagnosticException

import tensorgrad as tg
from tensorgrad.dialects.tg.call import CallOp
from tensorgrad.errors import OptionError, ProgramError, TraceError
from tensorgrad.interpreters.tensors import TensorExecutor
from tensorgrad.passes.analyses.dominance import verify_dominance
from tensorgrad.passes.codegen import build_program
from tensorgrad.passes.tensors.grad import GradPass
from tensorgrad.passes.tensors.inline_calls import InlineCallsPass
from tensorgrad.passes.tensors.remat import RematPass
from tensorgrad.passes.tensors.simplify import SimplifyPass
from tensorgrad.runtime.program import Program

X = np.array([0.5, -2.0, 3.0], np.float32)


def layer(x: Any) -> Any:
    return tg.sin(x) * tg.exp(x * 0.1)


def chain(x: Any) -> Any:
    for _ in range(4):
        x = layer(x)
    return tg.sum(x)


def checkpointed_chain(x: Any) -> Any:
    for _ in range(4):
        x = tg.checkpoint(layer)(x)
    return tg.sum(x)


@pytest.mark.parametrize("order", [0, 1, 2])
def test_checkpoint_changes_no_value_and_no_derivative(order: int) -> None:
    plain, again = chain, checkpointed_chain
    for _ in range(order):
        plain, again = (tg.grad(lambda x, f=f: tg.sum(f(x))) for f in (plain, again))
    np.testing.assert_allclose(np.asarray(again(X)), np.asarray(plain(X)), rtol=1e-6)


def test_checkpoint_takes_what_stands_around_it() -> None:
    def loss(w: Any, x: Any) -> Any:
        parts = tg.checkpoint(lambda x, scale: {"a": w * x * scale, "b": w})(x, scale=2.0)
        return tg.sum(parts["a"] * parts["b"])

    gradients = tg.grad(loss, argnums=(0, 1))(X, X + 1)
    np.testing.assert_allclose(np.asarray(gradients[0]), 4 * X * (X + 1), rtol=1e-6)
    np.testing.assert_allclose(np.asarray(gradients[1]), 2 * X * X, rtol=1e-6)


def test_checkpoint_outside_a_trace_calls_the_function() -> None:
    assert float(tg.checkpoint(lambda x: tg.sum(x))(X)) == pytest.approx(1.5)


def test_checkpoint_refuses_what_is_no_tensor() -> None:
    with pytest.raises(TraceError, match="returned str"):
        tg.trace(tg.checkpoint(lambda x: "no"), 3)


def calls(module: Any) -> list[CallOp]:
    return [op for op in module.walk() if isinstance(op, CallOp)]


@pytest.mark.parametrize("segments", [1, 2, 3, 5, 100])
def test_remat_keeps_values_and_gradients(segments: int) -> None:
    results: list[list[np.ndarray]] = []
    for again in (False, True):
        module = tg.trace(chain, 3)
        passes = [RematPass(segments=segments)] if again else []
        for pass_ in [SimplifyPass(), *passes, GradPass(), InlineCallsPass(recompute=False), SimplifyPass()]:
            pass_.apply(Context(), module)
            module.verify()
            verify_dominance(module)
        if again:
            assert bool(calls(module)) == (segments > 1)
        InlineCallsPass().apply(Context(), module)
        module.verify()
        executor = TensorExecutor(module)
        results.append([np.asarray(value) for value in executor.call([X])])
    for actual, expected in zip(*results, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-6)


def test_remat_refuses_no_segments() -> None:
    with pytest.raises(DiagnosticException, match="at least 1"):
        RematPass(segments=0).apply(Context(), tg.trace(chain, 3))


def deep(checkpointed: bool = False, layers: int = 8, **options: Any) -> tg.Training:
    """Many layers on a large batch: nearly all bytes are residuals."""

    class Deep(tg.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = [tg.nn.MLP(16, 64, 16) for _ in range(layers)]

        def __call__(self, x: Any) -> Any:
            for layer in self.layers:
                x = x + (tg.checkpoint(layer) if checkpointed else layer)(x)
            return x

    return tg.compile(
        Deep(),
        loss=lambda model, x: tg.mean(model(x) ** 2),
        optimizer=tg.optim.sgd(0.01),
        inputs={"x": (512, 16)},
        **{"device": "wgpu", **options},
    )


@pytest.mark.nightly
def test_checkpoint_lowers_the_peak_on_a_device() -> None:
    plain, again = deep(), deep(True)
    most = plain.program.statistics["peak_bytes"]
    frugal = deep(True, memory_limit=int(0.55 * most))
    assert frugal.stats()["memory_limit"]["segments"] == 1
    assert frugal.program.statistics["peak_bytes"] <= 0.55 * most
    x = np.random.default_rng(0).standard_normal((512, 16)).astype(np.float32)
    losses = [[float(training.step(x=x)) for _ in range(3)] for training in (plain, again)]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The peaks of the programs whose kernels are written."""
    peaks: list[int] = []
    build = build_program.build_program

    def counted(*args: Any) -> Program:
        program = build(*args)
        peaks.append(program.statistics["peak_bytes"])
        return program

    monkeypatch.setattr(build_program, "build_program", counted)
    return peaks


def test_a_memory_limit_is_kept_to(built: list[int]) -> None:
    plain = deep(layers=3)
    most = plain.program.statistics["peak_bytes"]
    limited = deep(layers=3, memory_limit=int(0.8 * most))
    assert built == [most, most, limited.program.statistics["peak_bytes"]], "kernels of what doesn't fit are written"
    assert limited.program.statistics["peak_bytes"] <= 0.8 * most
    cost = limited.stats()["memory_limit"]
    assert cost["segments"] > 1 and cost["peak_bytes_without"] == most
    assert limited.stats()["bytes_moved"] > cost["bytes_moved_without"]
    x = np.random.default_rng(0).standard_normal((512, 16)).astype(np.float32)
    losses = [[float(training.step(x=x)) for _ in range(3)] for training in (plain, limited)]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)
    assert "segment_1.backward" in limited.module("tg")


@pytest.mark.nightly
def test_a_memory_limit_that_is_no_limit_costs_nothing() -> None:
    assert deep(memory_limit=1 << 30).stats()["memory_limit"]["segments"] == 1


@pytest.mark.nightly
def test_memory_limits_that_cannot_be(built: list[int]) -> None:
    with pytest.raises(ProgramError, match=r"memory_limit is 1000 bytes, but a step needs") as raised:
        deep(memory_limit=1000)
    most, least = built
    assert f"needs {least} with recomputation and {most} without" in str(raised.value)
    with pytest.raises(OptionError, match="numpy plans none"):
        deep(memory_limit=1 << 30, device="numpy")
    for wrong in (0, -1, True):
        with pytest.raises(OptionError, match="must be a positive integer"):
            deep(memory_limit=wrong)


@pytest.mark.nightly
@pytest.mark.parametrize("clip_norm", [None, 0.5])
def test_a_loop_in_a_checkpoint_with_a_norm_of_all_gradients(clip_norm: float | None) -> None:
    """Gradients clipped together are packed in rows, except if there are loops, also within calls."""

    class Model(tg.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.recurrent, self.linear = tg.nn.GRU(4, 5, batch_first=True), tg.nn.Linear(5, 3)

        def __call__(self, x: Any, again: bool) -> Any:
            def hidden(x: Any) -> Any:
                return self.recurrent(x)[0]

            return self.linear((tg.checkpoint(hidden) if again else hidden)(x))

    x = np.random.default_rng(1).normal(size=(2, 6, 4)).astype(np.float32)
    losses: list[list[float]] = []
    runs: list[tuple[bool, tg.DeviceName]] = [(False, "numpy"), (True, "numpy"), (True, "wgpu")]
    for again, device in runs:
        training = tg.compile(
            Model(),
            loss=lambda model, x, again=again: tg.mean(model(x, again) ** 2),
            optimizer=tg.optim.adam(1e-2, clip_norm=clip_norm),
            inputs={"x": x.shape},
            device=device,
        )
        losses.append([float(training.step(x=x)) for _ in range(3)])
        assert training.program.statistics["peak_bytes"]
    assert np.allclose(losses[1], losses[0], rtol=1e-4) and np.allclose(losses[2], losses[0], rtol=1e-4)
