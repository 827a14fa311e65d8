"""Memory plans: no two values that are still read share a byte, for the workloads, loops, branches and random plans."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from typing import Any

import pytest
from buffer_text import kernel, parse, stage
from hypothesis import event, given, settings
from hypothesis import strategies as st
from plans import ZEROS, Plan, numbered
from symbolic import Refuted
from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.dialects.memref import CopyOp
from xdsl.ir import SSAValue
from xdsl.rewriter import Rewriter

import tensorgrad as tg
from benchmarks.workloads import NAMES, gpt, workload
from tensorgrad.checks.certify import DECISIONS, certify_plan
from tensorgrad.dialects import buf
from tensorgrad.dialects.signature import NAME, Role
from tensorgrad.driver.compiling.recipe import passes_to_kernels
from tensorgrad.errors import NumericsError
from tensorgrad.passes.buffers.plan_memory import PlanMemoryPass
from tensorgrad.runtime.target import CPU, WEBGPU_DEFAULT, Target

TARGETS = (CPU, WEBGPU_DEFAULT)
PACKED = replace(CPU, name="packed", min_storage_buffer_offset_alignment=4)
"""A target on which values lie next to each other."""
Planned = tuple[ModuleOp, ModuleOp]
"""A module without a plan, and with one."""


def planned(training: tg.Training[Any], target: Target) -> Planned:
    """Returns the kernels of a training step, without and with a plan."""
    compilation = training._compilation
    module = compilation.recipe.traced.clone()
    for pass_ in passes_to_kernels(compilation.recipe, compilation.choice, target):
        if pass_.name == PlanMemoryPass.name:
            before = numbered(module).clone()
            pass_.apply(Context(), module)
            return before, module
        pass_.apply(Context(), module)
    raise AssertionError("there is no plan")


def plan_of(name: str, target: Target) -> Planned:
    """Returns the plan of a workload; that of a GPT has one layer, since others repeat it."""
    step, _ = gpt.build("numpy", layers=1) if name == "gpt" else workload(name)("numpy")
    return planned(step, target)


@pytest.mark.parametrize(("name", "target"), [*zip(NAMES, cycle(TARGETS), strict=False)])
def test_the_plans_of_workloads(name: str, target: Target) -> None:
    plan = Plan(*plan_of(name, target))
    assert plan.prove(target.min_storage_buffer_offset_alignment) > 20
    if name == "addition":  # whose gradients are clipped as a row
        assert any(home.value.name == ZEROS for home in plan.homes)


class Model(tg.nn.Module):
    """Carries a value through a loop, with a branch in it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = tg.nn.Linear(6, 9)

    def __call__(self, x: tg.Tensor) -> tg.Tensor:
        def body(carry: tg.Tensor, row: tg.Tensor) -> tuple[tg.Tensor, tg.Tensor]:
            new = tg.cond(tg.sum(row) > 0.0, lambda: tg.tanh(carry) * row, lambda: tg.exp(row - carry))
            return new, new * tg.sin(carry)

        last, rows = tg.scan(body, tg.zeros((4, 9)), tg.transpose(tg.gelu(self.layer(x)), (1, 0, 2)))
        return tg.mean(rows**2) + tg.sum(last)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_the_plans_of_loops_and_branches(target: Target) -> None:
    step = tg.compile(
        Model(), loss=Model.__call__, optimizer=tg.optim.adamw(1e-2), inputs={"x": (4, 3, 6)}, device="numpy"
    )
    before, after = planned(step, target)
    for outcomes in DECISIONS:
        assert Plan(before, after, outcomes).prove(target.min_storage_buffer_offset_alignment) > 20


@dataclass(frozen=True)
class Step:
    """A kernel that adds a number of its own to the sum of what it reads.

    Attributes:
        reads: The names of what it reads, each element at its own point, or at another one below a minus.
        writes: What it writes.
        dispatch: The number of its dispatch, if it shares one.
    """

    reads: Sequence[str]
    writes: str
    dispatch: int | None = None


