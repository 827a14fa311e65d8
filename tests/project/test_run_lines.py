"""The RUN lines of IR tests that run in one fork: what they mean, and what is left to lit's shell."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from run_lines import Command, pipeline_of, pipelines, succeeds

IR = "func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {\n  func.return %x : tensor<2xf32>\n}\n"


def passes(path: Path, substitutions: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> bool:
    """Returns whether all lines of a file pass; runs them here, in the file's folder."""
    for name in ("stdin", "stdout", "stderr"):  # which are replaced
        monkeypatch.setattr(sys, name, getattr(sys, name))
    monkeypatch.chdir(path.parent)
    tests = pipelines(path, substitutions)
    assert tests
    return all(succeeds(pipeline, path) for pipeline in tests)


def test_words_are_those_of_a_shell() -> None:
    line = "not tg-opt - --load 'a b' < %s 2>&1 | filecheck %s --check-prefix=ONE"
    assert pipeline_of(line) == [
        Command(["tg-opt", "-", "--load", "a b"], fails=True, joins=True, source="%s"),
        Command(["filecheck", "%s", "--check-prefix=ONE"]),
    ]
    assert pipeline_of("tg-opt %s > %t.out") == [Command(["tg-opt", "%s"], target="%t.out")]


@pytest.mark.parametrize(
    "line",
    [
        "/bin/tg-opt %s",
        "tg-opt %s && cmp a b",
        "rm -rf %t",
        "tg-opt %s >> %t",
        "tg-opt %s 2> %t",
        "tg-opt %s 2>&1 > %t",
        "tg-opt %s \\",
    ],
)
def test_the_shell_runs_what_is_not_known(line: str) -> None:
    assert pipeline_of(line) is None


@pytest.mark.parametrize("line", ["tg-opt %{inputs}", "%bin/tg-opt %s"])
def test_so_does_it_what_is_left_to_replace(tmp_path: Path, line: str) -> None:
    path = tmp_path / "test.mlir"
    path.write_text(f"// RUN: tg-opt %s\n// RUN: {line}\n{IR}", encoding="utf-8")
    assert pipelines(path, {"%bin": "/bin"}) is None


@pytest.mark.parametrize(
    "line, passing",
    [
        ("tg-opt %s | filecheck %s", True),
        ("tg-opt %s | not filecheck %s", False),
        ("tg-opt %s | filecheck %s --check-prefix OTHER", False),
        ("not tg-opt %s", False),
        ("not tg-opt %s -p fuze 2>&1 | filecheck %s --check-prefix NAME", True),
        ("not tg-opt %s -p fuze | filecheck %s --check-prefix NAME", False),
        ("tg-opt %s -p fuze | not filecheck %s", False),
        ("tg-opt %s > %t.a", True),
        ("filecheck %s --input-file %t.a", False),
        ("cmp %s %S/test.mlir", True),
        ("TG_SAME", True),
    ],
)
def test_a_line_passes_where_each_command_ends_as_it_should(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, passing: bool
) -> None:
    path = tmp_path / "test.mlir"
    path.write_text(f"// RUN: {line}\n// CHECK: func.func @f\n// OTHER: @g\n// NAME: fuze\n{IR}", encoding="utf-8")
    assert passes(path, {"TG_SAME": "tg-opt < %s | tg-opt | filecheck %s"}, monkeypatch) == passing


def test_files_are_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "test.mlir"
    lines = "// RUN: tg-opt %s > %t.a\n// RUN: tg-opt %t.a -o %t.b\n// RUN: cmp %t.a %t.b\n"
    path.write_text(lines + IR, encoding="utf-8")
    assert passes(path, {}, monkeypatch)
    assert (tmp_path / "t.b").read_bytes() == (tmp_path / "t.a").read_bytes() != b""
