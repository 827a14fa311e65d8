"""Compiled programs on disk: a hit runs no pass and equals a miss; any change misses; damage is no error."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from models import INPUTS, MLP, batch, squared_error
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

import tensorgrad as tg
from tensorgrad.driver.compiling import lowering, memory_search
from tensorgrad.driver.compiling.compilation import compile_recipe
from tensorgrad.driver.compiling.recipe import Recipe
from tensorgrad.driver.compiling.running import Phases
from tensorgrad.driver.compiling.tuning import table_path
from tensorgrad.driver.device import find_device
from tensorgrad.driver.storage import program_cache, program_key
from tensorgrad.driver.storage.program_key import fingerprint, key_of, sources
from tensorgrad.errors import OptionError, ProgramError, UnusedParameterWarning
from tensorgrad.passes.buffers.schedule.tuned import write_table
from tensorgrad.passes.codegen.llvm.convert_to_llvm import ConvertToLlvmPass
from tensorgrad.passes.pipelines import forward_passes
from tensorgrad.runtime.cache import DiskCache
from tensorgrad.runtime.cpu import objects
from tensorgrad.runtime.program import Dispatch, runs
from tensorgrad.runtime.target import Target
from tensorgrad.runtime.webgpu import WebGPUDevice

SCRIPT = Path(__file__).parents[1] / "e2e" / "cached_run.py"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of cached programs, with the cache turned on."""
    monkeypatch.setenv(program_cache.VARIABLE, str(tmp_path / "cache"))
    monkeypatch.delenv(program_cache.SWITCH)
    return tmp_path / "cache" / "programs"


def loss_from(source: str) -> Callable[..., Any]:
    """Returns the function `loss` of a source text in `model.py`."""
    names: dict[str, Any] = {"tg": tg}
    exec(compile(source, "/elsewhere/model.py", "exec"), names)
    return names["loss"]


LOSS = """def loss(model, x, y):
    hidden = tg.tanh(model(x))
    return tg.mse(hidden, y)
"""


def labels(training: tg.Training) -> set[str]:
    return {step.label for step, _ in runs(training.program.plan) if isinstance(step, Dispatch)}


def test_zero_is_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """As 0 turns other caches off, a folder of that name would surprise."""
    monkeypatch.setenv(program_cache.VARIABLE, "0")
    with pytest.raises(OptionError, match="TENSORGRAD_CACHE is a folder, not 0; TENSORGRAD_CACHE_PROGRAMS=0 turns"):
        program_cache.cache_folder()


def test_an_edit_that_moves_lines_runs_no_pass(folder: Path, ran: list[str]) -> None:
    """And the program names the lines as they are now."""
    first = compiled(loss=loss_from(LOSS), device="cpu")
    ran.clear()
    moved = compiled(loss=loss_from("# A comment,\n# of two lines.\n" + LOSS), device="cpu")
    assert not ran
    lines = {label for label in labels(first) if label.startswith("model.py:")}
    assert lines and lines <= {"model.py:2", "model.py:3"}
    assert labels(moved) - labels(first) == {f"model.py:{int(label[-1]) + 2}" for label in lines}
    assert replace(moved.program, plan=()) == replace(first.program, plan=())
    assert losses(moved) == losses(first)


def test_an_edit_that_moves_a_lambda_runs_no_pass(folder: Path, ran: list[str]) -> None:
    """Its name, which has its line, is that of where it is now."""
    text = "loss = lambda model, x, y: tg.mse(model(x), y)"
    compiled(loss=loss_from(text), device="cpu")
    ran.clear()
    moved = compiled(loss=loss_from("\n\n" + text), device="cpu")
    assert not ran
    assert moved.program.name == "lambda_line_3" and labels(moved) >= {"model.py:3"}


def test_lines_that_can_not_be_told_apart_miss(folder: Path, ran: list[str]) -> None:
    """Two ops of one line that are on two lines now: the program says which line it is, not which op."""
    nested = LOSS.replace(
        "hidden = tg.tanh(model(x))\n    return tg.mse(hidden, y)", "return tg.mse(tg.tanh(model(x)), y)"
    )
    compiled(loss=loss_from(nested), device="cpu")
    expected = compiled(loss=loss_from(LOSS), device="cpu")
    assert len(list(folder.iterdir())) == 1
    ran.clear()
    joined = compiled(loss=loss_from(nested), device="cpu")
    assert not ran, "two lines that become one can be"
    assert "model.py:3" not in labels(joined) | {""} and "model.py:3" in labels(expected)


