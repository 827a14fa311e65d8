"""User-defined passes in `tg.compile`, crashes that name their pass, and the files of `TG_DUMP`."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

import tensorgrad as tg
from tensorgrad.tools import tg_opt

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)


def loss(model: Any, x: tg.Tensor) -> Any:
    return tg.mean(tg.tanh(model(x)) ** 2)


@dataclass(frozen=True)
class InvalidPass(ModulePass):
    """Gives a result a type that differs from the op's."""

    name = "invalid"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in op.walk():
            if inner.name == "tg.tanh":
                Rewriter.replace_value_with_new_type(inner.results[0], TensorType(f32, [7]))


def compiled(**options: Any) -> tg.Training:
    chosen = {"device": "wgpu", **options}
    return tg.compile(tg.nn.Linear(3, 2), loss=loss, optimizer=tg.optim.sgd(0.1), inputs={"x": (4, 3)}, **chosen)


@dataclass(frozen=True)
class CrashPass(ModulePass):
    """Always crashes."""

    name = "crash"

    depth: int = 0

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        raise KeyError(self.depth)


@dataclass(frozen=True)
class RecordPass(ModulePass):
    """Records the modules that it is run on."""

    name = "record"

    seen: tuple[str, ...] = ()

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        MET.append(str(op))


MET: list[str] = []


def test_edited_passes_run_where_they_are_put() -> None:
    MET.clear()
    names: list[list[str]] = []

    def edit(passes: list[ModulePass]) -> list[ModulePass]:
        names.append([pass_.name for pass_ in passes])
        after = next((n for n, pass_ in enumerate(passes) if pass_.name in ("grad", "fuse")), -1)
        return [*passes[: after + 1], RecordPass(), *passes[after + 1 :]]

    training = compiled(edit_passes=edit)
    assert ["grad" in name for name in names[:2]] == [True, False]
    assert "lower-buf-to-wgsl" in names[1]
    assert "tg.tanh" in MET[0] and "buf.kernel" in MET[1]
    assert float(training.step(x=X)) == float(compiled().step(x=X))


class Counting(tg.nn.Module):
    """Has a buffer whose next value follows from a branch."""

    def __init__(self) -> None:
        super().__init__()
        self.w = tg.nn.param((3,), init=0.5)
        self.h = tg.nn.buffer((3,), init=0.5)

    def __call__(self, x: tg.Tensor) -> tg.Tensor:
        h = tg.cond(tg.sum(x) > 0, lambda h: tg.tanh(h), lambda h: h + 1, self.h)
        self.h.assign(tg.exp(h))
        return h * self.w - x


def test_passes_of_an_update_that_follows_from_a_branch() -> None:
    """Modules are verified between edited passes, also the function of what comes behind the branch."""
    options: dict[str, Any] = {"loss": lambda m, x: tg.mean(m(x) ** 2), "inputs": {"x": (3,)}, "device": "cpu"}
    training = tg.compile(Counting(), optimizer=tg.optim.sgd(0.1), edit_passes=lambda passes: passes, **options)
    training.step(x=np.ones(3, np.float32))
    np.testing.assert_allclose(training.buffers()["h"], np.exp(np.tanh(np.full(3, 0.5))), rtol=1e-6)


@pytest.mark.parametrize("wrong", [lambda passes: None, lambda passes: ["grad"]])
def test_edited_passes_must_be_passes(wrong: Any) -> None:
    with pytest.raises(tg.errors.OptionError, match="edit_passes must return a list of xDSL's ModulePass, got"):
        compiled(edit_passes=wrong)


