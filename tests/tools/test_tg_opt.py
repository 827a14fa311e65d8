"""`tg-opt` as MLIR's users type it: nested pipelines, expected errors, and where output goes."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from layers import ROOT

from tensorgrad.tools.diagnostics import expectations
from tensorgrad.tools.tg_opt import main

TWO = """
func.func @first(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tg.neg %x : tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
func.func @second(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = tg.exp %x : tensor<2xf32>
  func.return %0 : tensor<2xf32>
}
"""

OWN_PASSES = ROOT / "tests" / "lit" / "tg-opt" / "Inputs" / "own_passes.py"


@pytest.fixture
def two(tmp_path: Path) -> str:
    """A file with two functions."""
    path = tmp_path / "two.mlir"
    path.write_text(TWO, encoding="utf-8")
    return str(path)


def test_a_dumped_pipeline_runs_the_same_passes(two: str, capsys: pytest.CaptureFixture[str]) -> None:
    pipeline = 'func.func(simplify,cse),inference-pipeline{target="{\\"f16\\": true}"}'
    assert main([two, f"--pass-pipeline={pipeline}", "--dump-pass-pipeline"]) == 0
    first = capsys.readouterr()
    assert first.err.startswith("builtin.module(func.func(simplify),func.func(cse),")
    assert main([two, f"--pass-pipeline={first.err}", "--dump-pass-pipeline"]) == 0
    assert capsys.readouterr() == first


def test_a_nested_pass_that_crashes_has_a_reproducer(two: str, capsys: pytest.CaptureFixture[str]) -> None:
    pipeline = "builtin.module(func.func(simplify,crash{depth=3}))"
    assert main([two, "--load", str(OWN_PASSES), "--pass-pipeline", pipeline]) == 1
    message = capsys.readouterr().err
    assert message.startswith("tg-opt: error: func.func crashed at own_passes.py:")
    written = re.search(r"it is in (\S+),", message)
    assert written is not None
    file = Path(written[1])
    again = shlex.split(file.read_text(encoding="utf-8").split("\n", 1)[0].removeprefix("// tg-opt "))
    assert again[:3] == [file.name, "-p", "func.func(crash{depth=3})"]
    assert main([str(file), *again[1:]]) == 1
    assert "IndexError: depth 3" in capsys.readouterr().err


def test_passes_of_modules_are_not_for_functions(two: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = tmp_path / "own.py"
    own.write_text(
        "from xdsl.passes import ModulePass\n"
        "from xdsl.dialects.builtin import UnitAttr\n"
        "class MarkPass(ModulePass):\n"
        "    name = 'mark'\n"
        "    def apply(self, ctx, op):\n"
        "        op.attributes['marked'] = UnitAttr()\n",
        encoding="utf-8",
    )
    assert main([two, "--load", str(own), "--mark"]) == 0
    assert "marked" in capsys.readouterr().out
    assert main([two, "--load", str(own), "--pass-pipeline=func.func(mark)"]) == 1
    assert capsys.readouterr().err == (
        "tg-opt: error: func.func: mark changes the module: write it outside of func.func(...)\n"
    )


@pytest.mark.parametrize(
    "arguments", [["--fuze"], ["--fuse", "-p", "cse"], ["-t", "pdf"], ["--load"], ["--pass-pipeline"]]
)
def test_usage_errors_have_a_status_of_their_own(arguments: list[str], two: str) -> None:
    with pytest.raises(SystemExit) as caught:
        main([two, *arguments])
    assert caught.value.code == 2


def test_shrinking_succeeds_where_a_pass_says_so(two: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = tmp_path / "own.py"
    own.write_text(
        "from xdsl.passes import ModulePass\n"
        "from xdsl.utils.exceptions import ShrinkException\n"
        "class InterestingPass(ModulePass):\n"
        "    name = 'interesting'\n"
        "    def apply(self, ctx, op):\n"
        "        raise ShrinkException\n",
        encoding="utf-8",
    )
    for flag, status in (("--interesting", 0), ("--simplify", 1)):
        with pytest.raises(SystemExit) as caught:
            main([two, "--load", str(own), "--shrink", flag])
        assert (caught.value.code or 0) == status
    assert "Success, can shrink" in capsys.readouterr().out


def test_files_that_are_no_text_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "binary.mlir"
    path.write_bytes(b"\xff\xfe\x00")
    assert main([str(path)]) == 1
    assert capsys.readouterr().err.startswith(f"tg-opt: error: {path} is no text: 'utf-8' codec")


def test_passes_of_a_file_have_names_of_their_own(two: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A class without a name, from which its passes derive, is no pass."""
    own = tmp_path / "own.py"
    text = (
        "from xdsl.passes import ModulePass\n"
        "class Base(ModulePass):\n"
        "    def apply(self, ctx, op): pass\n"
        "class Own(Base):\n"
        "    name = 'nothing'\n"
    )
    own.write_text(text, encoding="utf-8")
    assert main([two, "--load", str(own), "-p", "nothing"]) == 0
    capsys.readouterr()
    own.write_text(text.replace("nothing", "fuse"), encoding="utf-8")
    assert main([two, "--load", str(own), "-p", "fuse"]) != 0
    assert "--load: Own is called 'fuse', as a pass of tensorgrad" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["-p", "fuze"], ["--fuse=a=b"], ["--load", "nowhere.py"], ["-p", "fuse{"]])
