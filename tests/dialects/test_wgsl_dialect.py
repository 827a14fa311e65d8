"""The `wgsl` dialect: round trips, and what its verifiers reject."""

from __future__ import annotations

from io import StringIO

import pytest
from xdsl.context import Context
from xdsl.dialects import arith, builtin, math, memref, scf, vector
from xdsl.dialects.builtin import MemRefType, ModuleOp, VectorType, f32
from xdsl.ir import Block
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import is_side_effect_free
from xdsl.utils.exceptions import VerifyException

from tensorgrad.dialects import wgsl

EVERY_OP = """
wgsl.kernel @every workgroup_size = [64, 2, 1] access = ["read", "read_write"] attributes {note = 1 : i32} {
^bb0(%x: memref<1024xf32>, %y: memref<1024xf32>):
  %tile = wgsl.workgroup_alloc : memref<256xf32>
  %w = wgsl.workgroup_id dim = 0
  %n = wgsl.num_workgroups dim = 1
  %l = wgsl.local_id dim = 2
  %g = wgsl.global_id dim = 0
  %t = wgsl.local_index
  %lane = wgsl.subgroup_lane
  %size = wgsl.subgroup_size
  %v = memref.load %x[%g] : memref<1024xf32>
  wgsl.barrier
  wgsl.barrier {storage = true}
  %r = wgsl.remf %v, %v : f32
  %joined = wgsl.join %v, %v, %v, %v
  %b = wgsl.subgroup_broadcast %r, 3 : f32
  %s = wgsl.subgroup_reduce "add" %b : f32
  %exchanged = wgsl.subgroup_shuffle_xor %b, 16 : f32
  %c = arith.cmpi uge, %g, %t : index
  wgsl.return_if %c
  memref.store %s, %y[%g] : memref<1024xf32>
}
"""


def parse(text: str) -> ModuleOp:
    context = Context()
    for dialect in (
        builtin.Builtin,
        arith.Arith,
        math.Math,
        memref.MemRef,
        scf.Scf,
        vector.Vector,
        wgsl.Wgsl,
    ):
        context.load_dialect(dialect)
    return Parser(context, text).parse_module()


def kernel(body: str, size: str = "[1, 1, 1]", access: str = '["read"]', binding: str = "memref<4xf32>") -> str:
    return f"wgsl.kernel @k workgroup_size = {size} access = {access} {{\n^bb0(%x: {binding}):\n{body}\n}}"


def test_every_op_is_in_the_example() -> None:
    used = {type(op) for op in parse(EVERY_OP).walk()}
    assert set(wgsl.Wgsl.operations) <= used


@pytest.mark.parametrize("generic", [False, True])
@pytest.mark.parametrize("text", [EVERY_OP, "wgsl.kernel @empty workgroup_size = [1, 1, 1] access = [] {\n}"])
def test_both_forms_round_trip(text: str, generic: bool) -> None:
    module = parse(text)
    module.verify()
    output = StringIO()
    Printer(output, print_generic_format=generic).print_op(module)
    again = parse(output.getvalue())
    again.verify()
    assert str(again) == str(module)
    assert again.is_structurally_equivalent(module)


def test_a_kernel_can_be_built() -> None:
    block = Block(arg_types=[MemRefType(f32, [4])])
    built = wgsl.KernelOp("k", (64, 1, 1), ["read"], block)
    built.verify()
    assert [mode.data for mode in built.access] == ["read"]
    block.add_op(wgsl.BarrierOp(storage=True))
    built.verify()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (kernel("", size="[64, 1]"), "three positive extents"),
        (kernel("", size="[0, 1, 1]"), "three positive extents"),
        (kernel("", access="[]"), "as many access modes"),
        (kernel("", access='["write"]'), 'must be "read" or "read_write"'),
        (kernel("", binding="memref<2x2xf32>"), "1-D memref"),
        (kernel("", binding="memref<?xf32>"), "1-D memref"),
        (kernel("", binding="memref<0xf32>"), "non-empty"),
        (kernel("", binding="memref<4xf64>"), "must hold one of"),
        (kernel("", binding="memref<4xf32, strided<[2]>>"), "no layout"),
        (kernel("", binding="f32"), "must be a memref"),
        (kernel("%g = wgsl.global_id dim = 3"), "dim must be 0, 1 or 2"),
        (kernel("%w = wgsl.workgroup_alloc : memref<?xf32>"), "workgroup memory"),
        (kernel('%c = arith.constant 1 : i32\n%s = wgsl.subgroup_reduce "mul" %c : i32'), "kind must be"),
        (kernel("%c = arith.constant 1 : i32\n%s = wgsl.subgroup_broadcast %c, 128 : i32"), "lane must be"),
        (kernel("%c = arith.constant 1 : i32\n%s = wgsl.subgroup_shuffle_xor %c, 0 : i32"), "mask must be"),
        (kernel("%c = arith.constant true\nwgsl.return_if %c\nwgsl.barrier"), "after wgsl.return_if"),
        (
            kernel("%c = arith.constant true\nscf.if %c {\n wgsl.return_if %c\n}"),
            "wgsl.return_if",
        ),
    ],
)
def test_what_is_wrong_is_said(text: str, message: str) -> None:
    with pytest.raises(VerifyException, match=message):
        parse(text).verify()


def test_what_others_may_move() -> None:
    for op in parse(EVERY_OP).walk():
        if op.name in (
            "wgsl.barrier",
            "wgsl.subgroup_broadcast",
            "wgsl.subgroup_reduce",
            "wgsl.subgroup_shuffle_xor",
            "wgsl.return_if",
        ):
            assert not is_side_effect_free(op)
        if isinstance(op, wgsl.DimensionBuiltin | wgsl.ScalarBuiltin | wgsl.RemFOp):
            assert is_side_effect_free(op)


def test_vectors_are_elements() -> None:
    assert VectorType(f32, [4]) in wgsl.ELEMENT_TYPES
    parse(kernel("", binding="memref<4xvector<4xf32>>")).verify()
