"""Memory plans are certified symbolically: correct ones pass, and each kind of error is named.

Plans with loops and branches are tested in numerics/test_control_flow.py.
"""

from __future__ import annotations

import pytest
from buffer_text import parse
from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64

import tensorgrad as tg
from tensorgrad.checks.certify import certify_plan, check_dispatches
from tensorgrad.dialects import buf
from tensorgrad.driver.compiling.recipe import passes_to_kernels
from tensorgrad.errors import NumericsError
from tensorgrad.runtime.target import CPU, Target


@pytest.mark.parametrize("target", [CPU, Target.named("webgpu-default")], ids=lambda target: target.name)
def test_the_plan_of_a_training_with_rows_and_updates_in_place_is_right(target: Target) -> None:
    before, after = training(target)
    assert any(buf.PACKED_VIEW in op.attributes for op in after.walk() if isinstance(op, buf.ViewOp))
    certify_plan(before, after)


def loss(model: tg.nn.Module, x: tg.Tensor) -> tg.Tensor:
    return tg.mean(tg.softmax(tg.tanh(model(x)), axis=-1) ** 2)


def training(target: Target) -> tuple[ModuleOp, ModuleOp]:
    """Returns the kernels of a small training, without and with a plan."""
    training_ = tg.compile(
        tg.nn.Linear(8, 8),
        loss=loss,
        optimizer=tg.optim.adamw(0.01, clip_norm=1.0),
        inputs={"x": (64, 8)},
        device="numpy",
    )
    compilation = training_._compilation
    module, before = compilation.recipe.traced.clone(), None
    for pass_ in passes_to_kernels(compilation.recipe, compilation.choice, target):
        if pass_.name == "plan-memory":
            before = module.clone()
        pass_.apply(Context(), module)
        if before is not None:
            return before, module
    raise AssertionError("there is no plan")


def two_kernels(parameter: str, argument: str, at: str = "d0, d1") -> str:
    """Returns a kernel that doubles @w, followed by one that adds one to its input, with or without a plan.

    Args:
        parameter: Says where the values lie.
        argument: What the second kernel reads.
        at: Where the first kernel reads.
    """
    return f"""
{parameter}
    buf.kernel grid = [4, 4] ins(%w : memref<4x4xf32>) outs(%new : memref<4x4xf32>) {{
    ^bb0(%a: memref<4x4xf32>, %b: memref<4x4xf32>):
      linalg.generic {{indexing_maps = [affine_map<(d0, d1) -> ({at})>, affine_map<(d0, d1) -> (d0, d1)>],
                      iterator_types = ["parallel", "parallel"]}}
          ins(%a : memref<4x4xf32>) outs(%b : memref<4x4xf32>) {{
      ^bb1(%x: f32, %y: f32):
        %z = arith.addf %x, %x : f32
        linalg.yield %z : f32
      }}
    }}
    buf.kernel grid = [4, 4] ins({argument} : memref<4x4xf32>) outs(%o : memref<4x4xf32>) {{
    ^bb0(%a: memref<4x4xf32>, %b: memref<4x4xf32>):
      linalg.generic {{indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>],
                      iterator_types = ["parallel", "parallel"]}}
          ins(%a : memref<4x4xf32>) outs(%b : memref<4x4xf32>) {{
      ^bb1(%x: f32, %y: f32):
        %z = arith.mulf %x, %x : f32
        linalg.yield %z : f32
      }}
    }}
    func.return
}}
"""


UNPLANNED = """
func.func @f(%w: memref<4x4xf32> {tg.name = "w", tg.role = "parameter"},
             %o: memref<4x4xf32> {tg.name = "o", tg.role = "output"},
             %new: memref<4x4xf32> {tg.name = "w", tg.role = "update"}) {"""

IN_PLACE = """
func.func @f() {
    %p = buf.arena "parameters" role = "parameter" : memref<64xi8>
    %w = buf.view %p[0] attributes {tg.name = "w", tg.role = "parameter"} : memref<64xi8> to memref<4x4xf32>
    %new = buf.view %p[0] : memref<64xi8> to memref<4x4xf32>
    %q = buf.arena "outputs" role = "output" : memref<64xi8>
    %o = buf.view %q[0] attributes {tg.name = "o", tg.role = "output"} : memref<64xi8> to memref<4x4xf32>"""

