"""More classes of bugs, each planted in the output of a pass: verification names the pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
from test_divided_kernels import NARROW
from test_verifying import verified
from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AffineMapAttr,
    AnyFloat,
    ArrayAttr,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Operation
from xdsl.ir.affine import AffineConstantExpr, AffineExpr, AffineMap
from xdsl.passes import ModulePass

import tensorgrad as tg
from tensorgrad.dialects import buf
from tensorgrad.dialects.tg.elementwise import arithmetic
from tensorgrad.driver.compiling.recipe import passes_to_kernels
from tensorgrad.errors import NumericsError
from tensorgrad.passes.pipelines import inference_passes
from tensorgrad.runtime.target import CPU, WEBGPU_DEFAULT, Target

Plant = Callable[[ModuleOp], None]


def first(module: ModuleOp, kind: type[Operation], holds: Callable[[Any], bool] = lambda op: True) -> Any:
    """Returns the first op of a class that satisfies a condition."""
    return next(op for op in module.walk() if isinstance(op, kind) and holds(op))


def erase(op: Operation) -> None:
    op.detach()
    op.erase()


def loses_a_path(module: ModuleOp) -> None:
    """A value has two uses, but its derivative counts only one of them."""
    loss = next(op for op in module.ops if isinstance(op, FuncOp) and not op.sym_visibility)
    sums = [op for op in loss.walk() if isinstance(op, arithmetic.AddOp)]
    sums[-1].results[0].replace_all_uses_with(sums[-1].operands[0])
    erase(sums[-1])


def moves_an_edge(module: ModuleOp) -> None:
    """A mask ends one element early."""
    edge = first(module, arith.CmpiOp, lambda op: isinstance(op.rhs.owner, arith.ConstantOp)).rhs.owner
    edge.properties["value"] = IntegerAttr(edge.value.value.data - 1, edge.value.type)


def shifts_a_view(module: ModuleOp) -> None:
    """A slice starts one element late, and wraps around."""
    stage = first(module, GenericOp, lambda op: any("+" in str(map_.data) for map_ in op.indexing_maps))

    def shifted(map_: AffineMapAttr) -> AffineMapAttr:
        if "+" not in str(map_.data):
            return map_
        results = tuple(cast(AffineExpr, result) - AffineConstantExpr(1) for result in map_.data.results)
        return AffineMapAttr(AffineMap(map_.data.num_dims, 0, results))

    stage.properties["indexing_maps"] = ArrayAttr([shifted(map_) for map_ in stage.indexing_maps])


def breaks_ties_anew(module: ModuleOp) -> None:
    """A comparison of equal values has the opposite outcome."""
    op = first(module, arith.CmpfOp, lambda op: op.predicate.value.data in (2, 3))
    op.properties["predicate"] = IntegerAttr(op.predicate.value.data ^ 1, i64)


def loses_nan(module: ModuleOp) -> None:
    """A comparison with NaN holds, so that zero takes its place."""
    op = first(module, arith.CmpfOp, lambda op: op.predicate.value.data == 5)
    op.properties["predicate"] = IntegerAttr(12, i64)


def forgets_a_term(module: ModuleOp) -> None:
    """A sum returns its last term instead of accumulating."""
    op = first(module, arith.AddfOp, lambda op: isinstance(op.parent_op(), GenericOp))
    op.results[0].replace_all_uses_with(op.operands[1])
    erase(op)


def loses_a_part(module: ModuleOp) -> None:
    """The last part of a divided kernel never runs."""
    erase([op for op in module.walk() if isinstance(op, buf.KernelOp)][-1])


def goes_on_from_nothing(module: ModuleOp) -> None:
    """A later part of a sum does not add the first part's result."""
    op = [op for op in module.walk() if isinstance(op, arith.AddfOp)][-1]
    op.results[0].replace_all_uses_with(op.operands[1])
    erase(op)


def runs_in_another_order(module: ModuleOp) -> None:
    """A kernel runs before its input is written."""
    kernels = [op for op in module.walk() if isinstance(op, buf.KernelOp)]
    block = kernels[0].parent
    assert block is not None and len(kernels) > 1
    last = kernels[-1]
    last.detach()
    block.insert_op_before(last, kernels[0])


def corrects_the_first_step_alone(module: ModuleOp) -> None:
    """The bias correction is the same at every step."""
    text, wrong = "sqrt(1 - beta2 ** step)", "sqrt(1 - beta2)"
    for function in (op for op in module.ops if isinstance(op, FuncOp) and op.arg_attrs is not None):
        slots = [dict(attributes.data) for attributes in cast("ArrayAttr[DictionaryAttr]", function.arg_attrs)]
        for slot in slots:
            if slot.get("tg.formula") == StringAttr(text):
                slot["tg.formula"] = StringAttr(wrong)
        function.arg_attrs = ArrayAttr([DictionaryAttr(slot) for slot in slots])


