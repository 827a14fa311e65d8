"""Programs in a page behave as in Python: values, keys, formulas, control flow, checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from playwright.sync_api import Browser

import tensorgrad as tg
from tensorgrad.runtime.errors import ProgramError
from tensorgrad.runtime.files import read_safetensors
from tensorgrad.runtime.formula import Formula
from tensorgrad.runtime.keys import fold_in, key
from tensorgrad.runtime.plan import Buffer, Copy, TensorSlot
from tensorgrad.runtime.program import HOST_DTYPES, WIDENED, Program
from tensorgrad.runtime.saved import STEP, STEP_KEY, Host, Saved

pytestmark = pytest.mark.web

Evaluate: TypeAlias = Callable[..., Any]
Site: TypeAlias = tuple[Path, str]
STEPS = 20


class Classifier(tg.nn.Module):
    """A model with noise, dropout and running statistics, so that keys and state matter."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = [tg.nn.Linear(6, 16, bias=False), tg.nn.Linear(16, 3)]
        self.norm = tg.nn.BatchNorm1d(16)
        self.dropout = tg.nn.Dropout(0.25)

    def __call__(self, x: Any, key: Any) -> Any:
        return self.layers[1](self.dropout(tg.tanh(self.norm(self.layers[0](x))), key=key))


def loss(model: Classifier, x: Any, y: Any, key: Any) -> Any:
    logits = model(x, key)
    right = tg.mean(tg.cast(tg.argmax(logits, axis=1) == y, "f32"))
    return tg.cross_entropy(logits, y), {"quality": {"accuracy": right}, "largest": [tg.max(logits), tg.min(logits)]}


def classifier(**options: Any) -> tg.Training:
    settings: dict[str, Any] = {"device": "wgpu", "seed": 2**40 + 7, **options}
    return tg.compile(
        Classifier(),
        loss=loss,
        optimizer=tg.optim.adamw(tg.optim.schedules.cosine(1e-2, 20), clip_norm=1.0),
        inputs={"x": (8, 6), "y": tg.spec(8, "i32")},
        **settings,
    )


def batches(count: int) -> list[dict[str, np.ndarray]]:
    generator = np.random.default_rng(3)
    x = generator.normal(size=(count, 8, 6)).astype(np.float32)
    return [{"x": one, "y": np.argmax(one[:, :3], axis=1).astype(np.int32)} for one in x]


