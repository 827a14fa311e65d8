"""The WGSL emitter: its output, and what it rejects."""

from __future__ import annotations

from dataclasses import dataclass
from io import StringIO

import pytest
from xdsl.context import Context
from xdsl.dialects import arith, builtin, math, memref, scf
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, ModuleOp, StringAttr
from xdsl.parser import Parser
from xdsl.utils.exceptions import PassFailedException

from tensorgrad.dialects import wgsl
from tensorgrad.passes.codegen.common.expand_math import EXPANSIONS, ExpandMathPass
from tensorgrad.passes.codegen.wgsl.emit_wgsl import EmitError, WgslTarget, emit_kernel, emit_module


@dataclass(frozen=True)
class Device:
    f16: bool = True
    int64: bool = True
    subgroups: bool = True
    shader_dialect: str = "naga"


def context() -> Context:
    new_context = Context()
    for dialect in (builtin.Builtin, arith.Arith, math.Math, memref.MemRef, scf.Scf, wgsl.Wgsl):
        new_context.load_dialect(dialect)
    return new_context


def parse(text: str) -> ModuleOp:
    module = Parser(context(), text).parse_module()
    module.verify()
    return module


def kernel(body: str, name: str = "k", element: str = "f32") -> ModuleOp:
    """Returns a kernel that loads %a and %b, runs `body`, and stores its value %r."""
    return parse(f"""
wgsl.kernel @{name} workgroup_size = [64, 1, 1] access = ["read_write"] {{
^bb0(%x: memref<64x{element}>):
  %i = wgsl.global_id dim = 0
  %j = wgsl.local_index
  %a = memref.load %x[%i] : memref<64x{element}>
  %b = memref.load %x[%j] : memref<64x{element}>
{body}
  memref.store %r, %x[%i] : memref<64x{element}>
}}""")


def only_kernel(module: ModuleOp) -> wgsl.KernelOp:
    (kernel_op,) = [op for op in module.walk() if isinstance(op, wgsl.KernelOp)]
    return kernel_op


def statements(module: ModuleOp) -> list[str]:
    """Returns the lines of the entry point's body."""
    lines = emit_kernel(only_kernel(module)).splitlines()
    start = max(position for position, line in enumerate(lines) if line.endswith(") {") and line[0] in "f)")
    return [line.strip() for line in lines[start + 1 : -1]]


LOADED = ["let v0 = global_invocation_id.x;"]


def test_values_that_are_used_once_are_written_where_they_are_used() -> None:
    body = "%c = arith.constant 2.0 : f32\n%s = arith.addf %a, %b : f32\n%r = arith.mulf %s, %c : f32"
    assert statements(kernel(body)) == [*LOADED, "b0[v0] = (b0[v0] + b0[local_invocation_index]) * 2.0f;"]


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        (("addf %a, %b", "subf %t, %a"), "{a} + {b} - {a}"),
        (("addf %a, %b", "subf %a, %t"), "{a} - ({a} + {b})"),
        (("mulf %a, %b", "addf %a, %t"), "{a} + {a} * {b}"),
        (("divf %a, %b", "mulf %a, %t"), "{a} * ({a} / {b})"),
        (("negf %a", "negf %t"), "-(-{a})"),
        (("negf %a", "mulf %t, %b"), "-{a} * {b}"),
        (("addf %a, %b", "negf %t"), "-({a} + {b})"),
    ],
)
def test_parentheses_are_those_that_are_needed(lines: tuple[str, str], text: str) -> None:
    first, second = lines
    body = f"%t = arith.{first} : f32\n%q = arith.{second} : f32\n%z = arith.addf %a, %b : f32"
    # A second use makes the operands named values.
    body += "\n%r = arith.maximumf %q, %z : f32"
    statement = statements(kernel(body))[-1]
    assert f"tg_maximum({text.format(a='v1', b='v2')}," in statement