@pytest.fixture
def converted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The kernels that are converted to LLVM IR; caches are in folders of their own."""
    monkeypatch.setenv(objects.CACHE_VARIABLE, str(folder.parent / "objects"))
    kernels: list[object] = []
    convert = ConvertToLlvmPass.rewrite

    def counted(self: ConvertToLlvmPass, ctx: Context, op: ModuleOp) -> None:
        kernels.append(op)
        convert(self, ctx, op)

    monkeypatch.setattr(ConvertToLlvmPass, "rewrite", counted)
    return kernels


def with_hidden(width: int) -> tg.Training:
    """Returns a training of a perceptron whose third layer has a width."""
    return compiled(model=MLP(3, 64, 32, width, 2), device="cpu", inputs={"x": (64, 3), "y": (64, 2)})


def test_an_edit_of_one_layer_writes_and_compiles_its_kernels(
    folder: Path, converted: list[object], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "tensorgrad.cache")

    def compiled_before() -> int:
        """Returns how many kernels of the last program had object code."""
        counts = [record.args for record in caplog.records if "kernels were compiled" in record.msg]
        caplog.clear()
        assert isinstance(counts[-1], tuple)
        return cast(int, counts[-1][0])

    first = with_hidden(8).program
    count = len(first.kernels)
    assert compiled_before() == 0 and len(converted) == count
    converted.clear()
    edited = with_hidden(9).program
    assert 0 < len(converted) < 2 * count / 3
    assert compiled_before() == len(edited.kernels) - len(converted)
    monkeypatch.setenv(program_cache.SWITCH, "0")
    converted.clear()
    assert with_hidden(9).program == edited, "kernels from disk are those that would be written"
    assert len(converted) == len(edited.kernels) and compiled_before() == len(edited.kernels)


def test_a_damaged_kernel_is_written_anew(folder: Path, converted: list[object]) -> None:
    expected = with_hidden(8).program
    kernels = folder.parent / "kernels"
    disk = DiskCache(kernels, ".kernel", 1 << 20)
    for path, data in zip(sorted(kernels.iterdir()), (b"", b"[]", b'{"code": 1}', b"\xff"), strict=False):
        disk.write(path.stem, data)
    for path in folder.iterdir():
        path.unlink()
    converted.clear()
    assert with_hidden(8).program == expected
    assert len(converted) == 4


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the passes that run."""
    names: list[str] = []
    run_passes = lowering.run_passes

    def counted(module: ModuleOp, passes: Sequence[ModulePass], *rest: Any, **options: Any) -> None:
        names.extend(pass_.name for pass_ in passes)
        run_passes(module, passes, *rest, **options)

    monkeypatch.setattr(lowering, "run_passes", counted)
    return names


def compiled(**options: Any) -> tg.Training:
    settings: dict[str, Any] = {
        "loss": squared_error,
        "optimizer": tg.optim.adam(tg.optim.schedules.cosine(1e-2, 50)),
        "inputs": INPUTS,
        "device": "wgpu",
        **options,
    }
    return tg.compile(settings.pop("model", MLP(3, 5, 2)), **settings)


def losses(training: tg.Training) -> list[str]:
    return [float(training.step(**batch(seed))).hex() for seed in range(3)]


@pytest.mark.nightly
@pytest.mark.parametrize("count", [1, 2])
def test_another_process_runs_no_pass(count: int, folder: Path, tmp_path: Path) -> None:
    """With any hash seed and folder; two concurrent starts don't disturb each other."""

    def start(seed: int) -> subprocess.Popen[str]:
        place = tmp_path / str(seed)
        place.mkdir()
        environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
        command = [sys.executable, "-W", "error", str(SCRIPT)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=place)

    def result(process: subprocess.Popen[str]) -> dict[str, Any]:
        output, _ = process.communicate()
        assert process.returncode == 0
        return json.loads(output)

    first, *others = map(result, [start(seed + 1) for seed in range(count)])
    assert first["passes"] > 0 and all(other["found"] == first["found"] for other in others)
    assert len(list(folder.iterdir())) == 5, (
        "two for the training, and the attached function's, the gradients', the jit's"
    )
    assert result(start(3)) == {"passes": 0, "found": first["found"]}


