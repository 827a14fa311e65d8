"""Reports of compilations and profiles of steps describe what was compiled and what ran."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorgrad as tg
from tensorgrad.driver.handles.profiling import TRACKS
from tensorgrad.errors import InputError, OptionError
from tensorgrad.passes.buffers.fuse import FusePass
from tensorgrad.report.collect import facts_of_program
from tensorgrad.report.facts import NOWHERE, Facts
from tensorgrad.report.graph import Edge, graph_of
from tensorgrad.report.locations import Sources, printed
from tensorgrad.runtime.profile import costs_of
from tensorgrad.runtime.program import DISPATCH_COSTS, Dispatch
from tensorgrad.tools.parsing import parse_module
from tensorgrad.tools.tg import main

pytestmark = pytest.mark.usefixtures("kept_programs")

HERE = "test_report.py"


class Network(tg.nn.Module):
    def __init__(self, width: int = 16) -> None:
        self.first = tg.nn.Linear(8, width)
        self.second = tg.nn.Linear(width, 4)

    def __call__(self, x: tg.Tensor) -> tg.Tensor:
        hidden = tg.tanh(self.first(x))  # the line of the hidden layer
        return self.second(hidden)


def loss(model: Any, x: tg.Tensor, y: tg.Tensor) -> tg.Tensor:
    return tg.cross_entropy(model(x), y)


def compiled(device: tg.DeviceName = "cpu", width: int = 16, **options: Any) -> tg.Training:
    inputs = {"x": (32, 8), "y": tg.spec(32, "i32")}
    return tg.compile(Network(width), loss=loss, optimizer=tg.optim.adam(1e-2), inputs=inputs, device=device, **options)


@cache
def facts_of(device: tg.DeviceName) -> Facts:
    """Returns the report of a training; tests only read it."""
    return compiled(device).report().facts


def jitted() -> Any:
    """Returns a function that has been compiled for the CPU, where the test is not about a training."""
    function = tg.jit(tg.exp, device="cpu")
    function(np.ones(4, np.float32))
    return function


def batch() -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    return {"x": generator.normal(size=(32, 8)).astype(np.float32), "y": generator.integers(0, 4, 32, np.int32)}


def hidden_line(facts: Facts) -> tuple[int, int]:
    """Returns the location of the line that computes the hidden layer."""
    (number,) = (number for number, file in enumerate(facts.files) if file.path.endswith(HERE))
    lines = facts.files[number].text.splitlines()
    return number, next(at for at, line in enumerate(lines, 1) if "# the line of the hidden layer" in line)


@pytest.mark.nightly
@pytest.mark.parametrize("device", ["cpu", "wgpu", "numpy"])
def test_what_a_report_says_is_what_was_compiled(device: tg.DeviceName) -> None:
    training = compiled(device)
    facts = training.report().facts
    program = training.program
    assert [(kernel.name, kernel.code) for kernel in facts.kernels] == [
        (kernel.entry, kernel.code) for kernel in program.kernels
    ]
    dispatches = [step for step in program.plan if isinstance(step, Dispatch)]
    assert [(dispatch.kernel, dispatch.label, dispatch.workgroups) for dispatch in facts.runs] == [
        (step.kernel, step.label, step.workgroups) for step in dispatches
    ]
    assert facts.bytes_moved == program.statistics["bytes_moved"] > 0
    assert sum(facts.arenas.values()) == sum(buffer.size for buffer in program.buffers)
    for run, step in zip(facts.runs, dispatches, strict=True):
        bound = [
            (program.buffers[binding.buffer].name, binding.offset, binding.offset + binding.size)
            for binding in step.bindings
        ]
        used = [facts.values[number] for number in (*run.reads, *run.writes)]
        for value in used:
            end = value.offset + value.bytes
            assert any(name == value.arena and first <= value.offset and end <= last for name, first, last in bound)
        assert run.flops > 0 and run.places and run.writes
    assert max(facts.live_bytes()) <= facts.arenas["workspace"]
    # A saved program has the bound ranges alone, which overlap; each byte counts once.
    assert max(facts_of_program(program).live_bytes()) <= facts.arenas["workspace"]


@pytest.mark.nightly
def test_attention_is_counted_by_its_products() -> None:
    groups, length, features = 2, 256, 16
    generator = np.random.default_rng(0)
    q, k, v = (generator.normal(size=(1, groups, length, features)).astype(np.float32) for _ in range(3))

    def loss(q: tg.Tensor, k: tg.Tensor, v: tg.Tensor) -> tg.Tensor:
        return tg.sum(tg.nn.scaled_dot_product_attention(q, k, v) ** 2)

    gradients = tg.jit(tg.grad(loss, argnums=(0, 1, 2)), device="wgpu")
    gradients(q, k, v)
    product = 2 * groups * length * length * features
    products = sorted(run.flops // product for run in gradients.report().facts.runs if run.flops >= product)
    assert products == [2, 3, 4]  # forward, the gradient of the queries, those of the keys and values


@pytest.mark.nightly
def test_every_level_knows_the_lines_it_is_from() -> None:
    facts = facts_of("wgpu")
    assert [level.name for level in facts.levels] == ["traced", "tg", "buf", "wgsl"]
    place = hidden_line(facts)
    for level in facts.levels:
        lines = level.text.splitlines()
        assert len(lines) == len(level.places)
        mine = [line for line, place_of_line in zip(lines, level.places, strict=True) if place_of_line == place]
        assert any("tanh" in line for line in mine) or (mine and level.name == "wgsl"), level.name
        assert "loc(" not in level.text
    kernels = [line for line in facts.levels[2].text.splitlines() if line.lstrip().startswith("buf.kernel")]
    places = dict(zip(facts.levels[2].text.splitlines(), facts.levels[2].places, strict=True))
    assert kernels and all(places[line] != NOWHERE for line in kernels), "an op with a region has its place in front"


def test_a_report_names_its_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["__main__"], "__file__", "/somewhere/train.py", raising=False)
    assert jitted().report().facts.script == "train.py"
    monkeypatch.delattr(sys.modules["__main__"], "__file__")
    assert jitted().report().facts.script == ""


@pytest.mark.in_turns(2, 1)
@pytest.mark.parametrize("device", ["cpu", "wgpu"])
def test_the_text_of_a_level_is_ir(device: tg.DeviceName) -> None:
    for level in facts_of(device).levels:
        module = parse_module(level.text, level.name)
        assert str(module) == level.text, level.name


def test_locations_are_of_ops_and_not_in_strings() -> None:
    module = parse_module(ODD, "odd.mlir")
    sources = Sources()
    text, places = printed(module, sources)
    assert 'tg.name = "a loc(unknown)) loc("' in text and '"f.py":3' not in text
    lines = [line.strip().split(" ")[0] for line in text.splitlines()]
    assert dict(zip(lines, [line for _, line in places], strict=True))["%v"] == 3
    assert [file.path for file in sources.files()] == ['a "b" (c).py']
    assert str(parse_module(text, "again.mlir")) == text


def test_a_product_is_from_its_own_line() -> None:
    """Also where the kernel goes on with what other lines compute."""

    def function(x: tg.Tensor, y: tg.Tensor) -> tg.Tensor:
        product = x @ y
        return tg.exp(product)

    jitted = tg.jit(function, device="cpu")
    jitted(np.ones((64, 64), np.float32), np.ones((64, 64), np.float32))
    (kernel,) = jitted.report().facts.kernels
    first = function.__code__.co_firstlineno
    lines = zip(kernel.code.splitlines(), kernel.lines, strict=True)
    products = {line for code, places in lines if "call" in code and "fmuladd" in code for _, line in places}
    assert products == {first + 1} and [line for _, line in kernel.places] == [first + 1, first + 2]


@pytest.mark.nightly
@pytest.mark.parametrize(("device", "statement"), [("cpu", "fdiv"), ("wgpu", "abs(")])
def test_lines_of_kernels_know_the_lines_they_are_from(device: tg.DeviceName, statement: str) -> None:
    facts = facts_of(device)
    place, count = hidden_line(facts), 0
    for kernel in facts.kernels:
        lines = kernel.code.splitlines()
        assert len(lines) == len(kernel.lines)
        assert {line_place for places in kernel.lines for line_place in places} <= {*kernel.places}
        of_hidden = [line for line, places in zip(lines, kernel.lines, strict=True) if place in places]
        assert bool(of_hidden) == (place in kernel.places), kernel.name
        for line, places in zip(lines, kernel.lines, strict=True):
            count += statement in line and place in places
            assert not places or not line.startswith(("@", "}", "fn", "define", "!"))
    assert count


def test_a_line_of_a_kernel_is_from_all_that_it_computes() -> None:
    """An inlined expression brings its source line along."""

    def function(x: tg.Tensor, y: tg.Tensor) -> tg.Tensor:
        doubled = x + x
        return doubled * y

    jitted = tg.jit(function, device="wgpu")
    jitted(np.ones(3, np.float32), np.ones(3, np.float32))
    facts = jitted.report().facts
    (kernel,) = facts.kernels
    (places,) = (places for line, places in zip(kernel.code.splitlines(), kernel.lines, strict=True) if " * " in line)
    first = function.__code__.co_firstlineno
    assert [line for _, line in places] == [first + 2, first + 1]


def test_the_graph_has_both_branches_of_a_condition() -> None:
    def function(x: tg.Tensor) -> tg.Tensor:
        chosen = tg.cond(tg.sum(x) > 0, lambda x: tg.cumsum(x, 0), lambda x: tg.sort(x, 0), x)
        return tg.exp(chosen)[::-1] + tg.sum(chosen)

    jitted = tg.jit(function, device="wgpu")
    jitted(np.ones((40, 40), np.float32))
    facts = jitted.report().facts
    _, edges = graph_of(facts)
    (decision,) = (number for number, value in enumerate(facts.values) if value.role == "branch")
    (decider,) = (number for number, run in enumerate(facts.runs) if decision in run.writes)
    branches = {number: run.branch for number, run in enumerate(facts.runs) if run.branch is not None}
    inside = list(branches)
    assert {branch.holds for branch in branches.values()} == {True, False}
    assert all(Edge(decider, number, decision) in edges for number in inside)
    results = [number for number, value in enumerate(facts.values) if _writers(facts, number) == {True, False}]
    for value in results:
        readers = {edge.target for edge in edges if edge.value == value and edge.source in inside}
        for reader in readers - {*inside}:
            assert {edge.source for edge in edges if edge.target == reader and edge.value == value} <= {*inside}
            assert len([edge for edge in edges if edge.target == reader and edge.value == value]) == 2
    assert results


def _writers(facts: Facts, value: int) -> set[bool]:
    """Returns which of two branches write a value."""
    return {run.branch.holds for run in facts.runs if value in run.writes and run.branch is not None}


def test_the_passes_and_what_each_changed() -> None:
    facts = facts_of("cpu")
    names = [pass_.name.partition("{")[0] for pass_ in facts.passes]
    assert names[:3] == ["simplify", "outline-attention", "grad"] and names[-1] == "convert-to-llvm"
    changed = {pass_.name.partition("{")[0]: pass_.diff for pass_ in facts.passes}
    assert "+" in changed["grad"] and "tg.mul" in changed["grad"] and not changed["outline-attention"]
    assert [level.name for level in facts.levels] == ["traced", "tg", "buf", "cpu", "llvm"]


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("device", ["cpu", "wgpu"])
def test_fusion_says_why_and_of_which_dispatches(device: tg.DeviceName) -> None:
    facts = facts_of(device)
    (fuse,) = (one for one in facts.passes if one.decisions)
    assert fuse.name.startswith("fuse")
    numbers = range(len(facts.runs))
    assert all(one.run in numbers and one.other_run in numbers for one in fuse.decisions)
    place = hidden_line(facts)
    merged = [one for one in fuse.decisions if one.rule]
    apart = [one for one in fuse.decisions if not one.rule]
    assert all(one.reason for one in apart) and not any(one.reason for one in merged)
    assert any(one.rule == "epilogue" and "tanh" in one.kernel and one.place == place for one in merged)
    for one in merged:  # what was merged is from a line of the dispatch
        assert one.place == NOWHERE or one.place in facts.runs[one.other_run].places
    for one in apart:  # a pair that stays apart is two dispatches, and the second one reads the first
        first, second = facts.runs[one.run], facts.runs[one.other_run]
        assert one.run != one.other_run and {*first.writes} & {*second.reads}


@pytest.mark.parametrize("device", ["cpu", "wgpu"])
def test_schedules_and_memory_plans_say_why(device: tg.DeviceName) -> None:
    facts = facts_of(device)
    schedules, memory = (
        one.choices for name in ("schedule", "plan-memory") for one in facts.passes if one.name.startswith(name)
    )
    assert {one.run for one in schedules} == set(range(len(facts.runs)))
    assert all(one.place in facts.runs[one.run].places for one in schedules)
    assert all(one.text.endswith(">, by the target's cost model") for one in schedules)
    assert any("parameters" in one.about and "bytes for" in one.text and one.run == -1 for one in memory)


@pytest.mark.nightly
def test_a_report_of_fewer_rules_of_fusion() -> None:
    """Where a user has taken rules away, kernels stay apart that others would merge."""

    def only_inlining(passes: list[Any]) -> list[Any]:
        return [replace(one, only=("inline",)) if isinstance(one, FusePass) else one for one in passes]

    facts = compiled(edit_passes=only_inlining).report().facts
    (fuse,) = (one for one in facts.passes if one.decisions)
    assert {one.rule for one in fuse.decisions} == {"", "inline"}
    assert any("its rule is not among those that were applied" in one.reason for one in fuse.decisions)


def test_the_operations_of_a_product_are_counted() -> None:
    function = tg.jit(lambda a, b: a @ b, device="cpu")
    function(np.ones((16, 32), np.float32), np.ones((32, 64), np.float32))
    (cost,) = costs_of(function.program)
    assert (cost.bytes, cost.flops) == (4 * (16 * 32 + 32 * 64 + 16 * 64), 2 * 16 * 32 * 64)


@pytest.mark.parametrize("rows", [None, "many", [], [[1, 2], [3, 4]], [[1]], [[1, -2]], [[1.5, 2]], [[True, 2]]])
def test_files_may_say_anything_of_costs(rows: Any) -> None:
    function = tg.jit(lambda a: a + 1, device="cpu")
    function(np.ones(3, np.float32))
    program = replace(function.program, statistics={DISPATCH_COSTS: rows})
    assert [(cost.bytes, cost.flops) for cost in costs_of(program)] == [(0, 0)]


def test_the_graph_has_what_dispatches_pass_on() -> None:
    facts = facts_of("wgpu")
    nodes, edges = graph_of(facts)
    assert {node.name for node in nodes if node.role == "input"} == {"x", "y"}
    assert [node.name for node in nodes if node.role == "output"] == ["loss"]
    for edge in edges:
        source, target = nodes[edge.source], nodes[edge.target]
        assert source.role == "input" or edge.value in facts.runs[source.run].writes
        assert target.role == "output" or edge.value in facts.runs[target.run].reads


@pytest.mark.nightly
def test_a_page_needs_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    report = compiled().report(path)
    page = path.read_text(encoding="utf-8")
    assert page == report.page() and len(page) < 3_000_000
    assert not re.search(r"<(?:script|link)[^>]*(?:src|href)=", page) and "@DATA@" not in page
    assert "default-src 'none'" in page


def test_a_page_without_the_packages_that_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(OptionError, match=r"pip install vl-convert-python"):
        jitted().report().page()


@pytest.mark.nightly
def test_two_compilations_beside_each_other() -> None:
    report = compiled().report(beside=compiled(width=20))
    text = str(report)
    assert "dispatches" in text and "-    %" in text and "8x20xf32" in text and "tensor<8x16xf32>" in text
    assert "the same at: traced, tg, buf, cpu, llvm" in str(compiled().report(beside=compiled()))
    assert "<details>" in report._repr_html_() and "first.weight" in compiled()._repr_html_()


def test_functions_have_reports_too() -> None:
    function = tg.jit(lambda x: tg.exp(x) * 2.0, device="cpu")
    with pytest.raises(InputError, match="call it first"):
        function.report()
    function(np.ones(4, np.float32))
    assert "math.exp" in function.report().facts.levels[2].text
    attached = compiled().attach(lambda model, x: model(x), inputs={"x": (4, 8)})
    assert attached.report(beside=function).beside is not None


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("device", ["cpu", "wgpu"])
def test_profiled_steps_are_steps(device: tg.DeviceName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSORGRAD_CACHE_PROGRAMS", "0")  # so that passes run, whose times are in the trace
    training, other = compiled(device), compiled(device)
    with training.profile() as profile:
        losses = [float(training.step(**batch())) for _ in range(3)]
    losses.append(float(training.step(**batch())))
    assert losses == [float(other.step(**batch())) for _ in range(4)]
    for name, value in other.parameters().items():
        np.testing.assert_array_equal(training.parameters()[name], value)
    assert profile.steps == 3 and len(profile.dispatches) == training.stats()["dispatches"]
    assert all(dispatch.seconds >= 0 and dispatch.bytes > 0 and dispatch.flops > 0 for dispatch in profile.dispatches)
    assert HERE in str(profile) and "GFLOP/s" in str(profile)
    profile.save_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    tracks = [event["args"]["name"] for event in events if event["name"] == "thread_name"]
    assert tracks == list(TRACKS)
    kernels = [event for event in events if event["ph"] == "X" and event["tid"] == TRACKS.index("kernels")]
    assert len(kernels) == 3 * len(profile.dispatches) and all(HERE in event["args"]["line"] for event in kernels)
    assert all(event["args"]["bytes"] > 0 and event["args"]["flops"] > 0 for event in kernels)
    assert all(event["args"]["GFLOP/s"] > 0 for event in kernels if event["dur"])
    assert not any("module" in event["args"] for event in kernels)
    memory = [event["args"]["workspace"] for event in events if event["ph"] == "C"]
    assert len(memory) == 3 * (len(profile.dispatches) + 1) and max(memory) > 0 and memory[-1] == 0
    assert all(event["ts"] >= 0 and event["dur"] >= 0 for event in events if event["ph"] == "X")
    compiling = [event["name"] for event in events if event["ph"] == "X" and event["tid"] == 0]
    assert {"trace", "grad", "load"} <= {*compiling}
    report = training.report(profile=profile)
    assert all(run.seconds is not None for run in report.facts.runs) and "ms a step" in str(report)
    profile.save_trace(tmp_path / "trace.json", report=report)
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert {event["args"]["module"] for event in events if "module" in event.get("args", {})} == {"first", "second"}
    live = [event["args"]["workspace"] for event in events if event["ph"] == "C"]
    assert live[: len(profile.dispatches)] == report.facts.live_bytes()


@pytest.mark.nightly
def test_the_kernels_of_a_report_say_what_they_compute_and_cost() -> None:
    training = compiled()
    with training.profile() as profile:
        training.step(**batch())
    report = training.report(profile=profile)
    facts = report.facts
    products = [run for run in facts.runs if any(stage.kind == "contraction" for stage in run.stages)]
    (hidden,) = (run for run in products if any("tanh" in stage.ops for stage in run.stages))
    assert hidden.module == "first" and {stage.module for stage in hidden.stages} == {"first", ""}
    assert hidden.stages[0].extents == (*hidden.grid, 8) and hidden.stages[0].ops == ("mulf", "addf")
    assert all(run.schedules and run.schedules[0].partition(",")[0] in ("loops", "packed") for run in facts.runs)
    assert {run.module for run in products} == {"first", "second"}
    memory, arithmetic = hidden.estimate
    assert memory > 0 and arithmetic > 0
    assert facts.peaks is not None and facts.peaks.bytes_per_second > 1e8 and facts.peaks.flops_per_second > 1e8
    assert "GFLOP/s" in str(report) and training.report().facts.peaks is None


@pytest.mark.nightly
def test_micro_batches_are_profiled_by_program() -> None:
    training = compiled(accumulate=2)
    with training.profile() as profile:
        for _ in range(4):
            training.step(**batch())
    adding, updating = len(training.program_for("cpu").plan), training.stats()["accumulate"]["dispatches"]
    assert profile.steps == 4 and len(profile.dispatches) == adding + updating


def test_what_can_not_be_profiled() -> None:
    training = compiled("numpy")
    with training.profile() as profile, pytest.raises(OptionError, match="has no kernels to measure"):
        training.step(**batch())
    with pytest.raises(InputError, match="no step of this program has been measured"):
        compiled().report(profile=profile)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    training = compiled("wgpu")
    ir, saved, page = tmp_path / "step.mlir", tmp_path / "step.tg", tmp_path / "page.html"
    ir.write_text(training.module("traced").split("func.func private")[0] + "}\n", encoding="utf-8")
    training.save(saved)
    assert main(["report", "--text", str(ir)]) == 0
    text = capsys.readouterr().out
    assert "lower-buf-to-wgsl" in text and "dispatches" in text
    assert main(["report", str(ir), "--target", "cpu", "--out", str(page)]) == 0
    assert page.stat().st_size > 100_000 and str(page) in capsys.readouterr().out
    assert main(["report", "--json", str(saved)]) == 0
    (facts,) = json.loads(capsys.readouterr().out)
    assert len(facts["runs"]) == training.stats()["dispatches"] and not facts["levels"]
    assert any(value["name"] == "first.weight" for value in facts["values"])
    assert main(["report", "--text", str(ir), str(saved)]) == 0
    assert "dispatches" in capsys.readouterr().out
    assert main(["report", str(ir), str(ir), str(ir)]) == 1
    assert "two to compare" in capsys.readouterr().err
    assert main(["report", str(ir), "--target", "nowhere"]) == 1
    assert "nowhere" in capsys.readouterr().err


MODULE = """
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tg.exp %x : tensor<4xf32> loc("FILE":2:4)
  func.return %0 : tensor<4xf32>
}
"""
"""IR that a line of a file was traced to."""

ODD = r"""
func.func @f(%x: tensor<4xf32> {tg.name = "a loc(unknown)) loc(", tg.role = "input"}) -> tensor<4xf32> {
  %v = tg.exp %x : tensor<4xf32> loc("a(b)"("a \"b\" (c).py":3:4))
  func.return %v : tensor<4xf32>
}
"""
"""IR with strings that look like locations, and locations with parentheses."""

SOURCE = "def f(x):\n    return exp(x)  # the line that is named\n"


@pytest.mark.parametrize(
    ("file", "place", "current"),
    [
        ("model.py", "ir/model.py", "elsewhere"),
        ("parts/model.py", "ir/parts/model.py", "elsewhere"),
        ("../model.py", "model.py", "elsewhere"),
        ("model.py", "elsewhere/model.py", "elsewhere"),
    ],
    ids=["beside the file", "in a folder there", "above it", "in the current folder"],
)
def test_relative_locations_are_found(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    file: str,
    place: str,
    current: str,
) -> None:
    for folder in ("ir/parts", "elsewhere"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / place).write_text(SOURCE)
    (tmp_path / "ir/f.mlir").write_text(MODULE.replace("FILE", file))
    monkeypatch.chdir(tmp_path / current)
    assert main(["report", str(tmp_path / "ir/f.mlir"), "--json"]) == 0
    (facts,) = json.loads(capsys.readouterr().out)
    (shown,) = facts["files"]
    assert shown["text"] == SOURCE
    traced = facts["levels"][0]
    (line,) = (number for number, text in enumerate(traced["text"].splitlines()) if "tg.exp" in text)
    assert list(traced["places"][line]) == [0, 2]


def test_the_nearer_of_two_files_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "ir").mkdir()
    (tmp_path / "ir/model.py").write_text(SOURCE)
    (tmp_path / "model.py").write_text("something else\n")
    (tmp_path / "ir/f.mlir").write_text(MODULE.replace("FILE", "model.py"))
    monkeypatch.chdir(tmp_path)
    assert main(["report", "ir/f.mlir", "--json"]) == 0
    (facts,) = json.loads(capsys.readouterr().out)
    assert facts["files"][0]["text"] == SOURCE


def test_no_other_file_of_that_name_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Files of Python's modules and other import locations are not sources of the IR."""
    (tmp_path / "f.mlir").write_text(MODULE.replace("FILE", "random.py"))
    monkeypatch.chdir(tmp_path)
    assert main(["report", "f.mlir", "--json"]) == 0
    (facts,) = json.loads(capsys.readouterr().out)
    assert facts["files"][0]["text"] == ""
