"""Damaged files that a compilation reads: tuned schedules, cached programs, targets, and IR below `tg`.

Each is compiled and run: either the result is correct, or one error of ours is raised.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from damage import CASES, NIGHTLY, bounded, cases, check, damaged_bytes, damaged_numbers, damaged_tree, damaged_words
from models import MLP, batch, compiled
from xdsl.context import Context
from xdsl.universe import Universe

from tensorgrad.driver.compiling.tuning import table_path
from tensorgrad.driver.device import find_device
from tensorgrad.driver.storage import program_cache
from tensorgrad.driver.storage.program_cache import Entry
from tensorgrad.errors import ProgramError
from tensorgrad.passes.analyses.dominance import verify_dominance
from tensorgrad.passes.pipelines import read_passes
from tensorgrad.runtime.cache import DiskCache
from tensorgrad.runtime.target import PROFILES, Target
from tensorgrad.tools.parsing import LocatingParser
from tensorgrad.tools.tg_opt import EXPECTED_ERRORS, main
from tensorgrad.tools.universe import TENSORGRAD_UNIVERSE
from tensorgrad.tools.verifying import verifying

MODEL = MLP(3, 5, 2)


def damage_tuned(folder: Path, count: int, patch: pytest.MonkeyPatch) -> None:
    """Schedule tables for the kernels of a training, in its cache: whatever they select gives the same loss."""
    patch.setenv(program_cache.VARIABLE, str(folder))
    device = find_device("cpu")
    assert device is not None
    path = table_path(device)
    expected = float(compiled(device="cpu", model=MODEL, tune=30.0).step(**batch()))
    good = json.loads(path.read_text())
    assert good["kernels"]
    for number, draw in cases(6, count):
        text = json.dumps(damaged_tree(good, draw)).encode()
        path.write_bytes(damaged_bytes(text, draw) if number % 3 == 0 else text)

        def run() -> None:
            loss = float(compiled(device="cpu", model=MODEL, tune=1e-9).step(**batch()))
            np.testing.assert_allclose(loss, expected, rtol=1e-4)

        check(run, f"tuned {number}")


def damage_cache(folder: Path, count: int, patch: pytest.MonkeyPatch) -> None:
    """Cached programs, most of them with a matching hash."""
    patch.setenv(program_cache.VARIABLE, str(folder))
    patch.delenv(program_cache.SWITCH)
    compiled(device="cpu", model=MODEL)
    (path,) = (folder / "programs").glob("*.program")
    disk = DiskCache(path.parent, path.suffix, 1 << 30)
    good = disk.read(path.stem)
    assert good is not None
    around, program, constants = good.split(b"\n", 2)
    accepted = 0
    for number, draw in cases(7, count):
        parts = [around, program, constants]
        place = draw.randrange(3)
        if place < 2:
            parts[place] = json.dumps(damaged_tree(json.loads(parts[place]), draw)).encode()
        else:
            parts[place] = damaged_bytes(parts[place], draw)
        data = damaged_bytes(good, draw) if number % 5 == 0 else b"\n".join(parts)
        disk.write(path.stem, data)
        if number % 4 == 0:
            path.write_bytes(damaged_bytes(path.read_bytes(), draw))
        if check(lambda data=data: Entry.from_bytes(data, "entry"), f"entry {number}"):
            accepted += 1
            check(lambda: compiled(device="cpu", model=MODEL).stats(), f"cache {number}")
    assert 0 < accepted < count


def damage_targets(folder: Path, count: int, patch: pytest.MonkeyPatch) -> None:
    """Targets as files and inline; a program is compiled for those that are valid."""
    profiles = [json.loads(target.to_json()) for target in PROFILES.values()]
    training, path = compiled(model=MODEL), folder / "target.json"
    accepted = 0
    for number, draw in cases(8, count):
        text = json.dumps(damaged_tree(draw.choice(profiles), draw))
        data = damaged_bytes(text.encode(), draw) if number % 4 == 0 else text.encode()
        path.write_bytes(data)
        spec = str(path) if number % 2 else data.decode("latin-1")
        accepted += check(lambda spec=spec: Target.from_spec(spec), f"target {number}")
        check(lambda spec=spec: training.program_for(spec).validate(), f"program for {number}")
    assert 0 < accepted < count


def damage_lower_ir(folder: Path, count: int, patch: pytest.MonkeyPatch) -> None:
    """IR of every level, as `tg-opt` reads it."""
    training = compiled(model=MODEL)
    good = [training.module(level) for level in ("buf", "wgsl", "cpu", "llvm")]
    path = folder / "module.mlir"
    for number, draw in cases(9, count):
        path.write_text(damaged_words(draw.choice(good), draw))
        check(lambda: main([str(path), "-o", str(folder / "out.mlir")]), f"ir {number}")


@cache
def runs_of_tests() -> list[tuple[str, str]]:
    """Returns the functions of all IR tests, each with passes that a test runs on it, or none."""
    runs: list[tuple[str, str]] = []
    for file in sorted((Path(__file__).parents[1] / "lit").rglob("*.mlir")):
        text = file.read_text()
        commands = re.findall(r"^// RUN: tg-opt %s ([^|%&]*)\| filecheck", text, re.M)
        words = [word for command in commands for word in shlex.split(command)]
        passes = [after for word, after in pairwise(words) if word == "-p"]
        pieces = [piece for piece in text.split("// -----") if "func.func" in piece]
        runs += [(piece, pipeline) for piece in pieces for pipeline in passes or [""]]
    return runs


def damage_inputs_of_tests(folder: Path, count: int, patch: pytest.MonkeyPatch) -> None:
    """IR of every kind, with other numbers: extents, loops, axes, fields of schedules; passes run on what is valid."""
    context = Context()
    for name, load in {**Universe.get_multiverse().all_dialects, **TENSORGRAD_UNIVERSE.all_dialects}.items():
        context.register_dialect(name, load)

    def run(text: str, passes: str) -> None:
        with suppress(*EXPECTED_ERRORS):
            module = LocatingParser(context, text).parse_module()
            with verifying():
                module.verify()
            verify_dominance(module)
            for pass_ in read_passes(passes) if passes else ():
                pass_.apply(context, module)

    for number, draw in cases(10, count):
        text, passes = draw.choice(runs_of_tests())
        check(partial(run, damaged_numbers(text, draw), passes), f"input {number}, {passes}")


Damage: TypeAlias = Callable[[Path, int, pytest.MonkeyPatch], None]
DAMAGE: tuple[Damage, ...] = (damage_tuned, damage_cache, damage_targets, damage_lower_ir, damage_inputs_of_tests)


@pytest.mark.in_turns(5, 3)
@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
def test_damage_ends_in_one_error(damage: Damage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with bounded():
        damage(tmp_path, CASES, monkeypatch)


@pytest.mark.nightly
@pytest.mark.timeout(0)
@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
def test_much_damage_ends_in_one_error(damage: Damage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with bounded():
        damage(tmp_path, NIGHTLY, monkeypatch)


@pytest.fixture
def tuned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The table of a small training's schedules on the CPU."""
    monkeypatch.setenv(program_cache.VARIABLE, str(tmp_path))
    device = find_device("cpu")
    assert device is not None
    compiled(device="cpu", model=MODEL, tune=30.0)
    return table_path(device)