ELSEWHERE = IN_PLACE.replace(
    "%new = buf.view %p[0]",
    """%s = buf.arena "workspace" role = "workspace" : memref<64xi8>
    %new = buf.view %s[0]""",
)


def test_an_update_in_place_behind_its_last_reader_is_right() -> None:
    certify_plan(parse(two_kernels(UNPLANNED, "%new")), parse(two_kernels(IN_PLACE, "%new")))


def test_an_update_in_place_before_a_reader_of_the_old_value_is_found() -> None:
    with pytest.raises(
        NumericsError, match=r"^the kernel reads operand 0 from memory that no longer holds it: the kernel wrote there"
    ):
        certify_plan(parse(two_kernels(UNPLANNED, "%w")), parse(two_kernels(IN_PLACE, "%w")))


def test_an_update_in_place_that_other_points_still_read_is_found() -> None:
    before, after = (parse(two_kernels(place, "%new", at="d1, d0")) for place in (UNPLANNED, IN_PLACE))
    with pytest.raises(NumericsError, match=r"^the kernel writes result 0 over operand 0, which it still reads"):
        certify_plan(before, after)


def test_an_update_that_never_arrives_is_found() -> None:
    with pytest.raises(NumericsError, match=r"^update/w ends with a different value than without a memory plan"):
        certify_plan(parse(two_kernels(UNPLANNED, "%w")), parse(two_kernels(ELSEWHERE, "%w")))


def side_by_side(text: str) -> str:
    """Puts both kernels in one dispatch."""
    return text.replace("xf32>) {\n    ^bb0", "xf32>) dispatch = 0 {\n    ^bb0")


def test_an_update_in_place_beside_a_reader_of_the_old_value_is_found() -> None:
    """The reader comes first, so only concurrent execution is wrong."""

    def reader_first(place: str) -> str:
        text = two_kernels(place, "%w")
        return text.replace("outs(%new", "outs(%?").replace("outs(%o", "outs(%new").replace("outs(%?", "outs(%o")

    before, after = map(reader_first, (UNPLANNED, IN_PLACE))
    certify_plan(parse(before), parse(after))
    with pytest.raises(NumericsError, match=r"^the kernel writes what the kernel uses in the same dispatch"):
        certify_plan(parse(side_by_side(before)), parse(side_by_side(after)))


def test_kernels_of_one_dispatch_that_depend_on_each_other_are_found() -> None:
    check_dispatches(parse(two_kernels(UNPLANNED, "%new")))
    check_dispatches(parse(side_by_side(two_kernels(UNPLANNED, "%w"))))
    with pytest.raises(NumericsError, match=r"^the kernel writes what the kernel uses in the same dispatch"):
        check_dispatches(parse(side_by_side(two_kernels(UNPLANNED, "%new"))))


def test_another_kernel_is_found() -> None:
    other = two_kernels(IN_PLACE, "%new").replace("arith.mulf", "arith.subf")
    with pytest.raises(NumericsError, match=r"^the kernel is not in the function without a memory plan"):
        certify_plan(parse(two_kernels(UNPLANNED, "%new")), parse(other))


def test_a_write_between_the_parts_of_a_row_is_found() -> None:
    before, after = training(CPU)
    views = [op for op in after.walk() if isinstance(op, buf.ViewOp)]
    row = max((view for view in views if buf.PACKED_VIEW in view.attributes), key=lambda view: view.size)
    lent = next(number for number, view in enumerate(views) if view.size == row.size // 2 and not view.attributes)
    copies = [op for op in after.clone().walk() if isinstance(op, buf.ViewOp)]
    copies[lent].operands = [copies[views.index(row)].arena]
    copies[lent].properties["offset"] = IntegerAttr(row.start + row.size // 2, i64)  # the parts are before that
    wrong = copies[lent].get_toplevel_object()
    assert isinstance(wrong, ModuleOp)
    with pytest.raises(
        NumericsError, match=r"^the kernel at .*:\d+ reads operand \d from memory that no longer holds it: the kern"
    ):
        certify_plan(before, wrong)
