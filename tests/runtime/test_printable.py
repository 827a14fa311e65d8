"""Names from files can't command a terminal: commands, errors and logs show control characters escaped."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from damage import contents
from safetensors.numpy import save_file

import tensorgrad as tg
from tensorgrad.errors import InputError, ProgramError, TargetError
from tensorgrad.runtime.printable import MOST_NAMES, listed, printable
from tensorgrad.runtime.target import Target
from tensorgrad.tools.tg import main

EVIL = "\x1b]0;owned\x07\x1b[31mred\x9b\u202egnp.exe\u2066\r\x08\x7f\u2028"
SHOWN = r"\x1b]0;owned\x07\x1b[31mred\x9b\u202egnp.exe\u2066\r\x08\x7f\u2028"


def is_obeyed(text: str) -> bool:
    """Returns whether a text has characters that a terminal obeys, besides ends of lines and tabs."""
    return any(unicodedata.category(mark) in ("Cc", "Cf", "Zl", "Zp", "Cs") and mark not in "\n\t" for mark in text)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A training all of whose names are evil."""
    path = tmp_path / "file.tg"
    training = tg.compile(
        tg.nn.Linear(3, 2),
        loss=lambda model, x: tg.mean(model(x) ** 2),
        optimizer=tg.optim.sgd(0.1),
        inputs={"x": (4, 3)},
        device="numpy",
    )
    training.save(path, target="webgpu-default")
    metadata, tensors = contents(path)
    program, host = json.loads(metadata["program"]), json.loads(metadata["host"])

    def renamed(name: str) -> str:
        return f"{name}\n{EVIL}"

    program["name"] = renamed("program")
    for slot in program["tensors"]:
        slot["name"] = renamed(slot["name"])
    for step in program["plan"]:
        if step["op"] == "dispatch":
            step["label"] = renamed(step["label"])
    program["target"]["name"] = renamed("target")
    host["results"] = renamed(host["results"])
    named = {f"{role}/{renamed(name)}": value for key, value in tensors.items() for role, name in [key.split("/", 1)]}
    save_file(named, path, metadata={**metadata, "program": json.dumps(program), "host": json.dumps(host)})
    return path


def output(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    main([str(argument) for argument in arguments])
    shown = "".join(capsys.readouterr())
    assert not is_obeyed(shown), repr(shown)
    return shown


@pytest.mark.parametrize("command", ["inspect", "report", "run", "bench", "export"])
def test_commands(command: str, file: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    before = {"export": ["web"], "bench": ["--device", "cpu"], "report": ["--text"]}.get(command, [])
    after = [str(tmp_path / "page")] if command == "export" else []
    shown = "".join(output(capsys, command, *before, file, *after).split())
    if command != "export":
        assert "\\x1b[31mred" in shown or "native" in shown, shown
    output(capsys, "inspect", "--json", file)


def test_tables_have_one_line_for_a_name(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert f"program\\n{SHOWN}: a step" in output(capsys, "inspect", file)


def test_errors(file: Path, tmp_path: Path) -> None:
    evil = tmp_path / f"evil{EVIL}"
    evil.write_bytes(b"nothing")
    training = tg.load(file)
    errors: list[tuple[type[Exception], Any]] = [
        (ProgramError, lambda: tg.load(evil)),
        (InputError, lambda: training.step(y=np.zeros((4, 3)))),
        (TargetError, lambda: Target.from_fields({EVIL: 1})),
    ]
    for kind, act in errors:
        with pytest.raises(kind) as caught:
            act()
        assert not is_obeyed(str(caught.value)) and "\\x1b" in str(caught.value)


def test_errors_of_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["inspect", f"no{EVIL}"], ["serve", f"no{EVIL}"], ["launch", "-n", "1", f"no{EVIL}"]):
        assert SHOWN[: SHOWN.index("exe")] in output(capsys, *arguments)
    module = tmp_path / "module.mlir"
    module.write_text(f'func.func @f() {{ "{EVIL}" }}', encoding="utf-8")
    done = subprocess.run([sys.executable, "-m", "tensorgrad.tools.tg_opt", module], capture_output=True, check=False)
    assert done.returncode == 1 and not is_obeyed(done.stderr.decode())


def test_logs() -> None:
    code = f"import tensorgrad, logging; logging.getLogger('tensorgrad.cache').info('%s', {EVIL!r})"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env={"TG_LOG": "cache"}, capture_output=True, check=True, encoding="utf-8")
    assert done.stderr == f"tensorgrad.cache: {SHOWN}\n"
    assert logging.getLogger("tensorgrad.cache").handlers == []


def test_texts() -> None:
    assert printable(f"a\n{EVIL}\tb") == f"a\\n{SHOWN}\\tb"
    assert printable(f"a\n{EVIL}\tb", lines=True) == f"a\n{SHOWN}\tb"
    assert printable("\ud800") == "\\ud800"
    for text in ("größe.weight", "重み", "وزن", "a 👩‍🔬 b", "C:\\x"):
        assert printable(text) == text


def test_many_names() -> None:
    names = [f"n{number}" for number in range(MOST_NAMES + 1)]
    whole = ", ".join(names[:MOST_NAMES])
    assert listed(names[:MOST_NAMES]) == whole
    assert listed(names) == f"{whole} and 1 more, {MOST_NAMES + 1} in all"