def test_operators_that_wgsl_does_not_mix_are_parenthesized() -> None:
    body = """
  %s = arith.constant 3 : i32
  %t = arith.addi %a, %b : i32
  %r = arith.andi %t, %s : i32"""
    statement = statements(kernel(body, element="i32"))[-1]
    assert statement == "b0[v0] = (b0[v0] + b0[local_invocation_index]) & 3i;"
    body = """
  %t = arith.andi %a, %b : i32
  %u = arith.ori %t, %a : i32
  %r = arith.shrsi %u, %b : i32"""
    assert statements(kernel(body, element="i32"))[-1] == ("b0[v0] = tg_shr_i32((v1 & v2) | v1, bitcast<u32>(v2));")


def test_a_load_is_named_before_a_store() -> None:
    body = "memref.store %b, %x[%i] : memref<64xf32>\n%r = arith.addf %a, %a : f32"
    assert statements(kernel(body)) == [
        *LOADED,
        "let v1 = b0[v0];",
        "b0[v0] = b0[local_invocation_index];",
        "b0[v0] = v1 + v1;",
    ]


def test_a_load_is_named_before_a_barrier() -> None:
    body = "wgsl.barrier\n%r = arith.addf %a, %b : f32"
    assert statements(kernel(body)) == [
        *LOADED,
        "let v1 = b0[v0];",
        "let v2 = b0[local_invocation_index];",
        "workgroupBarrier();",
        "b0[v0] = v1 + v2;",
    ]


def test_a_loop_assigns_all_at_once_only_where_it_must() -> None:
    body = """
  %lo = arith.constant 0 : index
  %st = arith.constant 1 : index
  %n = arith.addi %i, %j : index
  %f:3 = scf.for %k = %lo to %n step %st iter_args(%p = %a, %q = %b, %s = %a) -> (f32, f32, f32) {
    %m = arith.mulf %p, %p : f32
    scf.yield %q, %m, %s : f32, f32, f32
  }
  %t = arith.addf %f#0, %f#1 : f32
  %r = arith.addf %t, %f#2 : f32"""
    assert statements(kernel(body))[-7:] == [
        "var v6: f32 = v2;",
        "for (var v7: u32 = 0u; v7 < v3; v7 += 1u) {",
        "let v8 = v4 * v4;",
        "v4 = v5;",
        "v5 = v8;",
        "}",
        "b0[v0] = v4 + v5 + v6;",
    ]


def test_a_branch_with_results_sets_variables() -> None:
    body = """
  %c = arith.cmpf ogt, %a, %b : f32
  %r = scf.if %c -> (f32) {
    %m = arith.negf %a : f32
    scf.yield %m : f32
  } else {
    scf.yield %b : f32
  }"""
    assert statements(kernel(body))[-7:] == [
        "var v3: f32;",
        "if (v1 > v2) {",
        "v3 = -v1;",
        "} else {",
        "v3 = v2;",
        "}",
        "b0[v0] = v3;",
    ]


def test_a_branch_without_an_else_has_none() -> None:
    body = """
  %c = arith.cmpi ult, %i, %j : index
  scf.if %c {
    memref.store %a, %x[%j] : memref<64xf32>
  }
  %r = arith.negf %b : f32"""
    assert "else" not in emit_module(kernel(body))


def test_the_same_structure_is_the_same_text() -> None:
    body = "%r = arith.mulf %a, %b : f32"
    first = emit_kernel(only_kernel(kernel(body)))
    renamed = kernel(body, name="other")
    for op in renamed.walk():
        op.location = FileLineColLoc(StringAttr("model.py"), IntAttr(3), IntAttr(4))
        for result in op.results:
            result.name_hint = "same"
    assert emit_kernel(only_kernel(renamed)).replace("fn other(", "fn k(") == first


