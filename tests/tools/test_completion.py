"""`tg completion`: the bash script completes what a user types, and every shell's script names all subcommands."""

from __future__ import annotations

import json
import shlex
import subprocess
from functools import cache
from pathlib import Path

import pytest

from tensorgrad.passes.registry import CLASSES
from tensorgrad.runtime.target import PROFILES
from tensorgrad.tools.bench import DEVICES
from tensorgrad.tools.completion import PROGRAMS, SHELLS
from tensorgrad.tools.tg import COMMANDS, main

COMPLETE = """\
COMP_WORDS=({words})
COMP_CWORD={last}
$(complete -p {program} | sed 's/.*-F \\([^ ]*\\).*/\\1/')
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture
def scripts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> list[Path]:
    """The completion scripts for bash."""
    for program in PROGRAMS:
        assert main(["completion", "bash", program]) == 0
        (tmp_path / program).write_text(capsys.readouterr().out, encoding="utf-8")
    return [tmp_path / program for program in PROGRAMS]


def test_completions_in_bash(scripts: list[Path], tmp_path: Path) -> None:
    """Both scripts are sourced into one shell, as in a user's start-up file."""
    (tmp_path / "loss.mlir").touch()

    @cache
    def completed(*words: str) -> list[str]:
        source = "".join(f"source {shlex.quote(str(script))}\n" for script in scripts)
        ask = COMPLETE.format(words=shlex.join(words), last=len(words) - 1, program=words[0])
        done = subprocess.run(
            ["bash", "--norc", "-c", source + ask], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert done.stderr == ""
        return sorted(filter(None, done.stdout.split("\n")))

    assert completed("tg", "") == sorted(COMMANDS)
    assert completed("tg", "rep") == [name for name in sorted(COMMANDS) if name.startswith("rep")]
    assert "report" in completed("tg", "re")
    assert completed("tg", "bench", "--device", "") == sorted(DEVICES)
    assert completed("tg", "run", "program.tg", "--dev") == ["--device"]
    assert completed("tg", "report", "--target", "") == sorted(PROFILES)
    assert completed("tg", "inspect", "loss") == ["loss.mlir"]
    assert completed("tg", "report", "loss.mlir", "--out", "lo") == ["loss.mlir"]
    assert completed("tg", "replay", "lo") == completed("tg", "replay", "--checkpoint", "lo") == ["loss.mlir"]
    assert completed("tg-opt", "loss") == completed("tg-opt", "--load", "loss") == ["loss.mlir"]
    assert completed("tg-opt", "-t", "wg") == ["wgsl"]
    assert completed("tg-opt", "-p", "simplify,gra") == ["simplify,grad"]
    assert completed("tg-opt", "--print-ir-after", "fuse,simp") == ["fuse,simplify"]
    assert {*CLASSES, "training-pipeline"} <= set(completed("tg-opt", "loss.mlir", "-p", ""))


def test_the_scripts_are_valid_bash(scripts: list[Path]) -> None:
    for script in scripts:
        subprocess.run(["bash", "-n", str(script)], check=True)


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_knows_the_subcommands_and_the_passes(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    for program, names in (("tg", [*COMMANDS, *DEVICES, *PROFILES]), ("tg-opt", [*CLASSES, "wgsl"])):
        assert main(["completion", shell, program, "--json"]) == 0
        completion = json.loads(capsys.readouterr().out)
        assert (completion["program"], completion["shell"]) == (program, shell)
        assert [name for name in names if name not in completion["script"]] == []


def test_another_shell_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["completion", "nushell"])
    assert caught.value.code == 2
    assert "argument shell: invalid choice: 'nushell'" in capsys.readouterr().err
