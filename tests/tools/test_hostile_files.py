"""Files that are well-formed, but say what no file of ours says: each is read or refused by one error of ours.

What is read can also be printed, inspected and saved again.
"""

from __future__ import annotations

import copy
import io
import json
import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from damage import check, contents, nodes
from models import compiled
from rich.console import Console
from runtime_programs import training_program
from safetensors.numpy import save_file
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.errors import InputError, OptionError, ProgramError, TargetError
from tensorgrad.passes.buffers.schedule.tuned import FORMAT, read_table
from tensorgrad.runtime.files import MOST_AXES
from tensorgrad.runtime.program import Program, Repeat
from tensorgrad.runtime.saved import Saved
from tensorgrad.runtime.target import Target
from tensorgrad.runtime.texts import MOST_NESTED, json_text, parsed_json, read_text
from tensorgrad.runtime.validation import MOST_LOOPS
from tensorgrad.tools.arrays import named_array, named_arrays
from tensorgrad.tools.inspecting import Inspect
from tensorgrad.tools.launching import Launch
from tensorgrad.tools.tg import main


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


HOSTILE: list[Any] = [
    *(
        "\ud800",
        "a\udfffb",
        {"\udbff": 1},
        "\ud83d\ude00",
        "\x00\x1b[2J\u202e",
        "\r\n",
        "\u2028",
        "../../x",
        "constructor",
    ),
    *([0] * (MOST_AXES + 6), [0, 2**62, 2**62], [2**63], [0, 2**70], [1] * 64, nested(60), nested(400)),
    *(2**63, 2**64, -(2**63), 10**30, 1e308, True, None, "1", "-1", "__class__", "9" * 4000),
]
"""Values that JSON can have and files of ours do not."""


def repeats(depth: int, plan: list[Any]) -> list[Any]:
    for _ in range(depth):
        plan = [{"op": "repeat", "count": 1, "steps": plan}]
    return plan


def used(path: Path) -> None:
    """Reads a program, and does what can be done with it without a device."""
    saved = Saved.load(path)
    assert repr(saved.program) and saved.program._repr_html_()
    for as_json in (False, True):
        Inspect(str(path), json=as_json).run(Console(file=io.StringIO()))
    saved.save(path.with_name("again.tg"))


def changed(path: Path, part: str, change: Callable[[Any], Any], to: Path) -> None:
    """Writes a program file with a changed part of its JSON."""
    metadata, tensors = contents(path)
    save_file(tensors, to, metadata={**metadata, part: json.dumps(change(json.loads(metadata[part])))})


