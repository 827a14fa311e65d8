"""Damaged files: each is read, or refused by one error of ours, quickly and without changing anything.

Damage is random, by seed: bytes, pieces of text and JSON nodes are changed, dropped and repeated.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from damage import (
    CASES,
    NIGHTLY,
    bounded,
    cases,
    check,
    contents,
    damaged_bytes,
    damaged_program,
    damaged_tree,
    damaged_words,
    with_header,
)
from models import MLP, batch, compiled
from safetensors.numpy import save_file
from xdsl.utils.exceptions import DiagnosticException, ParseError, VerifyException

import tensorgrad as tg
from tensorgrad.errors import InputError, OptionError, ProgramError, TensorgradError
from tensorgrad.passes.buffers.schedule.tuned import FORMAT, read_file
from tensorgrad.runtime.formula import Formula
from tensorgrad.runtime.saved import Saved
from tensorgrad.runtime.target import Target
from tensorgrad.tools.parsing import parsed_tensors
from tensorgrad.train.callbacks import Checkpoints, EarlyStop


def damage_programs(folder: Path, count: int) -> None:
    path, bad = folder / "good.tg", folder / "bad.tg"
    compiled(accumulate=2).save(path)
    accepted = 0
    for number, draw in cases(1, count):
        bad.write_bytes(damaged_program(path, number, draw))
        accepted += check(lambda: Saved.load(bad), f"program {number}")
    assert accepted < count


def damage_checkpoints(folder: Path, count: int) -> None:
    x = {name: np.concatenate([batch(i)[name] for i in range(6)]) for name in batch()}

    def fit(training: tg.Training, data: Any, where: Path, steps: int) -> object:
        stop = EarlyStop("value", patience=50)
        every = Checkpoints(where, every=2, best="value")
        return tg.fit(
            training, data, steps=steps, evaluate=lambda _: 1.0, evaluate_every=2, callbacks=[stop],
            checkpoint=every, log=where / "log.csv", resume=True, progress=False, prefetch=0,
        )  # fmt: skip

    def files() -> Any:
        return tg.data.batches(x, 4, shuffle=1)

    good = folder / "good"
    fit(compiled(accumulate=2), files(), good, 4)
    log = (good / "log.csv").read_bytes()
    path = Checkpoints(good).latest()
    assert path is not None
    metadata, tensors = contents(path)
    run = {**json.loads(metadata["tensorgrad-checkpoint"]), "checksums": {}}  # which would refuse before other checks
    training = compiled(accumulate=2)
    training.step(**batch(7))
    start = training.state_dict()
    bad = folder / "bad"
    bad.mkdir()
    for number, draw in cases(2, count):
        (bad / "log.csv").write_bytes(log)
        file = bad / path.name
        what = number % 4
        if what == 0:
            file.write_bytes(damaged_bytes(path.read_bytes(), draw, 2000))
        elif what == 1:
            file.write_bytes(with_header(path, lambda header, draw=draw: damaged_tree(header, draw)))
        elif what == 2:
            text = json.dumps(damaged_tree(run, draw))
            save_file(tensors, file, metadata={"tensorgrad-checkpoint": text})
        else:
            name = draw.choice(list(tensors))
            others = [np.array(0), np.zeros((0, 3)), np.array([True]), np.full(tensors[name].shape, 10**9)]
            text = json.dumps(run)
            save_file({**tensors, name: draw.choice(others)}, file, metadata={"tensorgrad-checkpoint": text})
        data = files()
        if not check(lambda data=data: fit(training, data, bad, 4), f"checkpoint {number}"):
            state = training.state_dict()
            assert all(np.array_equal(state[name], value) for name, value in start.items()), f"checkpoint {number}"
            assert data.state_dict() == files().state_dict(), f"checkpoint {number}"
        training.load_state_dict(start)
        for leftover in bad.glob("*.safetensors"):
            leftover.unlink()


def damage_onnx(folder: Path, count: int) -> None:
    helper = onnx.helper
    weights = [
        onnx.numpy_helper.from_array(np.ones((3, 5), np.float32), "w"),
        onnx.numpy_helper.from_array(np.array([0, -1], np.int64), "shape"),
    ]
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["y"]),
            helper.make_node("LeakyRelu", ["y"], ["z"], alpha=0.1),
            helper.make_node("Reshape", ["z", "shape"], ["out"]),
            helper.make_node("Softmax", ["out"], ["p"], axis=-1),
        ],
        "graph",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [4, 3])],
        [helper.make_tensor_value_info("p", onnx.TensorProto.FLOAT, ["n", "m"])],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
    good, path = model.SerializeToString(), folder / "model.onnx"
    x = np.ones((4, 3), np.float32)

    def read() -> object:
        loaded = tg.onnx.load(path)
        return tg.compile(
            loaded, loss=lambda model, x: tg.mean(model(x)), optimizer=tg.optim.sgd(0.1), inputs={"x": x.shape},
            device="numpy",
        ).step(x=x)  # fmt: skip

    path.write_bytes(good)
    read()
    for number, draw in cases(3, count):
        path.write_bytes(damaged_bytes(good, draw))
        with np.errstate(all="ignore"):
            check(read, f"onnx {number}")


def damage_ir(folder: Path, count: int) -> None:
    good = [compiled(model=MLP(3, 4, 2)).module(level) for level in ("traced", "tg")]
    path = folder / "module.mlir"
    for number, draw in cases(4, count):
        text = draw.choice(good)
        path.write_text(damaged_words(text, draw))
        check(lambda: parsed_tensors(str(path)), f"ir {number}")


def damage_tables(folder: Path, count: int) -> None:
    schedule = {
        "archetype": "thread",
        "workgroup": [64, 1, 1],
        "groups": [2, 1, 1],
        "width": 4,
    }
    tile = {"row": [0], "column": [1], "rows": 2, "columns": 2, "lanes": 8, "depth": 8, "chunk": 4}
    tables = {"a": schedule, "b": {"archetype": "contraction", "groups": [1, 1, 1], **tile}}
    path = folder / "tuned.json"
    good = {
        "format": FORMAT,
        "kernels": tables,
        "searches": {"a": {"seconds": 1.0, "best": schedule, "tried": [schedule]}},
    }
    values = {"learning_rate": 0.1, "step": 5.0}
    target = json.loads(Target.named("lavapipe").to_json())
    for number, draw in cases(5, count):
        data = (
            damaged_bytes(json.dumps(good).encode(), draw)
            if number % 2
            else json.dumps(damaged_tree(good, draw)).encode()
        )
        path.write_bytes(data)

        def table() -> None:
            try:
                read_file(path)
            except DiagnosticException as error:
                raise ProgramError(str(error)) from error

        check(table, f"table {number}")
        text = json.dumps(damaged_tree(target, draw))
        check(lambda text=text: Target.from_spec(text), f"target {number}")
        cut = text[: draw.randrange(len(text))]
        check(lambda cut=cut: Target.from_spec(cut), f"target {number}")
        formula = damaged_bytes(b"learning_rate * (0.5 ** floor((step - 1) / 10)) if step < 3 else min(1, 2)", draw)
        check(lambda formula=formula: Formula(formula.decode("latin-1")).evaluate(values), f"formula {number}")


DAMAGE = (damage_programs, damage_checkpoints, damage_onnx, damage_ir, damage_tables)


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
def test_damage_ends_in_one_error(damage: Callable[[Path, int], None], tmp_path: Path) -> None:
    with bounded():
        damage(tmp_path, CASES)


@pytest.mark.nightly
@pytest.mark.timeout(0)
@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
def test_much_damage_ends_in_one_error(damage: Callable[[Path, int], None], tmp_path: Path) -> None:
    with bounded():
        damage(tmp_path, NIGHTLY)


def raw_header(path: Path, header: dict[str, Any], data: bytes = b"") -> Path:
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


@pytest.mark.parametrize(
    ("entry", "data"),
    [
        ({"dtype": "F8_E5M2", "shape": [4], "data_offsets": [0, 4]}, bytes(4)),
        ({"dtype": "F8_E4M3", "shape": [2], "data_offsets": [0, 2]}, bytes(2)),
        ({"dtype": "F32", "shape": [1] * 65, "data_offsets": [0, 4]}, bytes(4)),
        ({"dtype": "F32", "shape": [2**62 + 1, 0], "data_offsets": [0, 0]}, b""),
        ({"dtype": "F32", "shape": [2**40, 0, 2**40], "data_offsets": [0, 0]}, b""),
    ],
)
def test_arrays_that_numpy_has_not(entry: dict[str, Any], data: bytes, tmp_path: Path) -> None:
    metadata = {"format": "tensorgrad-program", "format_version": "2", "program": "{}"}
    path = raw_header(tmp_path / "file", {"__metadata__": metadata, "a": entry}, data)
    with pytest.raises(ProgramError, match=r"not a safetensors file|malformed"):
        Saved.load(path)
    with pytest.raises(InputError, match=r"not a safetensors file|not a checkpoint"):
        compiled().load_checkpoint(path)


def test_json_that_nests_deep(tmp_path: Path) -> None:
    text = "[" * 100_000
    metadata = {"format": "tensorgrad-program", "format_version": "2", "program": text}
    with pytest.raises(ProgramError, match="nested too deeply"):
        Saved.load(raw_header(tmp_path / "file", {"__metadata__": metadata}))
    with pytest.raises(InputError, match=r"damaged checkpoint.*nested too deeply"):
        compiled().load_checkpoint(raw_header(tmp_path / "file", {"__metadata__": {"tensorgrad-checkpoint": text}}))
    for spec in ('{"name": ' + text, "nowhere\0", "a" * 10_000):
        with pytest.raises(TensorgradError, match="target"):
            Target.from_spec(spec)


NAGA_ENDS = [
    ("let a = " + "(" * 20_000 + "1" + ")" * 20_000 + ";", "open brackets"),
    ("let a = " + "!" * 20_000 + "true;", "operators"),
    ("let a = x" + "+x" * 20_000 + ";", "operators"),
    ("let a = x" + ".x" * 20_000 + ";", "operators"),
    ("if x == 1u { } " + "else if x == 2u { } " * 20_000, "conditions after `else`"),
    ("var a: " + "array<" * 20_000 + "u32" + ", 1>" * 20_000 + ";", "operators"),
    ("} " + "alias A = u32; " * 2000 + "fn g() {", "declarations"),
    ("let a = x /*;*/ + x;", "block comments"),
    ("let a = x // ;\n" + "+ x // ;\r" * 2000 + ";", "operators"),
    (" " * (1 << 22), "characters"),
]


@pytest.mark.parametrize(("body", "message"), NAGA_ENDS, ids=[message for _, message in NAGA_ENDS])
def test_shaders_that_no_driver_sees(body: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "file.tg"
    compiled().save(path)
    metadata, tensors = contents(path)
    program = json.loads(metadata["program"])
    code = program["kernels"][0]["code"]
    program["kernels"][0]["code"] = code.replace("{", "{ " + body, 1)
    save_file(tensors, path, metadata={**metadata, "program": json.dumps(program)})
    with pytest.raises(ProgramError, match=f"kernel 0 .*: its code has .*{message}"):
        Saved.load(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("%0 = tg.exp", "tg.exp does not take 0 operands"),
        ("%0 = tg.add %x : tensor<2xf32>", "tg.add does not take 1 operands"),
        ("%0 = tg.reverse axes = [0]", "tg.reverse does not take 0 operands"),
        ("%0 = tg.reshape", "tg.reshape does not take 0 operands"),
        ("%0 = tg.constant value = dense<0.0> : tensor<1000000x1000000xf32>", "a constant of more than"),
        ('%0 = "test.op"() : () -> tensor<4294967296x4294967296xf32>', "a shape of more than"),
        ('%0 = "test.op"() : () -> tensor<' + "9" * 5000 + "x2xf32>", "a shape of more than"),
        ('%0 = "test.op"() : () -> ' + "tuple<" * 5000 + ">" * 5000, "nested too deeply"),
        ("%0 = tg.reverse %x axes = 3 : tensor<2xf32>", "tg.reverse: its properties have the wrong types"),
        ('%0 = "' + "a b" * 10_000, "before closing string literal"),
    ],
)
def test_ir_that_is_malformed(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "module.mlir"
    path.write_text(f"func.func @f(%x: tensor<2xf32>) {{\n{text}\nfunc.return\n}}\n")
    with pytest.raises(ProgramError, match=message):
        parsed_tensors(str(path))


def test_the_errors_of_passes_are_not_hidden() -> None:
    assert not issubclass(ParseError, ValueError) and not issubclass(VerifyException, ValueError)


@pytest.mark.parametrize("tensor", [{"dims": [7, 9]}, {"raw_data": b"abc"}, {"data_type": 77}, {"name": ""}])
def test_onnx_tensors_of_wrong_sizes(tensor: dict[str, Any], tmp_path: Path) -> None:
    helper = onnx.helper
    weight = onnx.numpy_helper.from_array(np.ones((3, 5), np.float32), "w")
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    values = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", "m"]) for name in ("x", "y")]
    graph = helper.make_graph([node], "graph", values[:1], values[1:], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
    assert tg.onnx.load(model)
    for name, value in tensor.items():
        field = model.graph.initializer[0]
        if isinstance(value, list):
            del field.dims[:]
            field.dims.extend(value)
        else:
            setattr(field, name, value)
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(OptionError, match=r"tg\.onnx\.load"):
        tg.onnx.load(tmp_path / "model.onnx")


def test_results_that_one_of_two_programs_has_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    training = tg.compile(
        tg.nn.Linear(2, 1),
        loss=lambda model, x: tg.mean(model(x) ** 2),
        optimizer=tg.optim.sgd(0.1),
        inputs={"x": (4, 2)},
        accumulate=2,
        device="cpu",
    )
    path = tmp_path / "step.tg"
    training.save(path)
    saved = Saved.load(path)
    assert saved.others is not None
    renamed = tuple(replace(tensor, name="z") if tensor.role == "output" else tensor for tensor in saved.others.tensors)
    with monkeypatch.context() as unchecked:
        unchecked.setattr(Saved, "validate", lambda self: None)
        replace(saved, others=replace(saved.others, tensors=renamed)).save(path)
    with pytest.raises(ProgramError, match="holds a malformed program"):
        tg.load(path, device="cpu")