def test_so_do_errors_in_passes(arguments: list[str], two: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([two, *arguments]) == 2
    assert capsys.readouterr().err.startswith("tg-opt: error: ")


def test_a_failure_leaves_the_output_file_as_it_was(two: str, tmp_path: Path) -> None:
    output = tmp_path / "out.mlir"
    output.write_text("before", encoding="utf-8")
    assert main([two, "--fuse", "-o", str(output)]) == 1
    assert output.read_text(encoding="utf-8") == "before"
    assert main([two, "--simplify", "-o", two]) == 0
    assert "tg.neg" in Path(two).read_text(encoding="utf-8")


def test_places_of_expected_errors() -> None:
    text = "\n".join(
        [
            "op // expected-error {{this}}",
            "// expected-error@+2 {{two on}}",
            "// expected-note@below {{stacked}}",
            "// expected-error @below {{too}}",
            "op",
            "// expected-error@above {{before}}",
            "// expected-error@above {{before, too}}",
            "// expected-error@-1 {{one back}}",
            "// expected-warning@unknown {{nowhere}}",
            "// expected-error-re@+1 {{a.b {{[0-9]+}} c}}",
            "// expected-error@somewhere {{not one}}",
        ]
    )
    assert [
        (expectation.kind, expectation.written, expectation.line, expectation.text)
        for expectation in sorted(expectations(text, 11), key=lambda e: e.written)
    ] == [
        ("error", 11, 11, "this"),
        ("error", 12, 14, "two on"),
        ("note", 13, 15, "stacked"),
        ("error", 14, 15, "too"),
        ("error", 16, 15, "before"),
        ("error", 17, 15, "before, too"),
        ("error", 18, 17, "one back"),
        ("warning", 19, None, "nowhere"),
        ("error", 20, 21, "a.b {{[0-9]+}} c"),
    ]
    pattern = expectations(text)[-1].pattern
    assert pattern.search("x a.b 12 c") is not None
    assert pattern.search("x a-b 12 c") is None


UPSTREAM = """
func.func @fine(%x: f32) -> f32 {
  func.return %x : f32
}
// -----
func.func @f(%x: f32) {
  // expected-error@below {{arith.addff}}
  %0 = arith.addff %x, %x : f32
  func.return
}
// -----
func.func @f(%x: i32) {
  // expected-error-re@+1 {{{{.+}}}}
  %0 = "arith.addi"(%x, %x) : (i32, i32) -> i64
  // A line between them.
  // expected-error@-2 {{EXTRA}}
  func.return
}
"""


@pytest.mark.mlir
@pytest.mark.parametrize(
    ("text", "status"), [(UPSTREAM, 1), (re.sub(".*EXTRA.*", "", UPSTREAM), 0), ("\n// -----\n", 0)]
)
def test_upstream_agrees_on_what_is_expected(text: str, status: int, tmp_path: Path) -> None:
    path = tmp_path / "expected.mlir"
    path.write_text(text, encoding="utf-8")
    command = [str(path), "--split-input-file", "--verify-diagnostics"]
    done = subprocess.run(["mlir-opt-19", *command], capture_output=True, text=True, check=False)
    assert done.returncode == main(command) == status, done.stderr