def function(steps: Sequence[Step]) -> ModuleOp:
    """Returns the function of a parameter %w, its update %new, an input %x and an output %o, of four elements each."""
    slots = {"w": "parameter", "x": "input", "o": "output", "new": "update"}
    kind = "memref<4xf32>"
    names = {name: "w" if name == "new" else name for name in slots}
    arguments = [f'%{x} : {kind} {{tg.name = "{names[x]}", tg.role = "{role}"}}' for x, role in slots.items()]
    body = [f"%{step.writes} = memref.alloc() : {kind}" for step in steps if step.writes not in slots]
    for number, step in enumerate(steps):
        ins = [f"%{read.strip('-')} : {kind}" for read in step.reads]
        maps = [f"(d0) -> ({'-d0 + 3' if read.startswith('-') else 'd0'})" for read in step.reads]
        sums = [f"%s0 = arith.constant {number}.5 : f32"]
        sums += [f"%s{place + 1} = arith.addf %s{place}, %a{place} : f32" for place in range(len(ins))]
        sums.append(f"linalg.yield %s{len(ins)} : f32")
        inner = [f"%b{place} : {kind}" for place in range(len(ins) + 1)]
        text = kernel(
            "4",
            ins,
            [f"%{step.writes} : {kind}"],
            stage([*maps, "(d0) -> (d0)"], "p", inner[:-1], inner[-1:], "\n".join(sums)),
        )
        shared = "" if step.dispatch is None else f" dispatch = {step.dispatch}"
        body.append(text.replace(" {\n^bb0", f"{shared} {{\n^bb0", 1))
    return parse("\n".join([f"func.func @f({', '.join(arguments)}) {{", *body, "func.return", "}"]))


def with_plan(steps: Sequence[Step]) -> Planned:
    """Returns a function without a plan, and with that of the pass."""
    before = numbered(function(steps))
    after = before.clone()
    PlanMemoryPass(PACKED).apply(Context(), after)
    return before, after


def views(module: ModuleOp) -> list[buf.ViewOp]:
    return [op for op in module.walk() if isinstance(op, buf.ViewOp)]


def written(module: ModuleOp, number: int) -> buf.ViewOp:
    """Returns the view that a function's kernel writes, by its place in the order."""
    view = kernels(module)[number].outputs[0].owner
    assert isinstance(view, buf.ViewOp)
    return view


def kernels(module: ModuleOp) -> list[buf.KernelOp]:
    return [op for op in module.walk() if isinstance(op, buf.KernelOp)]


def move(view: buf.ViewOp, offset: int, arena: SSAValue | None = None) -> None:
    """Moves a view, to another arena too."""
    view.operands = [arena or view.arena]
    view.properties["offset"] = IntegerAttr(offset, i64)


def resize(module: ModuleOp, more: int) -> None:
    """Makes the workspace larger."""
    (op,) = [op for op in module.walk() if isinstance(op, buf.ArenaOp) and op.role.data == "workspace"]
    other = buf.ArenaOp.of("workspace", Role.WORKSPACE, op.size + more)
    Rewriter.replace_op(op, other)


def swap(module: ModuleOp, first: int, second: int) -> None:
    """Swaps two kernels."""
    one, other = kernels(module)[first], kernels(module)[second]
    block, after = one.parent, other.next_op
    assert block is not None and after is not None
    following = one.next_op
    assert following is not None
    for op in (one, other):
        op.detach()
    block.insert_op_before(one, after)
    block.insert_op_before(other, one if following is other else following)


def write_over(module: ModuleOp, number: int) -> None:
    """Has a kernel write over its first operand."""
    op = kernels(module)[number]
    op.operands = [*op.inputs, op.inputs[0]]


def drop_copies(module: ModuleOp) -> None:
    for op in [op for op in module.walk() if isinstance(op, CopyOp)]:
        op.detach()
        op.erase()


def overlap(module: ModuleOp) -> None:
    move(written(module, 1), written(module, 0).start + 15)


def shrink(module: ModuleOp) -> None:
    resize(module, -4)


def misalign(module: ModuleOp) -> None:
    resize(module, 4)
    last = max(views(module), key=lambda view: view.start)
    move(last, last.start + 2)


def update_early(module: ModuleOp) -> None:
    swap(module, 1, 2)


def update_over_other_points(module: ModuleOp) -> None:
    write_over(module, 1)
    drop_copies(module)


def output_elsewhere(module: ModuleOp) -> None:
    op = kernels(module)[1]
    op.operands = [*op.inputs, kernels(module)[0].inputs[0]]


def over_the_parameter(module: ModuleOp) -> None:
    move(written(module, 0), 0, next(view.arena for view in views(module) if view.result.name_hint == "w"))