def test_hostile_programs(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.tg", tmp_path / "bad.tg"
    compiled(accumulate=2).save(good)
    draw = random.Random(0)
    accepted = 0
    for number in range(150):

        def put(tree: Any) -> Any:
            holder, key = draw.choice(list(nodes(tree)))
            value = copy.deepcopy(draw.choice(HOSTILE))
            if isinstance(holder, dict) and isinstance(value, str) and draw.random() < 0.3:
                holder[value] = holder.pop(key)
            else:
                holder[key] = value
            return tree

        changed(good, draw.choice(["program", "accumulate", "host"]), put, bad)
        accepted += check(lambda: used(bad), f"program {number}")
    assert 0 < accepted < 150


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda program: program | {"name": "\ud800"}, "has text that is not Unicode"),
        (lambda program: program | {"statistics": {"\udfff": 1}}, "has text that is not Unicode"),
        (lambda program: program | {"statistics": {"a": nested(MOST_NESTED)}}, "is nested too deeply"),
        (lambda program: program | {"plan": repeats(400, program["plan"])}, "is nested too deeply"),
        (lambda program: program | {"plan": repeats(MOST_LOOPS + 1, program["plan"])}, "more than 32 loops are nested"),
    ],
)
def test_programs_that_are_refused(change: Callable[[Any], Any], message: str, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.tg", tmp_path / "bad.tg"
    compiled().save(good)
    changed(good, "program", change, bad)
    for read in (Saved.load, Program.load):
        with pytest.raises(ProgramError, match=f"bad.tg holds a malformed program: .*{message}"):
            read(bad)
    used(good)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ([0] * 70, "has 70 axes, at most 64"),
        ([0, 2**31, 2**31], "elements, at most"),
        ([0, 2**70], "elements, at most"),
    ],
)
def test_shapes_that_numpy_has_not(shape: list[int], message: str, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.tg", tmp_path / "bad.tg"
    training_program().save(good)

    def reshape(program: Any) -> Any:
        next(slot for slot in program["tensors"] if slot["role"] == "input")["shape"] = shape
        return program

    changed(good, "program", reshape, bad)
    with pytest.raises(ProgramError, match=message):
        Program.load(bad)


def test_loops_are_counted_before_a_program_is_saved(tmp_path: Path) -> None:
    program = training_program()
    plan = program.plan
    for _ in range(400):
        plan = (Repeat(1, plan),)
    with pytest.raises(ProgramError, match="more than 32 loops are nested"):
        Program(**{**vars(program), "plan": plan}).save(tmp_path / "program.tg")
    with pytest.raises(ProgramError, match="has text that is not Unicode"):
        Program(**{**vars(program), "name": "\ud800"}).save(tmp_path / "program.tg")
    assert list(tmp_path.iterdir()) == []


def test_json() -> None:
    for value in (nested(MOST_NESTED), "\U0001f600", "\\ud800", {"a": [1.5, None, True]}):
        assert parsed_json(json_text(value)) == value
    assert parsed_json('"\\ud83d\\ude00"') == "\U0001f600"
    for value in (nested(MOST_NESTED + 1), ["\ud800"], {"\udfff": 1}):
        with pytest.raises(ValueError, match=r"nested too deeply|not Unicode"):
            json_text(value)
        with pytest.raises(ValueError, match=r"nested too deeply|not Unicode"):
            parsed_json(json.dumps(value))
    with pytest.raises(ValueError, match="not Unicode"):
        parsed_json('"\udcff"')


@pytest.mark.parametrize("value", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_tables(value: Any, tmp_path: Path) -> None:
    """A table of schedules, a target, and a checkpoint with one hostile value."""
    path = tmp_path / "table.json"

    def table() -> None:
        try:
            read_table(path)
        except DiagnosticException as error:
            raise ProgramError(str(error)) from error

    schedule = {"archetype": "thread", "workgroup": [64, 1, 1], "groups": [2, 1, 1], "width": 4}
    good = {
        "format": FORMAT,
        "kernels": {"a": schedule},
        "searches": {"a": {"seconds": 1, "best": schedule, "tried": []}},
    }
    target = json.loads(Target.named("lavapipe").to_json())
    for tree, read in ((good, table), (target, lambda: Target.from_spec(str(path)))):
        for place, _ in enumerate(nodes(tree)):
            bad = copy.deepcopy(tree)
            holder, key = list(nodes(bad))[place]
            holder[key] = value
            path.write_text(json.dumps(bad), encoding="utf-8")
            check(read, f"{key}: {value!r}")
    training = compiled()
    for content in ({"version": value, "run": None}, {"version": 1, "run": value}, value):
        save_file({"a": np.zeros(1)}, path, metadata={"tensorgrad-checkpoint": json.dumps(content)})
        check(lambda: training.load_checkpoint(path), f"checkpoint {content!r}")


def npy(header: str) -> bytes:
    text = header.encode("latin-1") + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(64)


HEADERS = [
    "{'descr': '<f4', 'fortran_order': False, 'shape': (0,) * 70}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': " + "(" * 3000 + ")" * 3000 + "}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (" + "0, " * 70 + ")}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4)}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
    "{'descr': '|O', 'fortran_order': False, 'shape': (2,)}",
    "{'descr': [('a', '<f4')], 'fortran_order': 1, 'shape': 'x'}",
    "{'descr': \x00",
    "'''",
]


@pytest.mark.parametrize("header", HEADERS, ids=range(len(HEADERS)))
def test_hostile_arrays(header: str, tmp_path: Path) -> None:
    single, several, folder = tmp_path / "a.npy", tmp_path / "a.npz", tmp_path / "out"
    single.write_bytes(npy(header))
    with zipfile.ZipFile(several, "w") as archive:
        archive.writestr("a.npy", npy(header))
    with pytest.raises(InputError, match=r"a\.npy is not an \.npy file of numbers"):
        named_array(f"x={single}")
    with pytest.raises(InputError, match=r"a\.npz is not an \.npz file of numbers"):
        named_arrays(str(several))
    assert main(["export", "web", "no.tg", str(folder), "--example", str(several)]) == 1 and not folder.exists()


def test_damaged_archives(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez_compressed(path, x=np.arange(1000))
    data = path.read_bytes()
    for number in range(60):
        draw = random.Random(number)
        bad = bytearray(data)
        for _ in range(3):
            bad[draw.randrange(len(bad))] = draw.randrange(256)
        path.write_bytes(bad)
        check(lambda: named_arrays(str(path)), f"archive {number}")


def test_files_that_are_not_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "binary.mlir"
    path.write_bytes(b"func\xff\xfe")
    with pytest.raises(ProgramError, match=r"binary\.mlir is not text in UTF-8"):
        read_text(path, ProgramError)
    for command in ("report", "bench", "reduce"):
        assert main([command, str(path), *(["--check", "true {}"] if command == "reduce" else [])]) == 1
        assert f"tg: error: {path} is not text in UTF-8" in capsys.readouterr().err
    with pytest.raises(OptionError, match="is not text in UTF-8"):
        Launch(str(path), (), 2, hostfile=str(path))._variables(2)
    with pytest.raises(TargetError, match="can't decode"):
        Target.from_spec(str(path))
