"""`tg reduce`: planted faults in large modules are reduced to modules of a few ops."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from buffer_text import normal, parse, pointwise
from xdsl.dialects.linalg.ops import GenericOp

from tensorgrad.checks.reduction.edits import first_operand, functions, last_operand
from tensorgrad.checks.reduction.kernels import drop_inputs
from tensorgrad.checks.reduction.language import Language
from tensorgrad.checks.reduction.minimizing import minimized, spread
from tensorgrad.checks.reduction.search import Reduced, Reduction
from tensorgrad.dialects.buf import KernelOp
from tensorgrad.errors import ProgramError
from tensorgrad.interpreters.buffers import BufferExecutor
from tensorgrad.tools import tg_opt
from tensorgrad.tools.interestingness import Command, reason
from tensorgrad.tools.parsing import parse_module
from tensorgrad.tools.tg import main

PASSES = '''
from xdsl.passes import ModulePass

from tensorgrad.dialects.tg.elementwise.arithmetic import MulOp


class Wrong(ModulePass):
    """Multiplies what is added to a sine."""

    name = "wrong"

    def apply(self, ctx, op):
        for inner in list(op.walk()):
            if inner.name == "tg.add" and getattr(inner.operands[0].owner, "name", "") == "tg.sin":
                new = MulOp.create(operands=inner.operands, result_types=inner.result_types)
                inner.parent_block().insert_op_before(new, inner)
                inner.results[0].replace_all_uses_with(new.results[0])
                inner.detach()
                inner.erase()


class Crash(ModulePass):
    """Has no sine."""

    name = "crash"

    def apply(self, ctx, op):
        for inner in op.walk():
            if inner.name in ("tg.sin", "math.sin"):
                raise KeyError(inner.name)


class Loop(ModulePass):
    """Never ends where there is a sine."""

    name = "loop"

    def apply(self, ctx, op):
        while any(inner.name == "tg.sin" for inner in op.walk()):
            pass
'''

INVALID = """
func.func @f(%x: tensor<4x3xf32> {tg.name = "x"}) -> tensor<4x3xf32> {
  %0 = tg.tanh %x : tensor<4x3xf32>
  %1 = "tg.exp"(%0) : (tensor<4x3xf32>) -> tensor<4x2xf32>
  %2 = tg.sin %0 : tensor<4x3xf32>
  func.return %2 : tensor<4x3xf32>
}
"""

CALL = """
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tg.call @double(%x) : (tensor<4xf32>) -> (tensor<4xf32>) {
  ^bb0(%y: tensor<4xf32>):
    %1 = tg.sin %y : tensor<4xf32>
    tg.return %1 : tensor<4xf32>
  }
  func.return %0 : tensor<4xf32>
}
"""

KIND = "tensor<8x16xf32>"


def many_ops() -> str:
    """Returns a module of 62 ops in two functions, one of which adds to a sine."""
    lines, dot = [f"func.func @f(%v0: {KIND}, %v1: {KIND}, %w: tensor<16x16xf32>) -> ({KIND}, tensor<8xf32>) {{"], "[]"
    for number in range(2, 58):
        a, b = f"%v{number - 1}", f"%v{number - 2}"
        if number == 32:
            op = f"tg.sin {a} : {KIND}"
        elif number == 33 or number % 3 == 2:
            op = f"tg.add {a}, {b} : {KIND}, {KIND}"
        elif number % 7 == 0:
            axes = f"lhs_batch = {dot} rhs_batch = {dot} lhs_contracting = [1] rhs_contracting = [0]"
            op = f"tg.dot_general {a}, %w {axes} : {KIND}, tensor<16x16xf32>"
        else:
            op = f"tg.tanh {a} : {KIND}" if number % 3 else f"tg.mul {a}, {b} : {KIND}, {KIND}"
        lines.append(f"  %v{number} = {op}")
    lines += [f"  %s = tg.sum %v12 axes = [1] : {KIND}", f"  func.return %v57, %s : {KIND}, tensor<8xf32>", "}"]
    lines += ["func.func private @g(%x: tensor<4xf32>) -> tensor<4xf32> {", "  func.return %x : tensor<4xf32>", "}"]
    return "\n".join(lines) + "\n"


def reduced(text: str, fails: Callable[[str], bool]) -> Reduced:
    """Returns the result of a reduction whose check is a Python function."""
    return Reduction(text, Language(parse_module), fails).run()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "own.py").write_text(PASSES)
    (tmp_path / "many.mlir").write_text(many_ops())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.nightly
def test_a_wrong_value(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check = "tg-opt {} --load own.py -p wrong --verify-numerics-each"
    assert main(["reduce", "many.mlir", "--check", check, "--match", "wrong changes", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    module = report["module"]
    assert (report["before_ops"], report["after_ops"]) == (61, 4)
    assert report["check"] == "tg-opt many.mlir --load own.py -p wrong --verify-numerics-each"
    assert module.startswith(f"// {report['check']}\n")
    assert re.findall(r"tg\.\w+", module) == ["tg.sin", "tg.add"]
    (folder / "small.mlir").write_text(module)
    assert tg_opt.main(["small.mlir", "--load", "own.py", "-p", "wrong", "--verify-numerics-each"]) == 1
    assert "wrong changes output/result0" in capsys.readouterr().err


@pytest.mark.nightly
def test_the_reproducer_of_a_crash_below_and_again(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file has the command, and the message to match comes from the error; a reduced file stays as it is."""
    assert tg_opt.main(["many.mlir", "-p", "lower-tg-to-buf,crash", "--load", "own.py"]) == 1
    (file,) = folder.glob("crash-*.mlir")
    assert main(["reduce", str(file), "--out", "small.mlir"]) == 0
    assert re.fullmatch(r"wrote small.mlir: \d\d\d ops became 6\n", capsys.readouterr().out.partition("\n")[0] + "\n")
    small = (folder / "small.mlir").read_text()
    assert small.startswith(f"// tg-opt small.mlir -p crash --load {folder}/own.py\n")
    assert re.findall(r"[a-z]+\.\w+(?= )", small.partition("\n")[2])[0] == "builtin.module"
    assert small.count("buf.kernel") == small.count("linalg.generic") == small.count("math.sin") == 1
    assert not re.search(r"math\.tanh|memref\.alloc|arith", small)
    assert main(["reduce", "small.mlir"]) == 0
    again = capsys.readouterr().out
    assert again == small
    assert [path.name for path in folder.glob("crash-*.mlir")] == [file.name]