@pytest.mark.nightly
def test_a_hit_is_as_a_miss(folder: Path, ran: list[str], caplog: pytest.LogCaptureFixture) -> None:
    sizes: dict[str, Any] = {"model": MLP(3, *[16] * 5, 2), "inputs": {"x": (256, 3), "y": (256, 2)}}
    limit = int(0.8 * compiled(**sizes).program.statistics["peak_bytes"])
    first = compiled(**sizes, memory_limit=limit)
    ran.clear()
    with caplog.at_level(logging.INFO, logger="tensorgrad"):
        again = compiled(**sizes, memory_limit=limit)
    assert not ran and "squared_error: compiled before" in caplog.text
    assert set(again.stats()["compile_seconds"]) == {"trace", "initialize", "load", "cache"}
    assert again.program == first.program
    counts = [{**training.stats(), "compile_seconds": {}, "device_bytes": 0} for training in (first, again)]
    assert counts[0] == counts[1] and counts[1]["memory_limit"]["segments"] > 1
    inputs = {name: np.ones(shape, np.float32) for name, shape in sizes["inputs"].items()}
    for training in (first, again):
        training.set(learning_rate=0.5)
    assert float(first.step(**inputs)) == float(again.step(**inputs))
    assert all(np.array_equal(value, again.parameters()[name]) for name, value in first.parameters().items())
    assert again.module("buf") == first.module("buf")
    assert again.program_for("webgpu-default").check_fits(Target()) is None


def test_warnings_and_errors_are_those_of_a_miss(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_search, "SEGMENTS", (1,))
    for _ in range(2):
        with pytest.warns(UnusedParameterWarning, match=r"layers\.1\.bias"):
            compiled(
                loss=lambda model, x, y: tg.mean(model.layers[0](x)) + 0 * tg.mean(y) + tg.sum(model.layers[1].weight)
            )
        with pytest.raises(ProgramError, match="memory_limit is 1000 bytes"):
            compiled(memory_limit=1000)


def other_target(patch: pytest.MonkeyPatch) -> None:
    device = find_device("wgpu")
    assert device is not None
    patch.setattr(device, "target", replace(device.target, max_compute_invocations_per_workgroup=64))


def other_version(patch: pytest.MonkeyPatch) -> None:
    changed = {**program_key.environment(), "xdsl": "0.1"}
    patch.setattr(program_key, "environment", lambda: changed)


CHANGES: dict[str, tuple[dict[str, Any], Callable[[pytest.MonkeyPatch], object]]] = {
    "option of the optimizer": ({"optimizer": tg.optim.adam(1e-2, eps=1e-6)}, id),
    "optimizer": ({"optimizer": tg.optim.sgd(1e-2)}, id),
    "extent": ({"inputs": {"x": (6, 3), "y": (6, 2)}}, id),
    "memory limit": ({"memory_limit": 1 << 20}, id),
    "precision": ({"precision": "f16"}, id),
    "target": ({}, other_target),
    "version": ({}, other_version),
}


@pytest.mark.in_turns(3)
@pytest.mark.parametrize("name", CHANGES)
def test_what_changes_the_program_misses(
    name: str, folder: Path, ran: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    options, change = CHANGES[name]
    compiled()
    change(monkeypatch)
    ran.clear()
    compiled(**options)
    assert ran and len(list(folder.iterdir())) == 2


def test_a_change_of_the_compiler_is_seen(tmp_path: Path) -> None:
    for name in ("passes/fuse/cost.py", "passes/note.txt", "nn/layers.py", "driver/compiling/lowering.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("a", encoding="utf-8")
    listings = [sources(str(tmp_path))]
    assert [line.split()[0] for line in listings[0]] == ["driver/compiling/lowering.py", "passes/fuse/cost.py"]
    (tmp_path / "passes/gone.py").symlink_to(tmp_path / "nowhere.py")
    assert sources(str(tmp_path)) == listings[0]
    (tmp_path / "passes/fuse/cost.py").write_text("ab", encoding="utf-8")
    listings.append(sources(str(tmp_path)))
    os.utime(tmp_path / "driver/compiling/lowering.py", (1, 1))
    listings.append(sources(str(tmp_path)))
    (tmp_path / "passes/new.py").touch()
    listings.append(sources(str(tmp_path)))
    assert len(set(map(tuple, listings))) == 4
    ours = {line.split()[0] for line in sources(str(Path(program_key.__file__).parents[2]))}
    assert {
        "driver/compiling/lowering.py",
        "passes/buffers/fuse/cost.py",
        "runtime/program.py",
        "dialects/buf.py",
    } <= ours


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "zeros": lambda x: x + np.zeros(3, np.float32),
    "negative zeros": lambda x: x + np.array([0.0, -0.0, 0.0], np.float32),
    "NaN": lambda x: x + np.full(3, np.nan, np.float32),
    "another NaN": lambda x: x + np.full(3, 0x7FC00001, np.uint32).view(np.float32),
    "operands": lambda x: tg.exp(x) - tg.tanh(x),
    "other operands": lambda x: -tg.tanh(x) + tg.exp(x),
    "swapped": lambda x: tg.tanh(x) - tg.exp(x),
    "loop": lambda x: tg.scan(lambda c, _: (c * 2.0, None), x, length=3)[0],
    "longer loop": lambda x: tg.scan(lambda c, _: (c * 2.0, None), x, length=4)[0],
}


def test_modules_that_differ_have_other_fingerprints() -> None:
    modules = {name: tg.trace(function, 3) for name, function in FUNCTIONS.items()}
    fingerprints = {name: fingerprint(module) for name, module in modules.items()}
    assert len(set(fingerprints.values())) == len(fingerprints)
    assert fingerprints == {name: fingerprint(module.clone()) for name, module in modules.items()}


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "no lines": lambda data: data.replace(b"\n", b" "),
    "another program": lambda data: b"{}\n{}\n",
    "other fields": lambda data: data.replace(b'"frugal"', b'"thrifty"'),
    "no constants": lambda data: data[:-20],
}