CHAIN = (Step(["x"], "a"), Step(["a"], "b"), Step(["-a", "b"], "o"), Step(["w", "b"], "new"))
"""Two values that live at once, and an update in place."""
READ_FIRST = (Step(["x"], "a"), Step(["w", "a"], "o"), Step(["w", "a"], "new"))
"""The old value is read before the update in place."""
READ_LATER = (Step(["x"], "a"), Step(["w", "a"], "new"), Step(["new", "w"], "o"))
"""The old value is read behind the update, which is therefore copied."""
OTHER_POINTS = (Step(["x"], "a"), Step(["-w", "a"], "new"), Step(["a"], "o"))
"""The update reads what its other points overwrite if it is in place."""
FAULTS: dict[str, tuple[Sequence[Step], Callable[[ModuleOp], None], str]] = {
    "an overlap of one byte": (CHAIN, overlap, "two owners: byte 15 at time [456]: result 0 of .*0.* and result 0 of"),
    "an arena that is too small": (CHAIN, shrink, "outside of 28 bytes: byte 28"),
    "a view that isn't aligned": (CHAIN, misalign, "not aligned: byte 18"),
    "a reader behind the update": (READ_FIRST, update_early, "two owners: .*: parameter w .* and result 0 of"),
    "an update over other points": (
        OTHER_POINTS,
        update_over_other_points,
        "two owners: .*: parameter w .* and result",
    ),
    "an update that is never copied": (
        READ_LATER,
        drop_copies,
        "the caller, as update w, reads result 0 of .* where it",
    ),
    "an output elsewhere": (
        READ_FIRST,
        output_elsewhere,
        "the caller, as output o, reads result 0 of .* where it isn't",
    ),
    "a value over the parameter": (CHAIN, over_the_parameter, "two owners: .*: parameter w .* and result 0 of"),
    "a reader beside the update": (
        (READ_FIRST[0], replace(READ_FIRST[1], dispatch=0), replace(READ_FIRST[2], dispatch=0)),
        lambda module: None,
        "two owners: .*: parameter w .* and result 0 of",
    ),
    "a reader beside the writer": (
        (Step(["x"], "a", 0), Step(["a"], "o", 0), Step(["w"], "new")),
        lambda module: None,
        "reads result 0 of .* where it isn't",
    ),
}


def prove(before: ModuleOp, after: ModuleOp) -> None:
    Plan(before, after).prove(PACKED.min_storage_buffer_offset_alignment)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_has_a_counterexample(fault: str) -> None:
    steps, plant, message = FAULTS[fault]
    before, after = with_plan(steps)
    if plant(after) is None and not any(step.dispatch is not None for step in steps):
        prove(*with_plan(steps))
    with pytest.raises(Refuted, match=message):
        prove(before, after)


@st.composite
def programs(draw: st.DrawFn) -> list[Step]:
    """Returns kernels, some of which share a dispatch with the one before, of whose dispatch they read no result."""
    count = draw(st.integers(2, 6))
    names = draw(st.permutations([*(f"t{number}" for number in range(count)), "o", "new"]))
    known, steps, beside = ["w", "x"], list[Step](), set[str]()
    dispatch = 0
    for name in names:
        reads = draw(st.lists(st.sampled_from([*known[-4:], "w"]), min_size=1, max_size=2))
        if beside & {*reads} or draw(st.integers(0, 2)):
            dispatch, beside = dispatch + 1, set()
        signs = draw(st.lists(st.sampled_from(["", "", "-"]), min_size=len(reads), max_size=len(reads)))
        steps.append(Step([sign + read for sign, read in zip(signs, reads, strict=True)], name, dispatch))
        known.append(name)
        beside.add(name)
    return steps


def damage(module: ModuleOp, kind: str, first: int, second: int, third: int) -> None:
    """Changes a plan: where a value is, the order of two kernels, or what is in place."""
    count = len(kernels(module))
    match kind:
        case "move":
            arenas = [op.result for op in module.walk() if isinstance(op, buf.ArenaOp)]
            moved = [view for view in views(module) if NAME not in view.attributes]
            if moved:
                move(moved[first % len(moved)], 4 * (second % 13), arenas[third % len(arenas)])
        case "swap":
            start = first % (count - 1)
            swap(module, start, start + 1 + second % (count - 1 - start))
        case "write over":
            write_over(module, first % count)
        case _:
            drop_copies(module)


KINDS = ("move", "move", "move", "swap", "write over", "drop copies")
NUMBERS = st.integers(0, 59)
DAMAGES = st.lists(st.tuples(st.sampled_from(KINDS), NUMBERS, NUMBERS, NUMBERS), max_size=2)


def refusal(judge: Callable[[ModuleOp, ModuleOp], None], pair: Planned) -> str | None:
    """Returns why a plan is wrong."""
    try:
        judge(*pair)
    except (NumericsError, Refuted) as error:
        return str(error)
    return None


@settings(max_examples=10)
@given(programs(), DAMAGES)
def test_random_plans_are_judged_as_by_certify(steps: list[Step], damages: list[tuple[str, int, int, int]]) -> None:
    pair = with_plan(steps)
    for kind, *numbers in damages:
        damage(pair[1], kind, *numbers)
    first, second = refusal(certify_plan, pair), refusal(prove, pair)
    event("right" if first is None else "wrong")
    assert (first is None) == (second is None), f"certify: {first}; proof: {second}\n{pair[1]}"