@pytest.mark.nightly
def test_an_invalid_module_stays_invalid_for_the_same_reason(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "invalid.mlir").write_text(INVALID)
    assert main(["reduce", "invalid.mlir", "--check", "tg-opt", "--match", "result is tensor.*, expected"]) == 0
    small = capsys.readouterr().out
    assert small.startswith("// tg-opt invalid.mlir\n")
    assert re.findall(r'"tg\.\w+"', small) == ['"tg.exp"']
    assert "tg.name" not in small


@pytest.mark.nightly
def test_a_check_that_takes_too_long(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "f.mlir").write_text(CALL)
    check = "tg-opt --load own.py -p loop {}"
    assert main(["reduce", "f.mlir", "--check", check, "--timeout", "0.5"]) == 0
    assert re.findall(r"tg\.\w+", capsys.readouterr().out) == ["tg.sin"]
    assert main(["reduce", "many.mlir", "--check", check, "--timeout", "0.5", "--seconds", "0", "--out", "o.mlir"]) == 0
    assert capsys.readouterr().out == "wrote o.mlir: 61 ops became 61; stopped by --seconds\n"


@pytest.mark.nightly
def test_another_command(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "f.mlir").write_text(CALL)
    (folder / "look.py").write_text("import sys\nsys.exit('tg.sin' in open(sys.argv[1]).read())\n")
    assert main(["reduce", "f.mlir", "--check", "python look.py"]) == 0
    small = capsys.readouterr().out
    assert small.startswith("// python look.py f.mlir\n")
    assert "tg.call" not in small


@pytest.mark.in_turns(4, 3)
@pytest.mark.parametrize(
    ("needs", "expected"),
    [
        (r"tg\.sin", ["sin"]),
        (r"tg\.dot_general", ["dot_general"]),
        (r"tg\.tanh(.|\n)*tg\.sum", ["tanh", "sum"]),
        (r"@g", []),
        (r"tg\.constant", ["constant"]),
    ],
)
def test_modules_keep_what_is_needed_and_nothing_else(needs: str, expected: Sequence[str]) -> None:
    text = many_ops().replace("  %v57 =", f"  %c = tg.constant value = dense<1.0> : {KIND}\n  %v57 =")
    text = text.replace("return %v57", "return %c") if "constant" in needs else text
    tried: list[str] = []

    def fails(module: str) -> bool:
        tried.append(module)
        return re.search(needs, module) is not None

    reduction = reduced(text, fails)
    assert re.findall(r"tg\.(\w+)", reduction.text) == list(expected)
    assert reduction.finished
    assert reduction.tried == len(tried) == len(set(tried))
    assert reduced(reduction.text, fails).text == reduction.text
    assert reduced(text, fails).text == reduction.text


@pytest.mark.nightly
def test_every_module_that_is_tried_is_valid() -> None:
    def fails(module: str) -> bool:
        Language(parse_module).read(module)
        return "tg.sin" in module

    assert reduced(many_ops(), fails).after_ops == 3


def test_attributes_and_extents_become_smaller() -> None:
    text = """
    func.func @f(%x: tensor<128x784xf32> {tg.name = "x", tg.role = "input"}) -> tensor<128xf32>
        attributes {a = 1 : i64} {
      %0 = tg.sum %x axes = [1] : tensor<128x784xf32>
      func.return %0 : tensor<128xf32>
    }
    """
    reduction = reduced(text, lambda module: re.search(r"tg.sum .*<\d+x784xf32>", module) is not None)
    assert "tensor<1x784xf32>" in reduction.text
    assert "tg.role" not in reduction.text and "a = 1" not in reduction.text