def plain(batch: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Returns a batch in the form that the browser's driver accepts."""
    return {name: array.tolist() for name, array in batch.items()}


def losses(training: tg.Training, data: list[dict[str, np.ndarray]]) -> list[float]:
    return [float(training.step(**batch)[0]) for batch in data]


TRAIN = "const training = await T.Training.load('training.tg');"


def test_a_step_with_keys_state_and_metrics(site: Site, evaluate: Evaluate) -> None:
    training, data = classifier(), batches(STEPS)
    training.save(site[0] / "training.tg", target="webgpu-default")
    found = evaluate(
        f"{TRAIN} const results = await training.run(given.length, (index) => given[index]);"
        "const parameters = await training.parameters();"
        "const shown = Object.entries(parameters).map(([name, {shape, data}]) => [name, [shape, Array.from(data)]]);"
        "return {results, step: training.stepCount, settings: training.settings, inputs: training.inputs,"
        " parameters: Object.fromEntries(shown)};",
        [plain(batch) for batch in data],
    )
    for (value, metrics), batch in zip(found["results"], data, strict=True):
        expected, own = training.step(**batch)
        assert value == pytest.approx(float(expected), rel=1e-5)
        assert metrics["quality"]["accuracy"] == float(own["quality"]["accuracy"])
        assert metrics["largest"] == pytest.approx([float(one) for one in own["largest"]], rel=1e-4)
    assert found["step"] == STEPS
    assert found["settings"] == training.settings
    assert found["inputs"] == {"x": {"shape": [8, 6], "dtype": "f32"}, "y": {"shape": [8], "dtype": "i32"}}
    for name, array in training.parameters().items():
        shape, values = found["parameters"][name]
        assert shape == list(array.shape)
        np.testing.assert_allclose(np.reshape(values, shape), array, rtol=1e-3, atol=1e-4)


def test_micro_batches(site: Site, evaluate: Evaluate) -> None:
    training, data = classifier(accumulate=3), batches(9)
    training.save(site[0] / "training.tg", target="webgpu-default")
    found = evaluate(
        f"{TRAIN} const results = await training.run(given.length, (index) => given[index]);"
        "return {losses: results.map(([loss]) => loss), step: training.stepCount};",
        [plain(batch) for batch in data],
    )
    assert found["losses"] == pytest.approx(losses(training, data), rel=1e-5)
    assert found["step"] == training.step_count == 3


class Walk(tg.nn.Module):
    """A recurrence over rows, a branch, and a sort."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = tg.nn.Linear(4, 4)

    def __call__(self, x: Any) -> Any:
        def advance(state: Any, row: Any) -> tuple[Any, Any]:
            state = tg.tanh(self.cell(state) + row)
            return state, state

        last, states = tg.scan(advance, tg.zeros((2, 4)), x)
        chosen = tg.cond(tg.sum(last) > 0.0, lambda h: h * 2.0, lambda h: tg.exp(-h), last)
        return tg.mean((chosen - 1.0) ** 2) + tg.mean(tg.sort(states, axis=0)[0] ** 2)


def test_loops_branches_and_sorts(site: Site, evaluate: Evaluate) -> None:
    training = tg.compile(
        Walk(), loss=lambda model, x: model(x), optimizer=tg.optim.sgd(0.05), inputs={"x": (40, 2, 4)}, device="wgpu"
    )
    training.save(site[0] / "training.tg", target="webgpu-default")
    plan = Saved.load(site[0] / "training.tg").program.plan
    assert any(type(step).__name__ == "Repeat" for step in plan), "the recurrence is a loop of the plan"
    data = np.random.default_rng(1).normal(size=(STEPS, 40, 2, 4)).astype(np.float32)
    found = evaluate(
        f"{TRAIN} return training.run(given.length, (index) => ({{x: given[index]}}));",
        data.tolist(),
    )
    assert found == pytest.approx([float(training.step(x=x)) for x in data], rel=1e-5)


def test_an_attached_function_uses_the_parameters_of_the_training(site: Site, evaluate: Evaluate) -> None:
    training, data = classifier(device="cpu"), batches(5)

    def forward(model: Classifier, x: Any) -> Any:
        logits = tg.nn.inference(model)(x, None)
        return {"label": tg.argmax(logits, axis=1), "sure": tg.max(tg.softmax(logits)) > 0.5, "all": [logits, None]}

    predict = training.attach(forward, inputs={"x": (8, 6)})
    training.save(site[0] / "training.tg", target="webgpu-default")
    predict.save(site[0] / "predict.tg", target="webgpu-default")
    found = evaluate(
        f"{TRAIN} const predict = await training.attach('predict.tg');"
        "const alone = await T.Inference.load('predict.tg');"
        "await training.run(given.length, (index) => given[index]);"
        "const plain = async (one) => { const r = await T.read(one.call({x: given[0].x}));"
        " return {label: Array.from(r.label.data), sure: r.sure, all: [Array.from(r.all[0].data), r.all[1]]} };"
        "return [await plain(predict), await plain(alone)];",
        [plain(batch) for batch in data],
    )
    untrained = predict(x=data[0]["x"])
    before = {name: np.asarray(untrained[name]) for name in ("label", "sure")}, np.asarray(untrained["all"][0])
    losses(training, data)
    trained = predict(x=data[0]["x"])
    after = {name: np.asarray(trained[name]) for name in ("label", "sure")}, np.asarray(trained["all"][0])
    for result, (named, logits) in zip(found, (after, before), strict=True):
        assert result["label"] == named["label"].tolist()
        assert bool(result["sure"]) == bool(named["sure"])
        np.testing.assert_allclose(np.reshape(result["all"][0], (8, 3)), logits, rtol=1e-4, atol=1e-4)
        assert result["all"][1] is None


def copying(scalars: Mapping[str, str], keys: bool) -> Program:
    """Returns a program of copies whose outputs are values that the host computes: scalars, and a key."""
    words = len(scalars) + 2 * keys
    tensors = [
        TensorSlot(name, "scalar", (), "f32", 0, 4 * index, formula)
        for index, (name, formula) in enumerate(scalars.items())
    ]
    outputs = [TensorSlot("values", "output", (len(scalars),), "f32", 1, 0)]
    if keys:
        tensors.append(TensorSlot("key", "input", (2,), "u32", 0, 4 * len(scalars)))
        outputs.append(TensorSlot("key", "output", (2,), "u32", 1, 4 * len(scalars)))
    buffers = (Buffer("inputs", 4 * words, "input"), Buffer("outputs", 4 * words, "output"))
    return Program("copies", (), buffers, (*tensors, *outputs), (Copy(0, 0, 1, 0, 4 * words),))


FORMULAS = (
    "learning_rate",
    "-learning_rate ** 2 ** 0.5",
    "(-learning_rate) ** 2",
    "2 ** -step",
    "1 - beta ** step",
    "learning_rate / (1 - beta ** step) - 1e-3 * step",
    "0.5 * (1 + cos(3.141592653589793 * min(step / 20, 1)))",
    "step / 4 if step < 4 else 1 if step == 4 else exp(-(step - 4) / 10)",
    "(step >= 2) + (step != 3) * 2 - (step <= 3) / 4",
    "max(min(step, 3, 9), floor(step / 2.5), -1.5e+00)",
    "sqrt(1 - beta ** step) / (1 + .25)",
    "1 - 2 - 3",
    "8 / 4 / 2",
    "--step",
)
SETTINGS = {"learning_rate": 0.037, "beta": 0.9}


def test_formulas_and_keys_are_those_of_python(site: Site, evaluate: Evaluate) -> None:
    seed = 2**45 + 12345
    scalars = {f"scalar{index}": formula for index, formula in enumerate(FORMULAS)}
    results = {"dict": {"values": "values", "key": "key"}}
    host = Host(STEP, results, {"key": STEP_KEY}, key(seed), 2**31 - 5, settings=SETTINGS)
    Saved(copying(scalars, keys=True), {}, host).save(site[0] / "training.tg")
    found = evaluate(
        f"{TRAIN} const results = await training.run(9, {{}});"
        "return results.map(({values, key}) => [Array.from(values.data), Array.from(key.data)]);"
    )
    for index, (values, words) in enumerate(found):
        step = 2**31 - 5 + index + 1
        known = {**SETTINGS, "step": float(step), "micro_step": 1.0}
        expected = [np.float32(Formula(formula).evaluate(known)) for formula in FORMULAS]
        np.testing.assert_allclose(values, expected, rtol=1e-7)
        assert tuple(words) == fold_in(key(seed), step)


def test_formulas_without_a_value_are_refused_as_in_python(site: Site, evaluate: Evaluate) -> None:
    refused = ("1 / (step - step)", "sqrt(-step)", "(-step) ** 0.5", "exp(1e4 * step)", "10 ** (400 * step)")
    for index, formula in enumerate(refused):
        with pytest.raises(tg.errors.FormulaError):
            Formula(formula).evaluate({"step": 1.0})
        host = Host(STEP, "values", settings={})
        Saved(copying({"one": formula}, keys=False), {}, host).save(site[0] / f"{index}.tg")
    said = evaluate(
        "const said = [];"
        "for (const index of given) { const training = await T.Training.load(`${index}.tg`);"
        " try { training.step({}); said.push('nothing') }"
        " catch (error) { said.push(`${error.name}: ${error.message}`) } }"
        "return said;",
        list(range(len(refused))),
    )
    for formula, message in zip(refused, said, strict=True):
        assert message.startswith(f"InputError: scalar 'one': formula '{formula}' has no value at step = 1: ")


def test_a_run_moves_to_the_page_and_back(site: Site, evaluate: Evaluate, browser: Browser) -> None:
    """The page is closed after a checkpoint; Python resumes from it, and then another page."""
    data = [plain(batch) for batch in batches(30)]
    expected = losses(classifier(), batches(30))
    training = classifier()
    found = losses(training, batches(30)[:10])
    training.save(site[0] / "training.tg", target="webgpu-default")
    context = browser.new_context()
    tab = context.new_page()
    tab.goto(f"{site[1]}/blank.html")
    first, file = tab.evaluate(
        "async (given) => { const T = await import('/tensorgrad.js');"
        f"{TRAIN} const results = await training.run(10, (index) => given[index]);"
        " const file = await training.save(); for (const one of given) training.step(one);"
        " return [results.map(([loss]) => loss), Array.from(file)] }",
        data[10:20],
    )
    context.close()
    found += first
    (site[0] / "kept.tg").write_bytes(bytes(file))
    loaded = tg.load(site[0] / "kept.tg")
    assert isinstance(loaded, tg.LoadedTraining) and loaded.step_count == 20
    found += [float(loaded.step(**batch)[0]) for batch in batches(30)[20:25]]
    loaded.save(site[0] / "again.tg")
    found += evaluate(
        f"{TRAIN} await training.restore('again.tg');"
        "return (await training.run(5, (index) => given[index])).map(([loss]) => loss);",
        data[25:],
    )
    assert found == pytest.approx(expected, rel=1e-4)


def test_it_runs_in_a_worker(site: Site, evaluate: Evaluate) -> None:
    training, data = classifier(), batches(3)
    training.save(site[0] / "training.tg", target="webgpu-default")
    (site[0] / "worker.js").write_text(
        "import { Training } from './tensorgrad.js';\n"
        "onmessage = async ({ data }) => { const training = await Training.load('training.tg');\n"
        "  postMessage(await training.run(data.length, (index) => data[index])); };\n",
        encoding="utf-8",
    )
    found = evaluate(
        "const worker = new Worker('worker.js', {type: 'module'});"
        "const answer = new Promise((resolve) => worker.onmessage = ({data}) => resolve(data));"
        "worker.postMessage(given); return (await answer).map(([loss]) => loss);",
        [plain(batch) for batch in data],
    )
    assert found == pytest.approx(losses(training, data), rel=1e-5)


def identity(dtype: str, count: int) -> Program:
    """A program that copies its input to its output."""
    stored = None if dtype == "bool" else WIDENED.get(dtype)
    slots = tuple(
        TensorSlot(name, role, (count,), dtype, buffer, 0, stored=stored)
        for buffer, (name, role) in enumerate((("x", "input"), ("y", "output")))
    )
    size = slots[0].size
    return Program(
        "identity",
        (),
        (Buffer("inputs", size, "input"), Buffer("outputs", size, "output")),
        slots,
        (Copy(0, 0, 1, 0, size),),
    )


AROUND_SHORTS = (
    ((np.arange(0x7F00, step=5, dtype=np.uint32)[:, None] << 16) + np.array([0, 1, 0x7FFF, 0x8000, 0x8001], np.uint32))
    .view(np.float32)
    .reshape(-1)
    .astype(np.float64)
)
"""Numbers of f32 that are bf16, and those around the ties between them."""
HALVES = np.arange(1 << 16, dtype=np.uint16).view(np.float16)[:0x7C00].astype(np.float64)
"""All finite halves from 0."""
BETWEEN = (HALVES[1:] + HALVES[:-1]) / 2
CASES: tuple[tuple[str, str, Any, Any], ...] = (
    ("f16", "Float32Array", np.concatenate([HALVES, -HALVES]), None),
    ("bf16", "Float32Array", AROUND_SHORTS, None),
    ("bf16", "Float64Array", [1 / 3, 257.0, 3.389e38, -1e-46], None),
    (
        "bf16",
        "Float64Array",
        [3.4e38],
        "InputError: input 'x' has values too large for bf16, whose largest is 3.3895313892515355e+38",
    ),
    ("f16", "Float64Array", np.concatenate([BETWEEN, np.nextafter(BETWEEN, 0), np.nextafter(BETWEEN, 1e6)]), None),
    ("f32", "Float64Array", [0.1, -1e-46, 3.4028234663852886e38, 1e-40, np.pi], None),
    ("i32", "BigInt64Array", [-(2**31), 2**31 - 1, 0], None),
    ("u32", "Uint8Array", [0, 255], None),
    ("u32", "Float64Array", None, "InputError: input 'x' is a Float64Array, which does not convert to u32"),
    ("i8", "Int8Array", [-128, -1, 0, 127], None),
    ("u8", "Uint8Array", [0, 200, 255], None),
    ("i16", "Int32Array", [-(2**15), -1, 2**15 - 1], None),
    ("u16", "Uint16Array", [0, 2**15, 2**16 - 1], None),
    ("i8", "Int16Array", None, "InputError: input 'x' has 200, outside of i8"),
    ("u16", "Int16Array", None, "InputError: input 'x' has -1, outside of u16"),
    ("bool", "Uint8Array", [0, 1, 1, 0], None),
    ("bool", "Int32Array", None, "InputError: input 'x' is not an array of bools: pass booleans, or bytes of 0 and 1"),
)


@pytest.mark.parametrize(("dtype", "array", "values", "message"), CASES)
def test_numbers_convert_as_in_numpy(
    dtype: str, array: str, values: Any, message: str | None, site: Site, evaluate: Evaluate
) -> None:
    refused = {"i8": [200.0, 0.0], "u16": [-1.0, 0.0]}
    given = np.array(refused.get(dtype, [1.0, 0.0]) if values is None else values)
    Saved(identity(dtype, len(given)), {}, Host("function", "y")).save(site[0] / "identity.tg")
    convert = "BigInt" if array == "BigInt64Array" else "Number"
    found = evaluate(
        "const identity = await T.Inference.load('identity.tg');"
        f"const x = {array}.from(given, {convert});"
        "try { return Array.from((await T.read(identity.call({x}))).data) }"
        "catch (error) { return `${error.name}: ${error.message}` }",
        given.tolist(),
    )
    if message is not None:
        assert found == message
    else:
        expected = given.astype(HOST_DTYPES[dtype])
        assert [*map(float, found)] == expected.astype(np.float64).tolist()


def test_a_page_trains_parameters_of_bf16_and_saves_them(site: Site, evaluate: Evaluate) -> None:
    """On the device they take the words of f32; files have 16 bits."""
    linear = tg.nn.param((6, 4), tg.initializers.normal(0.5), "bf16")
    training = tg.compile(
        {"w": linear},
        loss=lambda model, x: tg.mean(tg.cast(x @ model["w"], "f32") ** 2),
        optimizer=tg.optim.sgd(0.5),
        inputs={"x": tg.spec((8, 6), "bf16")},
        device="numpy",
        seed=0,
    )
    training.save(site[0] / "training.tg", target="webgpu-default")
    x = np.random.default_rng(0).normal(size=(8, 6)).astype(tg.bf16)
    losses = [float(training.step(x=x)) for _ in range(3)]
    found, weights, saved = evaluate(
        "const training = await T.Training.load('training.tg');"
        "const results = await training.run(3, () => ({x: given}));"
        "const {w} = await training.parameters();"
        "return [results, Array.from(w.data), Array.from(await training.save())];",
        x.astype(np.float64).tolist(),
    )
    np.testing.assert_allclose(found, losses, rtol=1e-3)
    (site[0] / "saved.tg").write_bytes(bytes(saved))
    _, state = read_safetensors(site[0] / "saved.tg", ProgramError)
    again = state["parameter/w"]
    assert again.dtype == tg.bf16 and again.astype(np.float64).reshape(-1).tolist() == [*map(float, weights)]
