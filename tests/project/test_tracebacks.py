"""Tracebacks of errors end in the user's code: the frames of tensorgrad are cut out, and nothing else."""

from __future__ import annotations

import operator
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from models import batch, compiled

import tensorgrad as tg
from tensorgrad.errors import CompilerError, InputError, ProgramError
from tensorgrad.runtime.tracebacks import boundary

X = np.ones((2, 3), np.float32)
untyped: Any = tg
"""The package, without the names that type checkers know."""


class Block(tg.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mlp = tg.nn.Linear(9, 1)

    def __call__(self, x: Any) -> Any:
        return self.mlp(x)


def wrong_product(x: Any) -> Any:
    return tg.sum(x @ x)


def raised(function: Callable[[], Any]) -> BaseException:
    """Returns the exception that a function raises."""
    try:
        function()
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


def files(error: BaseException) -> set[str]:
    """Returns the names of the files in an exception's traceback."""
    return {Path(entry.filename).name for entry in traceback.extract_tb(error.__traceback__)}


def functions(error: BaseException) -> list[str]:
    """Returns the names of the functions in an exception's traceback, but for that of `raised`."""
    return [entry.name for entry in traceback.extract_tb(error.__traceback__)[1:]]


def loss_of_block(model: Any, x: Any) -> Any:
    return tg.mean(model(x))


def traced_loss() -> None:
    tg.compile(Block(), loss=loss_of_block, optimizer=tg.optim.sgd(0.1), inputs={"x": (4, 8)}, device="numpy")


MISTAKES: list[tuple[Callable[[], Any], list[str]]] = [
    (traced_loss, ["traced_loss", "loss_of_block", "__call__"]),
    (lambda: Block().initialized(0)(X), ["<lambda>", "__call__"]),
    (lambda: tg.grad(wrong_product)(X), ["<lambda>", "wrong_product"]),
    (lambda: tg.vmap(wrong_product)(tg.ones((4, 2, 3))), ["<lambda>", "wrong_product"]),
    (lambda: tg.jit(wrong_product)(X), ["<lambda>", "wrong_product"]),
    (lambda: tg.vjp(lambda x: x, X)[1](tg.ones(5)), ["<lambda>"]),
    (lambda: tg.array(X) @ X, ["<lambda>"]),
    (lambda: X @ tg.array(X), ["<lambda>"]),
    (lambda: -tg.array([True]), ["<lambda>"]),
    (lambda: tg.tensor(X, device="cpu") + np.ones(4), ["<lambda>"]),
    (lambda: tg.array(X)[5], ["<lambda>"]),
    (lambda: tg.array(X).reshape(5), ["<lambda>"]),
    (lambda: tg.jit(lambda x: bool(x))(X), ["<lambda>", "<lambda>"]),
    (lambda: untyped.softmax(X, nothing=1), ["<lambda>"]),
    (lambda: untyped.array(X).nothing, ["<lambda>"]),
    (lambda: untyped.optim.nothing, ["<lambda>"]),
    (lambda: untyped.nothing, ["<lambda>"]),
    (lambda: tg.nn.Linear(9, -1), ["<lambda>"]),
    (lambda: compiled().step(x=X), ["<lambda>"]),
    (lambda: compiled().load_checkpoint("nowhere.safetensors"), ["<lambda>"]),
    (lambda: operator.iadd(tg.tensor(X, device="cpu", requires_grad=True), 1), ["<lambda>"]),
]


@pytest.mark.parametrize(("mistake", "expected"), MISTAKES)
def test_a_traceback_has_the_users_frames_alone(mistake: Callable[[], Any], expected: list[str]) -> None:
    error = raised(mistake)
    assert functions(error) == expected
    assert files(error) == {Path(__file__).name}


def test_errors_of_the_users_own_function_end_in_it() -> None:
    def fails(x: Any) -> Any:
        return {"a": x}["b"]

    error = raised(lambda: tg.jit(fails)(X))
    assert isinstance(error, KeyError)
    assert functions(error) == ["<lambda>", "fails"]


def test_an_interrupted_fit_shows_no_inner_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    training = compiled(device="numpy")

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(training._compilation.executable, "step", interrupted)
    error = raised(lambda: tg.fit(training, [batch()] * 3, epochs=1))
    assert isinstance(error, KeyboardInterrupt)
    assert functions(error) == ["<lambda>", "interrupted"]


def test_everything_is_shown_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TG_TRACEBACK", "full")
    assert {"matmul", "trace_call"} < {*functions(raised(lambda: tg.grad(wrong_product)(X)))}


def test_a_cause_is_kept_and_cut_too(tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.tg"
    damaged.write_bytes(b"no program")
    error = raised(lambda: tg.load(damaged))
    assert isinstance(error, ProgramError)
    assert error.__cause__ is not None
    assert files(error) == {Path(__file__).name}
    assert functions(error.__cause__) == []


@pytest.mark.parametrize("fault", [CompilerError("a pass crashed"), AssertionError("a fault of tensorgrad's")])
def test_faults_of_tensorgrad_keep_their_frames(monkeypatch: pytest.MonkeyPatch, fault: Exception) -> None:
    namespace: dict[str, Any] = {"__name__": "tensorgrad.pretended", "fault": fault}
    exec("def fails():\n    raise fault", namespace)
    error = raised(boundary(namespace["fails"]))
    assert error is fault
    assert "fails" in functions(error)


def test_frames_of_libraries_are_hidden_where_tensorgrad_calls_them() -> None:
    namespace: dict[str, Any] = {"__name__": "tensorgrad.pretended", "np": np, "InputError": InputError}
    source = "def fails(f):\n    try:\n        np.apply_along_axis(f, 0, np.ones(3))\n"
    exec(source + "    except ValueError as error:\n        raise InputError('wrong') from error", namespace)

    def user(_: Any) -> Any:
        return np.broadcast_shapes((2,), (3,))

    error = raised(lambda: boundary(namespace["fails"])(user))
    assert functions(error) == ["<lambda>"]
    assert error.__cause__ is not None
    shown = [entry.name for entry in traceback.extract_tb(error.__cause__.__traceback__)]
    assert shown[0] == "user" and "broadcast_shapes" in shown and "apply_along_axis" not in shown
