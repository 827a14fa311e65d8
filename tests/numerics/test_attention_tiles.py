"""Attention written out as tiles: by NumPy, and as native code of its recipe, for every form and its derivative."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from attention_forms import Form, forms
from harness import Names, NumpyArray, apply, on_buffers, reference
from test_attention import assert_close
from test_native_attention import ALL, IDS, gradient, run, target
from test_recipes import of_schedule
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects.attention import AttentionOp
from tensorgrad.dialects.buf import KernelOp
from tensorgrad.dialects.recipe import Attend, Collapse, Recipe, RecipeAttr, Vectorize
from tensorgrad.dialects.schedule import ScheduleAttr
from tensorgrad.passes.buffers.fuse import FusePass
from tensorgrad.passes.buffers.lower_tg_to_buf import LowerTgToBufPass
from tensorgrad.passes.buffers.schedule import SchedulePass
from tensorgrad.passes.codegen.choose import choose
from tensorgrad.passes.codegen.tile import TilePass
from tensorgrad.runtime.target import Target

SMALL = [(form, name) for form, name in zip(ALL, IDS, strict=True) if form.inputs[0].shape[-2] < 20]
"""The forms whose elements NumPy goes through one by one."""

NARROW = target(16)


def attentions(module: ModuleOp) -> list[KernelOp]:
    return [op for op in module.walk() if isinstance(op, KernelOp) and op.attention is not None]


def on_kernels(form: Form, where: Target = NARROW) -> tuple[ModuleOp, list[NumpyArray], Names]:
    """Returns a form's loss and gradients as scheduled kernels, its inputs, and the names of both."""
    module, inputs = gradient(form)
    names = Names(module)
    for pass_ in (LowerTgToBufPass(target=where), FusePass(target=where), SchedulePass(target=where)):
        apply(pass_, module)
    return module, inputs, names


@pytest.mark.in_turns(9, 2)
@pytest.mark.parametrize("form", [form for form, _ in SMALL], ids=[name for _, name in SMALL])
def test_tiles(form: Form) -> None:
    expected = reference(*gradient(form))
    module, inputs, names = on_kernels(form)
    parts = Counter(kernel.attention.part.data for kernel in attentions(module) if kernel.attention is not None)
    steps = max((len(of_schedule(kernel) or ()) for kernel in attentions(module)), default=0)
    apply(TilePass(steps=0), module)
    assert not attentions(module) and len([op for op in module.walk() if isinstance(op, AttentionOp)]) == parts.total()
    assert_close(on_buffers(module, inputs, names), expected, 1e-5)
    for _ in range(steps):
        apply(TilePass(steps=1), module)
        assert_close(on_buffers(module, inputs, names), expected, 1e-5)
    assert not any(isinstance(op, AttentionOp) for op in module.walk())


@pytest.mark.in_turns(3, 1)
@pytest.mark.parametrize(
    ("where", "parts"),
    [(NARROW, {"forward", "backward"}), (Target(), {"forward", "queries", "keys"})],
    ids=["whole", "parts"],
)
@pytest.mark.parametrize("form", forms(9, 9)[:3], ids=lambda form: form.name)
def test_blocks_of_any_size(form: Form, where: Target, parts: set[str]) -> None:
    """Blocks needn't be whole vectors, nor fit, and a derivative may be one kernel or two."""
    expected = reference(*gradient(form))
    for rows, columns, blocks in ((1, 1, 1), (2, 10**9, 3), (10**9, 4, 2)):
        module, inputs, names = on_kernels(form, where)
        assert {kernel.attention.part.data for kernel in attentions(module) if kernel.attention is not None} == parts
        for kernel in attentions(module):
            kernel.schedule, kernel.recipe = None, RecipeAttr((Attend(rows, columns, blocks),))
        apply(TilePass(), module)
        assert_close(on_buffers(module, inputs, names), expected, 1e-5)


@pytest.mark.in_turns(9, 2)
@pytest.mark.parametrize("width", [16, 64])
@pytest.mark.parametrize("form", ALL, ids=IDS)
def test_native_code(form: Form, width: int) -> None:
    module, inputs = gradient(form)
    expected = reference(module, inputs)

    def by_recipe(kernel: KernelOp) -> None:
        recipe = of_schedule(kernel)
        assert recipe is not None
        kernel.recipe = RecipeAttr(recipe)
        kernel.schedule = ScheduleAttr(choose(kernel, target(width)))

    _, actual = run(module, inputs, target(width), by_recipe)
    assert_close(actual, expected, 1e-5)


@pytest.mark.parametrize(
    ("recipe", "reason"),
    [
        ((Collapse(),), "all loops have a processor already"),
        ((Vectorize(),), "no stage reads or writes adjacent floats"),
        ((Attend(8, 8), Attend(8, 8)), "the kernel has no attention that is one op"),
    ],
    ids=["without-loops", "without-stages", "twice"],
)
def test_recipes_that_do_not_fit(recipe: Recipe, reason: str) -> None:
    module, _, _ = on_kernels(forms(9, 9)[0])
    kernel = attentions(module)[0]
    kernel.schedule, kernel.recipe = None, RecipeAttr(recipe)
    with pytest.raises(DiagnosticException, match=reason):
        apply(TilePass(), module)


def test_masks_hide_the_same_with_zeros() -> None:
    """A score that is not allowed has weight 0 if rows may be empty, whatever its fill."""
    form = next(form for form in forms(9, 9) if form.name == "strict")
    expected = reference(*gradient(form))
    module, inputs, names = on_kernels(form)
    for kernel in attentions(module):
        stage = kernel.attention
        assert stage is not None and stage.attention.zeros
        stage.parameters = replace(stage.attention, fill=0.0).attribute()
    apply(TilePass(), module)
    assert_close(on_buffers(module, inputs, names), expected, 1e-5)
    assert np.isfinite(expected[0]).all()