@pytest.mark.in_turns(4, 1)
@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_dropped_and_made_anew(
    name: str, folder: Path, ran: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    expected = compiled().program
    (path,) = folder.iterdir()
    content = path.read_bytes()
    disk = DiskCache(folder, path.suffix, program_cache.MOST_BYTES)
    data = disk.read(path.stem)
    assert data is not None
    disk.write(path.stem, DAMAGES[name](data))
    ran.clear()
    assert compiled().program == expected
    assert ran and f"{path} " in caplog.text and "made anew" in caplog.text
    assert path.read_bytes() == content and list(folder.iterdir()) == [path]
    ran.clear()
    assert compiled().program == expected and not ran


def test_a_folder_that_cannot_be_written_is_no_error(
    folder: Path, ran: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.parent.write_text("a file where the folder would be", encoding="utf-8")
    expected = losses(compiled())
    folder.parent.unlink()

    def refused(*_: Any) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", refused)
        assert losses(compiled()) == expected and list(folder.iterdir()) == []
    compiled()
    ran.clear()
    with monkeypatch.context() as patch:
        for name in ("replace", "utime", "unlink"):
            patch.setattr(os, name, refused)
        assert losses(compiled()) == expected and not ran, "what can be read is used"


@pytest.mark.nightly
def test_who_looks_at_passes_has_them_run(
    folder: Path, ran: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled()
    ran.clear()
    compiled(edit_passes=lambda passes: passes)
    assert ran
    ran.clear()
    with monkeypatch.context() as patch:
        patch.setenv("TG_DUMP", str(tmp_path / "dump"))
        compiled()
    assert ran and list((tmp_path / "dump").glob("*/3-wgsl.mlir"))
    ran.clear()
    with monkeypatch.context() as patch:
        patch.setenv(program_cache.SWITCH, "0")
        compiled()
    assert ran and len(list(folder.iterdir())) == 1


@dataclass(frozen=True)
class OwnPass(ModulePass):
    """A pass outside of tensorgrad, whose source is not hashed."""

    name = "own"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        pass


def test_passes_of_a_users_own_are_not_kept(folder: Path) -> None:
    def exponential(x: Any) -> Any:
        return tg.exp(x)

    module, device = tg.trace(exponential, 3), find_device("wgpu")
    for own in ([OwnPass()], []):
        recipe = Recipe("exponential", module, lambda *_, own=own: [*forward_passes(), *own], device)
        compile_recipe(recipe, Phases())
        assert folder.exists() == (not own)


@pytest.mark.nightly
def test_schedules_that_were_measured_count(folder: Path, ran: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    device = find_device("wgpu")
    assert device is not None
    tunings: list[float] = []

    def tune(module: ModuleOp, device: WebGPUDevice, seconds: float) -> Path:
        tunings.append(seconds)
        return table_path(device)

    monkeypatch.setattr("tensorgrad.driver.compiling.tuning.tune", tune)
    compiled()
    compiled(tune=1e-9)
    compiled(tune=1e-9)
    assert len(tunings) == 2, "it goes on where time was short"
    compiled(tune=500)
    assert len(tunings) == 3
    ran.clear()
    compiled(tune=500)
    compiled(tune=1e-9)
    compiled()
    assert len(tunings) == 3 and not ran
    write_table(table_path(device), {})
    compiled(tune=500)
    assert len(tunings) == 4 and ran, "another table may say something else"


def test_keys_are_of_modules_and_options() -> None:
    module = tg.trace(lambda x: tg.exp(x), 3)
    assert key_of(module, {}) == key_of(module.clone(), {})
    assert key_of(module, {}).digest != key_of(module, {"target": Target().to_json()}).digest
    assert program_key.environment() is program_key.environment(), "sources are read once"