@pytest.mark.parametrize("above", ["grad", "fuse"])
def test_a_crash_names_its_pass_and_leaves_a_reproducer(
    above: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def edit(passes: list[ModulePass]) -> list[ModulePass]:
        place = next((n for n, pass_ in enumerate(passes) if pass_.name == above), None)
        return passes if place is None else [*passes[:place], CrashPass(3), *passes[place:]]

    message = r"^crash crashed at test_pass_hooks.py:\d+, in apply: KeyError: 3; the module before it is in (.*\.mlir),"
    with pytest.raises(tg.errors.CompilerError, match=message) as caught:
        compiled(edit_passes=edit)
    match = re.match(message, str(caught.value))
    assert match is not None
    path = Path(match[1])
    text = path.read_text(encoding="utf-8")
    assert text.startswith(f"// tg-opt {path.name} -p 'crash{{depth=3}}'\n")
    assert ("buf.kernel" if above == "fuse" else "tg.tanh") in text
    # The file has the module that the pass would have run on: the rest of the pipeline continues from it.
    assert tg_opt.main([str(path), "-p", above]) == 0
    assert capsys.readouterr().out


def test_the_file_of_a_loaded_pass_that_crashes_loads_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own passes.py").write_text(
        "from xdsl.passes import ModulePass\n\n\nclass Crash(ModulePass):\n    name = 'crash'\n\n"
        "    def apply(self, ctx, op):\n        raise KeyError(3)\n",
        encoding="utf-8",
    )
    (tmp_path / "f.mlir").write_text("func.func @f(%x: tensor<4xf32>) {\n  func.return\n}\n", encoding="utf-8")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    command = [str(tmp_path / "f.mlir"), "--load", str(tmp_path / "own passes.py"), "-p", "crash"]
    assert tg_opt.main(command) == 1
    (file,) = tmp_path.glob("crash-*.mlir")
    prefix, name, *again = shlex.split(file.read_text(encoding="utf-8").splitlines()[0])[1:]
    assert (prefix, name) == ("tg-opt", file.name)
    capsys.readouterr()
    assert tg_opt.main([str(file), *again]) == 1
    assert "crash crashed at own passes.py:8, in apply: KeyError: 3" in capsys.readouterr().err


def test_dump_writes_every_level_and_the_lines_of_each_dispatch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TG_DUMP", str(tmp_path / "dump"))
    training = compiled()
    training.attach(lambda model, x: model(x), inputs={"x": (2, 3)})(x=X[:2])
    first, second = sorted((tmp_path / "dump").iterdir())
    assert first.name.endswith("-loss")
    for folder in (first, second):
        for file in ("0-traced.mlir", "1-tg.mlir", "2-buf.mlir", "3-wgsl.mlir"):
            assert tg_opt.main([str(folder / file)]) == 0, file
    capsys.readouterr()
    shaders = {path.stem: path.read_text(encoding="utf-8") for path in (first / "kernels").iterdir()}
    assert shaders == {kernel.entry: kernel.code for kernel in training.program.kernels}
    rows = (first / "dispatches.txt").read_text(encoding="utf-8").splitlines()[1:]
    assert len(rows) == training.stats()["dispatches"]
    line = loss.__code__.co_firstlineno + 1
    assert any(f"test_pass_hooks.py:{line}" in row for row in rows)


def test_dump_of_native_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TG_DUMP", str(tmp_path))
    training = compiled(device="cpu")
    (folder,) = tmp_path.iterdir()
    assert "llvm.func" in (folder / "3-llvm.mlir").read_text(encoding="utf-8")
    codes = {path.name: path.read_text(encoding="utf-8") for path in (folder / "kernels").iterdir()}
    assert codes == {f"{kernel.entry}.ll": kernel.code for kernel in training.program.kernels}
    rows = (folder / "dispatches.txt").read_text(encoding="utf-8").splitlines()[1:]
    lines = [row.split("  ")[-1].strip().split(", ") for row in rows]
    assert any(f"test_pass_hooks.py:{loss.__code__.co_firstlineno + 1}" in line for row in lines for line in row)
    assert all(len(set(row)) == len(row) for row in lines)


def test_invalid_ir_of_a_users_pass_names_it() -> None:
    def edit(passes: list[ModulePass]) -> list[ModulePass]:
        return [InvalidPass(), *passes] if passes[0].name == "simplify" else passes

    with pytest.raises(tg.errors.CompilerError, match=r"^invalid left invalid IR: "):
        compiled(edit_passes=edit, device="numpy")


def test_dump_on_numpy_has_the_levels_that_there_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TG_DUMP", str(tmp_path))
    compiled(device="numpy")
    (folder,) = tmp_path.iterdir()
    assert sorted(path.name for path in folder.iterdir()) == ["0-traced.mlir", "1-tg.mlir"]


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TG_DUMP", str(tmp_path / "file"))
    with pytest.raises(tg.errors.OptionError, match=r"TG_DUMP=.* can't be written to: Not a directory"):
        compiled(device="numpy")