def test_unused_inputs_of_kernels_and_stages_are_dropped() -> None:
    module = parse(pointwise("f32", "%r = math.sin %a1 : f32\nlinalg.yield %r : f32", ins=3))
    for change in drop_inputs(module):
        change()
    module.verify()
    assert [len(op.inputs) for op in module.walk() if isinstance(op, KernelOp | GenericOp)] == [1, 1]
    x = normal(4)
    np.testing.assert_allclose(
        BufferExecutor(module).run({"x0": 2 * x, "x1": x, "x2": 3 * x})["output/y"], np.sin(x), rtol=1e-6
    )


def test_delta_debugging() -> None:
    assert minimized(range(100), lambda items: {3, 58, 59} <= set(items)) == [3, 58, 59]
    assert minimized(range(100), lambda items: True) == []
    assert minimized(range(3), lambda items: False) == [0, 1, 2]
    assert spread(7) == [3, 1, 5, 0, 2, 4, 6]


def test_the_reason_is_what_does_not_vary() -> None:
    crash = "tg-opt: error: crash crashed at own.py:31, in apply: KeyError: 7; the module before it is in build/a.mlir"
    wrong = "tg-opt: error: p changes output/y, which is computed at a.py:3: 2 of 8 elements, the first at [0], is 1.5"
    for message, other, different in (
        (crash, crash.replace("7;", "-2e5;").replace("a.mlir", "b"), crash.replace("py:31", "py:32")),
        (wrong, wrong.replace("2 of", "10 of").replace("1.5", "nan").replace("/y", "/z"), wrong.replace("p ", "q ")),
        ("Traceback\n  in f\nKeyError: 'a'", "KeyError: 'b'", "IndexError: 'a'"),
    ):
        pattern = re.compile(reason(message))
        assert pattern.search(other)
        assert not pattern.search(different)


def test_the_file_of_a_command() -> None:
    assert Command.of("tg-opt -p fuse").on("f") == ["tg-opt", "-p", "fuse", "f"]
    assert Command.of("run --file={} -v").on("f") == ["run", "--file=f", "-v"]
    assert Command.in_file("// tg-opt old.mlir -p 'a b'\n", "new.mlir").on("f") == ["tg-opt", "f", "-p", "a b"]
    assert Command.in_file("// tg-opt -p a new.mlir\n", "new.mlir").on("f") == ["tg-opt", "-p", "a", "f"]


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        ("nonsense", ["--check", "tg-opt"], "Operation nonsense is not registered"),
        (CALL, ["--check", "tg-opt"], "f.mlir: the check does not fail, so there is nothing to reduce"),
        (CALL, [], "f.mlir: the first line is not `// tg-opt FILE -p PASSES`: give the command with --check"),
        (CALL, ["--check", ""], "--check takes a command, got an empty string"),
        (CALL, ["--check", "tg-opt 'a"], "No closing quotation"),
        (CALL, ["--check", "no-such-command"], "--check can't run no-such-command"),
        (CALL, ["--check", "tg-opt", "--match", "("], "--match '(' is not a regular expression"),
        (INVALID, ["--check", "tg-opt", "--match", "crash"], "the check fails, but not with 'crash'; it prints"),
    ],
)
def test_errors(
    text: str, arguments: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "f.mlir").write_text(text)
    assert main(["reduce", "f.mlir", *arguments]) == 1
    error = capsys.readouterr().err
    assert error.startswith("tg: error: ")
    assert message in error


def test_what_fails_only_as_it_is_written() -> None:
    with pytest.raises(ProgramError, match="fails only as it is written"):
        reduced(CALL, lambda module: module == CALL)


def test_functions_that_return_are_edited() -> None:
    module = parse_module("func.func private @declared()\nfunc.func @f(%x: tensor<f32>) { func.return }", "f")
    assert [(function.sym_name.data, end.name) for function, end in functions(module)] == [("f", "func.return")]


def test_an_op_is_replaced_by_an_operand_of_its_type() -> None:
    module = parse_module(
        """
        func.func @f(%c: tensor<i1>, %x: tensor<f32>, %y: tensor<f32>) -> (tensor<f32>, tensor<i1>) {
          %0 = tg.select %c, %x, %y : tensor<i1>, tensor<f32>, tensor<f32>
          %1 = tg.compare %x, %y predicate = "lt" : tensor<f32>, tensor<f32>
          func.return %0, %1 : tensor<f32>, tensor<i1>
        }
        """,
        "f",
    )
    ((function, _),) = functions(module)
    (_, x, y), (select, less, _) = function.args, function.body.block.ops
    assert first_operand(select, select.results[0]) is x and last_operand(select, select.results[0]) is y
    assert first_operand(less, less.results[0]) is None and last_operand(less, less.results[0]) is None