@pytest.mark.in_turns(3)
@pytest.mark.parametrize(
    ("archetype", "field", "value", "message"),
    [
        ("packed", "rows", 11, "a block in registers must divide the tile"),
        ("packed", "row", [7], "rows and columns must be distinct loops of the grid"),
        ("loops", "blocks", 1, r"the schedule has \[1, 1, 1\] tasks"),
    ],
)
def test_schedules_that_leave_points_out(archetype: str, field: str, value: Any, message: str, tuned: Path) -> None:
    table = json.loads(tuned.read_text())
    for schedule in table["kernels"].values():
        if schedule["archetype"] == archetype:
            schedule[field] = value
    tuned.write_text(json.dumps(table))
    with pytest.raises(ProgramError, match=rf"has a schedule of another kernel for the one made at .*; .*{message}"):
        compiled(device="cpu", model=MODEL, tune=1e-9)


def test_a_table_that_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(program_cache.VARIABLE, str(tmp_path))
    device = find_device("cpu")
    assert device is not None
    table_path(device).parent.mkdir(parents=True)
    table_path(device).write_text("{")
    with pytest.raises(ProgramError, match="is not a table of tuned schedules; delete it"):
        compiled(device="cpu", model=MODEL, tune=1e-9)


@pytest.mark.in_turns(3)
@pytest.mark.parametrize(
    "change",
    [
        {"memory_cost": 5},
        {"segments": "1"},
        {"parameters": [1]},
        {"settings": [[]]},
        {"lines": [3]},
        {"frugal": 0},
        {"more": 1},
    ],
)
def test_kept_programs_with_other_fields(change: dict[str, Any]) -> None:
    program = compiled(model=MODEL).program
    around, rest = Entry(program, (), frozenset(), 1, False, {}, True, ()).to_bytes().split(b"\n", 1)
    content = b"\n".join([json.dumps({**json.loads(around), **change}).encode(), rest])
    with pytest.raises(ProgramError, match="entry is damaged: "):
        Entry.from_bytes(content, "entry")