def test_directives_come_with_their_use() -> None:
    plain = only_kernel(kernel("%r = arith.addf %a, %b : f32"))
    half = only_kernel(kernel("%r = arith.addf %a, %b : f16", element="f16"))
    group = only_kernel(kernel('%s = wgsl.subgroup_reduce "add" %a : f32\n%r = arith.addf %s, %b : f32'))
    standard = Device(shader_dialect="standard")
    assert "enable" not in emit_kernel(plain, standard)
    assert emit_kernel(half).startswith("enable f16;\n")
    assert "enable" not in emit_kernel(group, Device())
    assert emit_kernel(group, standard).startswith("enable subgroups;\ndiagnostic(off, subgroup_uniformity);\n")
    long = only_kernel(kernel("%r = arith.addi %a, %b : i64", element="i64"))
    assert "array<i64, 64>" in emit_kernel(long, Device())
    with pytest.raises(EmitError, match="uses integers of 64 bits, which the target lacks"):
        emit_kernel(long, Device(int64=False))
    with pytest.raises(EmitError, match="uses f16"):
        emit_kernel(half, Device(f16=False))
    with pytest.raises(EmitError, match="uses subgroups"):
        emit_kernel(group, Device(subgroups=False))


def test_a_helper_comes_with_what_it_calls_and_only_when_used() -> None:
    text = emit_module(kernel("%r = arith.maxnumf %a, %b : f32"))
    assert [line.split("(")[0] for line in text.splitlines() if line.startswith("fn ")] == [
        "fn tg_is_nan",
        "fn tg_maximum",
        "fn tg_maxnum",
        "fn k",
    ]


@pytest.mark.parametrize(
    ("body", "element", "message"),
    [
        ("%r = math.erf %a : f32", "f32", "math.erf at .*: no WGSL for this op"),
        ("%z = arith.cmpi slt, %i, %j : index\n%r = arith.select %z, %a, %b : f32", "f32", "unsigned order"),
        ("%z = arith.divsi %i, %j : index\n%r = memref.load %x[%z] : memref<64xf32>", "f32", "operands of type index"),
        ("%z = arith.extf %a : f32 to f64\n%r = arith.truncf %z : f64 to f32", "f32", "no type f64"),
        ("%z = memref.alloca() : memref<2x2xf32>\n%r = memref.load %z[%i, %j] : memref<2x2xf32>", "f32", "1-D memref"),
        ("%z = arith.fptosi %a : f32 to i1\n%r = arith.select %z, %a, %b : f32", "f32", "f32 to i1"),
    ],
)
def test_what_has_no_wgsl_is_named(body: str, element: str, message: str) -> None:
    with pytest.raises(EmitError, match=message):
        emit_module(kernel(body, element=element))


@pytest.mark.parametrize("name", ["loop", "fn", "b0", "v12", "tg_maximum", '"a.b"', "_x"])
def test_a_kernel_needs_a_name_that_wgsl_allows(name: str) -> None:
    with pytest.raises(EmitError, match="cannot name an entry point"):
        emit_module(kernel("%r = arith.addf %a, %b : f32", name=name))


def test_the_target_writes_every_kernel() -> None:
    empty = "wgsl.kernel @{} workgroup_size = [1, 1, 1] access = [] {{\n}}\n"
    module = parse(empty.format("first") + empty.format("second"))
    output = StringIO()
    WgslTarget().emit(context(), module, output)
    assert output.getvalue() == (
        "// kernel: first\n@compute @workgroup_size(1, 1, 1)\nfn first() {\n}\n\n"
        "// kernel: second\n@compute @workgroup_size(1, 1, 1)\nfn second() {\n}\n"
    )


def test_expansions_keep_the_location_and_leave_nothing_behind() -> None:
    module = kernel("%s = math.powf %a, %b : f32\n%r = math.erf %s : f32")
    place = FileLineColLoc(StringAttr("model.py"), IntAttr(3), IntAttr(4))
    before = set(module.walk())
    for op in before:
        if type(op) in EXPANSIONS:
            op.location = place
    ExpandMathPass().apply(context(), module)
    module.verify()
    assert not any(type(op) in EXPANSIONS for op in module.walk())
    assert all(op.location == place for op in module.walk() if op not in before)


def test_an_expansion_of_another_type_changes_nothing() -> None:
    module = kernel("%s = arith.extf %a : f32 to f64\n%t = math.exp %s : f64\n%r = math.exp %b : f32")
    before = str(module)
    with pytest.raises(PassFailedException, match="f32 and f16, got f64"):
        ExpandMathPass().apply(context(), module)
    assert str(module) == before