def exchanges_results(module: ModuleOp) -> None:
    """Two results of the same shape are swapped."""
    left, right = (
        op
        for op in module.walk()
        if isinstance(op, buf.ViewOp) and op.attributes.get("tg.role") == StringAttr("output")
    )
    left.attributes["tg.name"], right.attributes["tg.name"] = right.attributes["tg.name"], left.attributes["tg.name"]


def starts_a_maximum_at_zero(module: ModuleOp) -> None:
    """A maximum starts at 0, so it is wrong for negative numbers."""
    infinities = [op for op in module.walk() if isinstance(op, arith.ConstantOp) and "0xff800000" in str(op.value)]
    assert infinities
    for op in infinities:
        op.properties["value"] = FloatAttr(0.0, cast(AnyFloat, op.result.type))


def compares_without_signs(module: ModuleOp) -> None:
    """A signed comparison becomes unsigned."""
    op = first(module, arith.CmpiOp, lambda op: op.predicate.value.data in (2, 4))
    op.properties["predicate"] = IntegerAttr(op.predicate.value.data + 4, i64)


def function(f: Callable[..., Any], *inputs: Any, target: Target = CPU) -> tuple[ModuleOp, list[ModulePass]]:
    """Returns a traced function, and the passes for a target."""
    return tg.trace(f, *inputs), list(inference_passes(target))


def step(f: Callable[..., Any]) -> tuple[ModuleOp, list[ModulePass]]:
    """Returns the training step of a layer, and its passes."""
    model, optimizer = tg.nn.Linear(8, 8), tg.optim.adam(0.01)
    compilation = tg.compile(model, loss=f, optimizer=optimizer, inputs={"x": (64, 8)}, device="cpu")._compilation
    return compilation.recipe.traced.clone(), passes_to_kernels(compilation.recipe, compilation.choice)


INTEGERS = tg.spec((16, 4), "i32")

BUGS: dict[str, tuple[str, Plant, Callable[[], tuple[ModuleOp, list[ModulePass]]]]] = {
    "a lost path": ("grad", loses_a_path, lambda: step(lambda model, x: tg.mean(tg.tanh(model(x)) * model(x)))),
    "an edge": ("lower-tg-to-buf", moves_an_edge, lambda: function(lambda x: tg.pad(x, ((1, 1), (1, 1))), (5, 6))),
    "a shifted view": ("lower-tg-to-buf", shifts_a_view, lambda: function(lambda x: x[2:] * 2, (5, 6))),
    "a tie": (
        "lower-tg-to-buf",
        breaks_ties_anew,
        lambda: function(lambda x, y: tg.where(tg.relu(x) > tg.relu(y), x, y), (16, 4), (16, 4)),
    ),
    "a lost NaN": ("lower-tg-to-buf", loses_nan, lambda: function(lambda x: tg.relu(tg.log(x)), (5, 6))),
    "a forgotten term": ("lower-tg-to-buf", forgets_a_term, lambda: function(lambda x: tg.sum(x, 1), (5, 6))),
    "a lost part": ("cut-grids", loses_a_part, lambda: function(lambda x: tg.flip(x, 0), (200, 60), target=NARROW)),
    "a sum without its beginning": (
        "cut-grids",
        goes_on_from_nothing,
        lambda: function(lambda x: tg.sum(x, 0), (200, 60), target=NARROW),
    ),
    "another order": (
        "share-dispatches",
        runs_in_another_order,
        lambda: function(lambda x, y: tg.exp(x @ y) @ x, (16, 16), (16, 16), target=WEBGPU_DEFAULT),
    ),
    "a bias correction": (
        "append-updates",
        corrects_the_first_step_alone,
        lambda: step(lambda model, x: tg.mean(model(x) ** 2)),
    ),
    "exchanged results": ("plan-memory", exchanges_results, lambda: function(lambda x: (tg.exp(x), tg.sin(x)), (5, 6))),
    "a maximum from zero on": (
        "lower-buf-to-cpu",
        starts_a_maximum_at_zero,
        lambda: function(lambda x: tg.max(x, 1), (5, 40)),
    ),
    "unsigned integers": (
        "lower-tg-to-buf",
        compares_without_signs,
        lambda: function(lambda i, x: tg.where(i < 1, x, -x), INTEGERS, (16, 4)),
    ),
}
"""For each class the pass that leaves it, the bug, and a program with its passes."""


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_blamed_on_its_pass(name: str) -> None:
    where, plant, program = BUGS[name]
    module, passes = program()
    number = next(number for number, pass_ in enumerate(passes) if pass_.name == where)
    with pytest.raises(NumericsError, match=rf"^{where}\b"):
        verified(module, passes, plant, number)


@pytest.mark.in_turns(4, 1)
@pytest.mark.parametrize("name", BUGS)
def test_without_the_bug_nothing_is_said(name: str) -> None:
    module, passes = BUGS[name][2]()
    verified(module, passes, lambda _: None, 0)
