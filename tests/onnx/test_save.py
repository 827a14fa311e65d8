"""`tg.onnx.save`: models, functions and training steps in ONNX Runtime, and read again; its errors and files."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from exported import Stepped, computed, session
from onnx_models import mlp
from onnx_transformers import BATCH, LENGTH, gpt2, llama
from saved_models import LANGUAGE, MODELS, TRAININGS, Model, first

import tensorgrad as tg
from tensorgrad.dialects.tg.elementwise.functions import SinOp
from tensorgrad.errors import InputError, OptionError, ProgramError, TraceError
from tensorgrad.exporters.onnx import saving
from tensorgrad.exporters.onnx.rules import RULES

untyped: Any = tg
"""The package as code without types calls it."""

TRAINED = 3
"""The steps of a round trip."""


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("name", MODELS)
def test_model(name: str, tmp_path: Path) -> None:
    """Written from a model, computed by ONNX Runtime, read, trained, written and read again."""
    case, path = MODELS[name], tmp_path / "model.onnx"
    model, arrays = case.make().initialized(), case.arrays()
    tg.onnx.save(model, path, inputs=case.inputs)
    expected = np.asarray(first(tg.jit(lambda model, arrays: model(**arrays), device="numpy")(model, arrays)))
    scale = np.abs(expected).max()
    result = computed(path, arrays)[0]
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-5 * scale)
    again = tg.onnx.load(path)
    assert {*again.named_parameters()} == {*model.named_parameters()}
    np.testing.assert_allclose(first(again(**arrays)), expected, rtol=0, atol=1e-5 * scale)
    round_trip(again, case, tmp_path)


def round_trip(model: Any, case: Model, folder: Path) -> None:
    """Trains a model that was read, writes it with the new values, and reads it again."""
    training, arrays = Model(lambda: model, case.inputs).training(tg.optim.sgd(1e-2)), case.arrays()
    for _ in range(TRAINED):
        training.step(**arrays)
    forward = training.attach(lambda model, **arrays: first(model(**arrays)), inputs=case.inputs)
    expected = np.asarray(forward(**arrays))
    tg.onnx.save(forward, folder / "trained.onnx")
    again = tg.onnx.load(folder / "trained.onnx")
    assert {*again.named_parameters()} == {*training.parameters()}
    for path, value in again.initialized().named_parameters().items():
        np.testing.assert_array_equal(value, training.parameters()[path])
    scale = np.abs(expected).max()
    np.testing.assert_allclose(again(**arrays), expected, rtol=0, atol=1e-6 * scale)
    result = computed(folder / "trained.onnx", arrays)[0]
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-5 * scale)


IDS = {"ids": tg.spec((BATCH, LENGTH), "i32")}
FILES: dict[str, tuple[Callable[[], onnx.ModelProto], dict[str, Any]]] = {
    "mlp": (mlp, {"x": (5, 4)}),
    "gpt2": (lambda: gpt2()[0], IDS),
    "llama": (lambda: llama(False)[0], IDS),
    "llama with a table": (lambda: llama(True)[0], IDS),
}
"""Files that other exporters could have written, with their inputs."""


@pytest.mark.parametrize("name", FILES)
def test_file(name: str, tmp_path: Path) -> None:
    make, inputs = FILES[name]
    model = tg.onnx.load(make())
    round_trip(model, Model(lambda: model, inputs), tmp_path)


@pytest.mark.parametrize("name", TRAININGS)
def test_training(name: str, tmp_path: Path) -> None:
    """Ten steps in ONNX Runtime have our losses and metrics, and end with our parameters and state."""
    case, optimizer = TRAININGS[name]
    training = case.training(optimizer)
    training.step(**case.arrays(99))  # so that it starts in the middle
    tg.onnx.save(training, tmp_path / "step.onnx")
    stepped = Stepped(tmp_path / "step.onnx")
    for number in range(10):
        arrays = case.arrays(number)
        expected, results = training.step(**arrays), stepped.step(**arrays)
        loss, metrics = expected if isinstance(expected, tuple) else (expected, {})
        np.testing.assert_allclose(results["loss"], np.asarray(loss), rtol=1e-4)
        for metric, value in metrics.items():
            np.testing.assert_allclose(results[f"metrics.{metric}"], np.asarray(value), rtol=1e-4)
    state = {**training.parameters(), **training.buffers()}
    assert state.keys() >= {name for name in stepped.state if "/" not in name}
    for path, value in stepped.state.items():
        if path in state:
            scale = max(1e-3, float(np.abs(state[path]).max()))
            np.testing.assert_allclose(value, state[path], rtol=0, atol=1e-4 * scale, err_msg=path)
    assert stepped.state["training/step"] == training.step_count == 11


@pytest.mark.nightly
def test_a_step_says_what_replaces_what(tmp_path: Path) -> None:
    training = LANGUAGE.training(tg.optim.adamw(1e-2))
    tg.onnx.save(training, tmp_path / "step.onnx")
    model = onnx.load(tmp_path / "step.onnx")
    updates = json.loads(next(entry.value for entry in model.metadata_props if entry.key == "tensorgrad.updates"))
    inputs, outputs = ({value.name for value in values} for values in (model.graph.input, model.graph.output))
    assert {*updates.values()} <= inputs
    assert outputs == {"loss", "metrics.correct", *updates}
    assert {*training.parameters()} <= {*updates.values()}
    required = {value.name for value in session(tmp_path / "step.onnx").get_inputs()}
    assert required == {"tokens", "following"}


def test_settings_are_inputs(tmp_path: Path) -> None:
    case = MODELS["linear"]
    training = case.training(tg.optim.sgd(0.1))
    tg.onnx.save(training, tmp_path / "step.onnx")
    stepped = Stepped(tmp_path / "step.onnx")
    before = training.parameters()["weight"]
    stepped.state = {"training/learning_rate": np.array(0.0)}
    np.testing.assert_array_equal(stepped.step(**case.arrays())["new/weight"], before)


def test_frozen_parameters_stay_as_they_are(tmp_path: Path) -> None:
    model = tg.nn.Sequential(tg.nn.Linear(4, 3), tg.nn.Linear(3, 2))
    model.freeze("0.*")
    case = Model(lambda: model, {"x": (5, 4)})
    tg.onnx.save(case.training(tg.optim.adam(1e-2)), tmp_path / "step.onnx")
    stepped = Stepped(tmp_path / "step.onnx")
    stepped.step(**case.arrays())
    assert {name for name in stepped.state if "/" not in name} == {"1.weight", "1.bias"}


def test_what_a_function_reads_is_written(tmp_path: Path) -> None:
    """Also in the list of parameters; inputs remain, as callers pass them."""
    inputs = {"x": (5, 4), "unread": (2,)}
    model = tg.nn.Sequential(tg.nn.Linear(4, 3), tg.nn.Linear(3, 2))
    training = Model(lambda: model, {"x": (5, 4)}).training(tg.optim.adam(1e-2))
    forward = training.attach(lambda model, x, unread: model[0](x), inputs=inputs)
    tg.onnx.save(forward, tmp_path / "layer.onnx")
    graph = onnx.load(tmp_path / "layer.onnx").graph
    assert {array.name for array in graph.initializer} == {"0.weight", "0.bias"} < {*training.parameters()}
    assert [value.name for value in graph.input] == ["x", "unread"]
    assert {*tg.onnx.load(tmp_path / "layer.onnx").named_parameters()} == {"0.weight", "0.bias"}
    x = np.ones((5, 4), np.float32)
    result = computed(tmp_path / "layer.onnx", {"x": x, "unread": np.zeros(2, np.float32)})[0]
    np.testing.assert_allclose(result, forward(x=x, unread=np.zeros(2, np.float32)), rtol=1e-5, atol=1e-6)


def test_function(tmp_path: Path) -> None:
    def both(x: Any, other: Any) -> Any:
        return {"sum": x + other["y"], "x": x @ tg.transpose(other["y"]), "draws": tg.random.normal(other["key"], (4,))}

    other = {"y": tg.spec((2, 3)), "key": tg.spec((2,), "u32")}
    tg.onnx.save(both, tmp_path / "both.onnx", inputs={"x": (2, 3), "other": other})
    x, y, key = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((2, 3), np.float32), np.asarray(tg.random.key(3))
    names = [output.name for output in onnx.load(tmp_path / "both.onnx").graph.output]
    assert names == ["draws", "sum", "x_1"]
    results = computed(tmp_path / "both.onnx", {"x": x, "other.y": y, "other.key": key})
    np.testing.assert_array_equal(results[1], x + y)
    np.testing.assert_array_equal(results[2], x @ y.T)
    np.testing.assert_allclose(results[0], tg.random.normal(key, (4,)), rtol=1e-6)


def test_functions_of_a_file_have_its_opset(tmp_path: Path) -> None:
    """Bits are reinterpreted by an op that is younger than those of the functions."""

    def function(x: Any, key: Any) -> Any:
        return tg.copysign(tg.random.normal(key, (4,)), x)

    path = tmp_path / "f.onnx"
    tg.onnx.save(function, path, inputs={"x": (4,), "key": tg.spec((2,), "u32")})
    arrays = {"x": np.array([1, -1, 2, -3], np.float32), "key": np.asarray(tg.random.key(1))}
    np.testing.assert_allclose(computed(path, arrays)[0], function(**arrays), rtol=1e-6)
    np.testing.assert_allclose(tg.onnx.load(path)(**arrays), function(**arrays), rtol=1e-6)


def test_derivative(tmp_path: Path) -> None:
    slope = tg.grad(lambda x: tg.sum(tg.sin(x) ** 2))
    tg.onnx.save(lambda x: slope(x), tmp_path / "slope.onnx", inputs={"x": (4,)})
    x = np.linspace(-1, 1, 4, dtype=np.float32)
    np.testing.assert_allclose(computed(tmp_path / "slope.onnx", {"x": x})[0], np.sin(2 * x), rtol=1e-5)


def test_attached_function_without_declared_inputs(tmp_path: Path) -> None:
    case = MODELS["linear"]
    forward = case.training(tg.optim.sgd(0.1)).attach(lambda model, x: model(x))
    with pytest.raises(InputError, match="call it first"):
        tg.onnx.save(forward, tmp_path / "model.onnx")
    expected = forward(**case.arrays())
    tg.onnx.save(forward, tmp_path / "model.onnx")
    np.testing.assert_allclose(computed(tmp_path / "model.onnx", case.arrays())[0], expected, rtol=1e-5)


# Names and files


def test_nodes_are_named_after_modules_and_ops(tmp_path: Path) -> None:
    tg.onnx.save(GPT_MODEL.make(), tmp_path / "model.onnx", inputs=GPT_MODEL.inputs)
    names = [node.name for node in onnx.load(tmp_path / "model.onnx").graph.node]
    assert len({*names}) == len(names)
    assert any(name.startswith("blocks.1.attention") for name in names)


GPT_MODEL = MODELS["transformer"]


def test_equal_constants_are_stored_once(tmp_path: Path) -> None:
    tg.onnx.save(lambda x: (x + 2.0) * 2.0 + tg.full((3, 1000), 2.0), tmp_path / "f.onnx", inputs={"x": (3, 1000)})
    arrays = onnx.load(tmp_path / "f.onnx").graph.initializer
    assert [tuple(array.dims) for array in arrays] == [()]


def test_external_arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, path = tg.nn.Linear(40, 30).initialized(), tmp_path / "model.onnx"
    x = np.ones((2, 40), np.float32)
    for number, bound in enumerate((1, 1 << 30)):
        monkeypatch.setattr(saving, "MOST_BYTES", bound)
        tg.onnx.save(model, path, inputs={"x": (2, 40)}, external=True if number else None)
        assert (tmp_path / "model.onnx.data").stat().st_size >= 4 * 40 * 30
        assert path.stat().st_size < 2000
        np.testing.assert_allclose(computed(path, {"x": x})[0], model(x), rtol=1e-5)
        np.testing.assert_allclose(tg.onnx.load(path)(x), model(x), rtol=1e-5)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["model.onnx", "model.onnx.data"]


@pytest.mark.parametrize("external", [False, True])
def test_a_model_over_a_larger_one_leaves_no_arrays_of_it(external: bool, tmp_path: Path) -> None:
    """Whether the new one has no second file because it may not, or because its arrays are too small for it."""
    path, data = tmp_path / "model.onnx", tmp_path / "model.onnx.data"
    tg.onnx.save(tg.nn.Linear(40, 30), path, inputs={"x": (2, 40)}, external=True)
    assert data.exists()
    tg.onnx.save(tg.nn.Linear(4, 3), path, inputs={"x": (2, 4)}, external=external)
    assert [file.name for file in tmp_path.iterdir()] == ["model.onnx"]


def test_a_file_beside_that_is_of_no_model_stays(tmp_path: Path) -> None:
    path, data = tmp_path / "model.onnx", tmp_path / "model.onnx.data"
    data.write_text("mine")
    for before in (None, b"no model", path):
        if isinstance(before, bytes):
            path.write_bytes(before)
        tg.onnx.save(lambda x: x + 1, path, inputs={"x": (2,)})
        assert data.read_text() == "mine"


def test_what_was_there_stays_if_it_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.onnx"
    path.write_text("before")

    def refuse(*arguments: Any, **options: Any) -> None:
        raise onnx.checker.ValidationError("no")

    monkeypatch.setattr(saving.onnx.checker, "check_model", refuse)
    with pytest.raises(tg.errors.CompilerError, match="refuses: no"):
        tg.onnx.save(lambda x: x + 1, path, inputs={"x": (2,)})
    assert path.read_text() == "before"
    assert [file.name for file in tmp_path.iterdir()] == ["model.onnx"]


# Errors


def test_errors_name_the_path(tmp_path: Path) -> None:
    for path, kind in ((tmp_path / "no" / "model.onnx", FileNotFoundError), (tmp_path, IsADirectoryError)):
        with pytest.raises(kind, match=re.escape(str(path))):
            tg.onnx.save(lambda x: x + 1, path, inputs={"x": (2,)})


def test_errors_of_arguments(tmp_path: Path) -> None:
    path, training = tmp_path / "model.onnx", MODELS["linear"].training(tg.optim.sgd(0.1))
    with pytest.raises(InputError, match=r"test_save.py:\d+: onnx.save: a model or function needs inputs"):
        tg.onnx.save(tg.nn.Linear(4, 3), path)
    with pytest.raises(OptionError, match=r"this has those given to tg\.compile"):
        tg.onnx.save(training, path, inputs={"x": (5, 4)})
    with pytest.raises(OptionError, match="takes a training, a model or a function, got int"):
        untyped.onnx.save(3, path)
    with pytest.raises(InputError, match="input 'weight' has the name of a parameter"):
        tg.onnx.save(training.attach(lambda model, weight: model(weight), inputs={"weight": (5, 4)}), path)
    with pytest.raises(TraceError, match=r"onnx\.save"):
        tg.jit(lambda x: tg.onnx.save(tg.sin, path, inputs={"x": (2,)}), device="numpy")(np.ones(2))
    assert not path.exists()


def test_an_op_without_a_rule_is_named_with_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def function(x: Any) -> Any:
        return tg.scan(lambda state, y: (tg.sin(state) + y, y), tg.zeros(()), x)[0]

    monkeypatch.delitem(RULES, SinOp)
    with pytest.raises(ProgramError, match=r"test_save\.py:\d+: onnx\.save: tg\.sin: there is no rule"):
        tg.onnx.save(function, tmp_path / "f.onnx", inputs={"x": (2,)})
    assert not [*tmp_path.iterdir()]


def test_errors_of_trainings(tmp_path: Path) -> None:
    case = MODELS["linear"]
    scheduled = case.training(tg.optim.sgd(tg.optim.schedules.from_function(lambda step: 0.1 / step)))
    with pytest.raises(ProgramError, match="follows the function"):
        tg.onnx.save(scheduled, tmp_path / "model.onnx")
    accumulating = case.training(tg.optim.sgd(0.1)).replace_model(accumulate=2)
    with pytest.raises(OptionError, match="a step of 2 micro-batches is two programs"):
        tg.onnx.save(accumulating, tmp_path / "model.onnx")
