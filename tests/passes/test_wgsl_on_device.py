"""Every `arith` and `math` op that the emitter supports, and every expansion, on a device, compared with numpy."""

from __future__ import annotations

import functools
import math as python_math
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import pytest
import wgpu
from xdsl.context import Context
from xdsl.dialects import arith, builtin, math, memref, scf, vector
from xdsl.parser import Parser

from tensorgrad.dialects import wgsl
from tensorgrad.passes.codegen.common.expand_math import EXPANSIONS, ExpandMathPass
from tensorgrad.passes.codegen.wgsl.emit_wgsl import emit_kernel

Array = np.ndarray[Any, np.dtype[Any]]

STORED = {"f32": np.float32, "f16": np.float16, "i32": np.int32, "i1": np.uint32}
GROUP = 64
FOLD = 2**15


@functools.cache
def device() -> wgpu.GPUDevice:
    adapter = wgpu.gpu.request_adapter_sync(power_preference="high-performance")
    expected = [feature for feature in ("shader-f16", "subgroup") if feature in adapter.features]
    return adapter.request_device_sync(required_features=expected)


def run_kernel(text: str, bindings: Sequence[Array], groups: tuple[int, int] = (1, 1)) -> list[Array]:
    """Parses a module of one kernel, expands its math, runs it, and returns the contents of its bindings."""
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
    module = Parser(context, text).parse_module()
    ExpandMathPass().apply(context, module)
    module.verify()
    (kernel,) = [op for op in module.walk() if isinstance(op, wgsl.KernelOp)]
    usage = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC
    buffers = [device().create_buffer_with_data(data=array, usage=usage) for array in bindings]
    # An explicit layout, because a derived one leaves out bindings that the kernel does not touch.
    kinds = {"read": wgpu.BufferBindingType.read_only_storage, "read_write": wgpu.BufferBindingType.storage}
    layout = device().create_bind_group_layout(
        entries=[
            {"binding": n, "visibility": wgpu.ShaderStage.COMPUTE, "buffer": {"type": kinds[mode.data]}}
            for n, mode in enumerate(kernel.access)
        ]
    )
    code = device().create_shader_module(code=emit_kernel(kernel))
    pipeline = device().create_compute_pipeline(
        layout=device().create_pipeline_layout(bind_group_layouts=[layout]),
        compute={"module": code, "entry_point": kernel.sym_name.data},
    )
    group = device().create_bind_group(
        layout=layout,
        entries=[{"binding": number, "resource": {"buffer": b}} for number, b in enumerate(buffers)],
    )
    encoder = device().create_command_encoder()
    compute = encoder.begin_compute_pass()
    compute.set_pipeline(pipeline)
    compute.set_bind_group(0, group)
    compute.dispatch_workgroups(*groups)
    compute.end()
    device().queue.submit([encoder.finish()])
    return [
        np.frombuffer(cast(memoryview, device().queue.read_buffer(buffer)), array.dtype)
        for buffer, array in zip(buffers, bindings, strict=True)
    ]


def apply_ops(ops: Sequence[tuple[str, str]], result: str, inputs: Sequence[tuple[str, Array]]) -> list[Array]:
    """Runs `ops`, (IR lines that define %r from %a and %b, the operands' type), elementwise in one kernel."""
    count = len(inputs[0][1])
    output_size = count * len(ops)
    names = [f"%in{position}" for position in range(len(inputs))]
    arguments = ", ".join(f"{name}: memref<{count}x{type_}>" for name, (type_, _) in zip(names, inputs, strict=True))
    access = ", ".join(['"read"'] * len(inputs) + ['"read_write"'])
    lines = [
        f"wgsl.kernel @ops workgroup_size = [{GROUP}, 1, 1] access = [{access}] {{",
        f"^bb0({arguments}, %out: memref<{output_size}x{result}>):",
        "%x = wgsl.global_id dim = 0",
        "%row = wgsl.global_id dim = 1",
        f"%width = arith.constant {GROUP * FOLD} : index",
        "%start = arith.muli %row, %width : index",
        "%i = arith.addi %start, %x : index",
        f"%count = arith.constant {count} : index",
        "%outside = arith.cmpi uge, %i, %count : index",
        "wgsl.return_if %outside",
    ]
    for letter, name, (type_, _) in zip("abc", names, inputs, strict=False):
        lines.append(f"%{letter} = memref.load {name}[%i] : memref<{count}x{type_}>")
    for position, (text, type_) in enumerate(ops):
        renamed = text.replace("%r", f"%r{position}").replace("%t", f"%t{position}_").replace("$", type_)
        lines += [
            renamed,
            f"%o{position} = arith.constant {position * count} : index",
            f"%p{position} = arith.addi %i, %o{position} : index",
            f"memref.store %r{position}, %out[%p{position}] : memref<{output_size}x{result}>",
        ]
    output = np.zeros(output_size, STORED[result])
    groups = -(-count // GROUP)
    bindings = [array.astype(STORED[type_]) for type_, array in inputs] + [output]
    dispatch = (min(groups, FOLD), -(-groups // FOLD))
    results = run_kernel("\n".join([*lines, "}"]), bindings, dispatch)[-1]
    return list(results.reshape(len(ops), count))


def pairs(values: Sequence[float], dtype: type) -> tuple[Array, Array]:
    grid = np.meshgrid(np.array(values, dtype), np.array(values, dtype))
    return grid[0].ravel(), grid[1].ravel()


def assert_same(actual: Array, expected: Array, *operands: Array, what: str) -> None:
    """Compares bits, except that any NaN equals any other."""
    both_nan = np.isnan(actual) & np.isnan(expected) if actual.dtype.kind == "f" else np.zeros(actual.shape, bool)
    bits = np.uint16 if actual.dtype == np.float16 else np.uint32
    wrong = (actual.view(bits) != expected.astype(actual.dtype).view(bits)) & ~both_nan
    where = [tuple(operand[wrong][:5]) for operand in operands]
    assert not wrong.any(), f"{what} of {where} gave {actual[wrong][:5]} and not {expected[wrong][:5]}"


FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 7.25, 1e-3, -1e8, 3e38, -3e38, np.inf, -np.inf, np.nan)
INTEGERS = (0, 1, -1, 2, 3, -7, 31, 32, 33, 1000, 2**31 - 1, -(2**31), -(2**31) + 1, 123456789)


def propagate(nan_free: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """Returns the maximum and minimum, with zeros ordered by sign."""

    def combine(a: Array, b: Array) -> Array:
        signs = nan_free(np.copysign(1, a), np.copysign(1, b))
        return np.where((a == 0) & (b == 0), np.copysign(np.float32(0), signs), nan_free(a, b))

    return combine


FLOAT_BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "arith.addf": np.add,
    "arith.subf": np.subtract,
    "arith.mulf": np.multiply,
    "arith.maximumf": propagate(np.maximum),
    "arith.minimumf": propagate(np.minimum),
    "arith.maxnumf": propagate(np.fmax),
    "arith.minnumf": propagate(np.fmin),
    "wgsl.remf": np.fmod,
    "math.copysign": np.copysign,
}


@pytest.mark.parametrize("type_", ["f32", "f16"])
def test_binary_ops_on_floats(type_: str) -> None:
    values = [v for v in FLOATS if type_ == "f32" or not np.isfinite(v) or abs(v) < 6e4]
    a, b = pairs(values, STORED[type_])
    ops = [(f"%r = {op} %a, %b : $", type_) for op in FLOAT_BINARY]
    results = apply_ops(ops, type_, [(type_, a), (type_, b)])
    with np.errstate(all="ignore"):
        for (name, function), actual in zip(FLOAT_BINARY.items(), results, strict=True):
            assert_same(actual, function(a, b), a, b, what=name)


def test_the_remainder_is_exact() -> None:
    random = np.random.default_rng(0)
    bits = random.integers(0, 2**32, (2, 20000), np.uint64).astype(np.uint32).view(np.float32)
    (remainders,) = apply_ops([("%r = wgsl.remf %a, %b : $", "f32")], "f32", [("f32", bits[0]), ("f32", bits[1])])
    with np.errstate(all="ignore"):
        assert_same(remainders, np.fmod(bits[0], bits[1]), bits[0], bits[1], what="remainder")


def test_division_is_within_the_standard() -> None:
    a, b = pairs([v for v in FLOATS if abs(v) < 1e30], np.float32)
    (quotients,) = apply_ops([("%r = arith.divf %a, %b : f32", "f32")], "f32", [("f32", a), ("f32", b)])
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(quotients, a / b, rtol=3e-7)


FLOAT_UNARY: dict[str, Callable[[Array], Array]] = {
    "arith.negf": np.negative,
    "math.absf": np.abs,
    "math.floor": np.floor,
    "math.ceil": np.ceil,
    "math.trunc": np.trunc,
    "math.roundeven": np.rint,
}


@pytest.mark.parametrize("type_", ["f32", "f16"])
def test_unary_ops_on_floats(type_: str) -> None:
    values = [v for v in (*FLOATS, 1.5, -1.5, 2.5) if type_ == "f32" or not np.isfinite(v) or abs(v) < 6e4]
    a = np.array(values, STORED[type_])
    results = apply_ops([(f"%r = {op} %a : $", type_) for op in FLOAT_UNARY], type_, [(type_, a)])
    for (name, function), actual in zip(FLOAT_UNARY.items(), results, strict=True):
        assert_same(actual, function(a), a, what=name)


BUILTINS: dict[str, Callable[[Array], Array]] = {
    "math.sqrt": np.sqrt,
    "math.rsqrt": lambda v: 1 / np.sqrt(v),
}


def test_builtins_that_are_accurate_enough() -> None:
    a = np.linspace(0.01, 20, 4001, dtype=np.float32)
    ops = [*(f"%r = {op} %a : f32" for op in BUILTINS), "%r = math.fma %a, %a, %a : f32"]
    *results, fused = apply_ops([(op, "f32") for op in ops], "f32", [("f32", a)])
    exact = a.astype(np.float64)
    for (name, function), actual in zip(BUILTINS.items(), results, strict=True):
        np.testing.assert_allclose(actual, function(exact), rtol=2e-6, atol=3e-7, err_msg=name)
    np.testing.assert_allclose(fused, exact * exact + exact, rtol=2e-7)


ORDERED = {"eq": np.equal, "gt": np.greater, "ge": np.greater_equal, "lt": np.less, "le": np.less_equal}


@pytest.mark.parametrize("type_", ["f32", "f16"])
def test_comparisons_of_floats(type_: str) -> None:
    a, b = pairs([0.0, -0.0, 1.0, -1.0, 2.5, np.inf, -np.inf, np.nan], STORED[type_])
    unordered = np.isnan(a) | np.isnan(b)
    expected = {
        "false": np.zeros(a.shape, bool),
        "true": np.ones(a.shape, bool),
        "ord": ~unordered,
        "uno": unordered,
        "one": ~unordered & (a != b),
        "une": unordered | (a != b),
        **{"o" + name: function(a, b) & ~unordered for name, function in ORDERED.items()},
        **{"u" + name: function(a, b) | unordered for name, function in ORDERED.items()},
    }
    ops = [(f"%r = arith.cmpf {predicate}, %a, %b : $", type_) for predicate in expected]
    results = apply_ops(ops, "i1", [(type_, a), (type_, b)])
    for (predicate, value), result in zip(expected.items(), results, strict=True):
        assert_same(result, value.astype(np.uint32), a, b, what=predicate)
    self_test, constant_test = apply_ops(
        [
            ("%r = arith.cmpf une, %a, %a : $", type_),
            ("%t = arith.constant 1.0 : $\n%r = arith.cmpf ult, %a, %t : $", type_),
        ],
        "i1",
        [(type_, a)],
    )
    assert_same(self_test, np.isnan(a).astype(np.uint32), a, what="une with itself")
    assert_same(constant_test, (np.isnan(a) | (a < 1)).astype(np.uint32), a, what="ult 1")


def divided(a: Array, b: Array, unsigned: bool = False) -> tuple[Array, Array]:
    """Returns C's quotient and remainder, 0 for division by zero, modulo 2**32."""
    wide_a, wide_b = (v.view(np.uint32).astype(np.int64) if unsigned else v.astype(np.int64) for v in (a, b))
    safe = np.where(wide_b == 0, 1, wide_b)
    quotient = np.sign(wide_a) * np.sign(safe) * (abs(wide_a) // abs(safe))
    remainder = wide_a - quotient * safe
    wrapped = [np.where(wide_b == 0, 0, v).astype(np.uint32).view(np.int32) for v in (quotient, remainder)]
    return wrapped[0], wrapped[1]


def shifted(a: Array, b: Array, left: bool) -> Array:
    wide, amount = a.view(np.uint32).astype(np.uint64), b.view(np.uint32).astype(np.uint64)
    clipped = np.minimum(amount, np.uint64(32))
    moved = wide << clipped if left else wide >> clipped
    return moved.astype(np.uint32).view(np.int32)


def unsigned(function: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    return lambda a, b: function(a.view(np.uint32), b.view(np.uint32)).view(np.int32)


INTEGER_BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "addi": np.add,
    "subi": np.subtract,
    "muli": np.multiply,
    "divsi": lambda a, b: divided(a, b)[0],
    "remsi": lambda a, b: divided(a, b)[1],
    "divui": lambda a, b: divided(a, b, True)[0],
    "remui": lambda a, b: divided(a, b, True)[1],
    "andi": np.bitwise_and,
    "ori": np.bitwise_or,
    "xori": np.bitwise_xor,
    "minsi": np.minimum,
    "maxsi": np.maximum,
    "minui": unsigned(np.minimum),
    "maxui": unsigned(np.maximum),
    "shli": lambda a, b: shifted(a, b, True),
    "shrui": lambda a, b: shifted(a, b, False),
    "shrsi": lambda a, b: a >> np.minimum(b.view(np.uint32), 31).astype(np.int32),
}


def test_binary_ops_on_integers() -> None:
    a, b = pairs(INTEGERS, np.int32)
    ops = [(f"%r = arith.{op} %a, %b : i32", "i32") for op in INTEGER_BINARY]
    with np.errstate(all="ignore"):
        for (name, function), actual in zip(
            INTEGER_BINARY.items(), apply_ops(ops, "i32", [("i32", a), ("i32", b)]), strict=True
        ):
            assert_same(actual, function(a, b), a, b, what=name)


@pytest.mark.parametrize("constant", [5, -1, 0, 31, 32, -(2**31)])
def test_binary_ops_with_a_constant(constant: int) -> None:
    a = np.array(INTEGERS, np.int32)
    b = np.full_like(a, constant)
    lines = f"%t = arith.constant {constant} : i32\n%r = arith.OP %a, %t : i32"
    ops = [(lines.replace("OP", op), "i32") for op in INTEGER_BINARY]
    with np.errstate(all="ignore"):
        for (name, function), actual in zip(INTEGER_BINARY.items(), apply_ops(ops, "i32", [("i32", a)]), strict=True):
            assert_same(actual, function(a, b), a, b, what=f"{name} with {constant}")


def test_index_arithmetic_is_unsigned() -> None:
    a, b = pairs(INTEGERS, np.int32)
    names = ("addi", "subi", "muli", "divui", "remui", "andi", "ori", "xori", "minui", "maxui", "shli", "shrui")
    before = "%t0 = arith.index_cast %a : i32 to index\n%t1 = arith.index_cast %b : i32 to index\n"
    after = "\n%r = arith.index_cast %t2 : index to i32"
    ops = [(f"{before}%t2 = arith.{name} %t0, %t1 : index{after}", "i32") for name in names]
    with np.errstate(all="ignore"):
        for name, actual in zip(names, apply_ops(ops, "i32", [("i32", a), ("i32", b)]), strict=True):
            assert_same(actual, INTEGER_BINARY[name](a, b), a, b, what=name)


def test_comparisons_of_integers() -> None:
    a, b = pairs(INTEGERS, np.int32)
    ua, ub = a.view(np.uint32), b.view(np.uint32)
    expected = {
        "eq": a == b,
        "ne": a != b,
        **{"s" + name: ORDERED[name](a, b) for name in ("lt", "le", "gt", "ge")},
        **{"u" + name: ORDERED[name](ua, ub) for name in ("lt", "le", "gt", "ge")},
    }
    ops = [(f"%r = arith.cmpi {name}, %a, %b : i32", "i32") for name in expected]
    for (name, value), actual in zip(expected.items(), apply_ops(ops, "i1", [("i32", a), ("i32", b)]), strict=True):
        assert_same(actual, value.astype(np.uint32), a, b, what=name)


def test_unary_ops_on_integers() -> None:
    a = np.array(INTEGERS, np.int32)
    names = ("absi", "ctpop", "ctlz", "cttz")
    results = apply_ops([(f"%r = math.{name} %a : i32", "i32") for name in names], "i32", [("i32", a)])
    binary = [f"{int(v) % 2**32:032b}" for v in a]
    with np.errstate(all="ignore"):
        expected = [
            np.abs(a),
            np.array([digits.count("1") for digits in binary]),
            np.array([len(digits) - len(digits.lstrip("0")) for digits in binary]),
            np.array([len(digits) - len(digits.rstrip("0")) for digits in binary]),
        ]
    for name, result, value in zip(names, results, expected, strict=True):
        assert_same(result, value.astype(np.int32), a, what=name)


def test_logic_and_select() -> None:
    a, b = (v.astype(bool) for v in pairs([0, 1], np.int32))
    expected = {
        "andi %a, %b": a & b,
        "ori %a, %b": a | b,
        "xori %a, %b": a ^ b,
        "cmpi eq, %a, %b": a == b,
        "cmpi ne, %a, %b": a != b,
    }
    results = apply_ops([(f"%r = arith.{op} : i1", "i1") for op in expected], "i1", [("i1", a), ("i1", b)])
    for (name, value), result in zip(expected.items(), results, strict=True):
        assert_same(result, value.astype(np.uint32), a, b, what=name)
    (result,) = apply_ops([("%r = arith.select %a, %b, %a : i1", "i1")], "i1", [("i1", a), ("i1", b)])
    assert_same(result, np.where(a, b, a).astype(np.uint32), a, b, what="select")


def test_conversions_to_integers_saturate() -> None:
    a = np.array(
        [*FLOATS, 2147483520.0, 2147483648.0, -2147483648.0, 4294967040.0, 4294967296.0, 0.99, -0.99], np.float32
    )
    ops = ["fptosi %a : f32 to i32", "fptoui %a : f32 to i32", "bitcast %a : f32 to i32"]
    signed, whole, bits = apply_ops([(f"%r = arith.{op}", "f32") for op in ops], "i32", [("f32", a)])
    exact = np.nan_to_num(np.trunc(a.astype(np.float64)), nan=0.0)
    assert_same(signed, np.clip(exact, -(2**31), 2**31 - 1).astype(np.int32), a, what="fptosi")
    assert_same(whole, np.clip(exact, 0, 2**32 - 1).astype(np.uint32).view(np.int32), a, what="fptoui")
    assert_same(bits, a.view(np.int32), a, what="bitcast")


def test_conversions() -> None:
    integers, flags = np.array(INTEGERS, np.int32), np.array([v % 3 == 0 for v in range(len(INTEGERS))])
    inputs: list[tuple[str, Array]] = [("i32", integers), ("i1", flags)]
    to_float = {
        "sitofp %a : i32 to f32": integers.astype(np.float32),
        "uitofp %a : i32 to f32": integers.view(np.uint32).astype(np.float32),
        "bitcast %a : i32 to f32": integers.view(np.float32),
        "sitofp %b : i1 to f32": -flags.astype(np.float32) + np.float32(0),
        "uitofp %b : i1 to f32": flags.astype(np.float32),
    }
    to_integer = {"extui %b : i1 to i32": flags.astype(np.int32), "extsi %b : i1 to i32": -flags.astype(np.int32)}
    to_flag = {"trunci %a : i32 to i1": (integers & 1).astype(np.uint32)}
    for result, expected in (("f32", to_float), ("i32", to_integer), ("i1", to_flag)):
        results = apply_ops([(f"%r = arith.{op}", "i32") for op in expected], result, inputs)
        for (name, value), converted in zip(expected.items(), results, strict=True):
            assert_same(converted, value, what=name)


def test_conversions_between_floats() -> None:
    a = np.array([0.0, -0.0, 1.0, 1 + 2.0**-11, 65504.0, 1e6, -1e6, 2.0**-24, np.inf, np.nan], np.float32)
    with np.errstate(over="ignore"):
        half = a.astype(np.float16)
    (narrowed,) = apply_ops([("%r = arith.truncf %a : f32 to f16", "f32")], "f16", [("f32", a)])
    assert_same(narrowed, half, a, what="truncf")
    (widened,) = apply_ops([("%r = arith.extf %a : f16 to f32", "f16")], "f32", [("f16", half)])
    assert_same(widened, half.astype(np.float32), half, what="extf")


@pytest.mark.parametrize("type_", ["f32", "f16"])
def test_constants_arrive_bit_for_bit(type_: str) -> None:
    kind, bits = (np.float32, np.uint32) if type_ == "f32" else (np.float16, np.uint16)
    info = np.finfo(kind)
    values = np.array(
        [
            0.0,
            -0.0,
            1.0,
            0.1,
            -1 / 3,
            1e-4,
            12345.678,
            info.max,
            -info.max,
            info.tiny,
            info.smallest_subnormal,
            np.inf,
            -np.inf,
            np.nan,
        ],
        kind,
    )
    digits = 8 if type_ == "f32" else 4
    ops = [(f"%r = arith.constant 0x{int(v.view(bits)):0{digits}x} : $", type_) for v in values]
    constants = np.array([result[0] for result in apply_ops(ops, type_, [(type_, np.zeros(1, kind))])])
    assert_same(constants, values, what="constants")


def test_constants_of_integers() -> None:
    ops = [(f"%r = arith.constant {value} : i32", "i32") for value in INTEGERS]
    constants = np.array([result[0] for result in apply_ops(ops, "i32", [("i32", np.zeros(1, np.int32))])])
    assert_same(constants, np.array(INTEGERS, np.int32), what="constants")


def test_constants_alone_are_computed_at_run_time() -> None:
    # As constant expressions these would not compile.
    texts = [
        "%t0 = arith.constant 3.0e38 : f32\n%r = arith.addf %t0, %t0 : f32",
        "%t0 = arith.constant 0.0 : f32\n%t1 = arith.constant 1.0 : f32\n%r = arith.divf %t1, %t0 : f32",
        "%t0 = arith.constant -1.0 : f32\n%r = math.sqrt %t0 : f32",
    ]
    results = apply_ops([(text, "f32") for text in texts], "f32", [("f32", np.zeros(1, np.float32))])
    assert np.isposinf(results[0][0])
    assert np.isposinf(results[1][0])
    assert np.isnan(results[2][0])


# Control flow and memory


def test_a_loop_swaps_its_variables() -> None:
    text = """
wgsl.kernel @fibonacci workgroup_size = [1, 1, 1] access = ["read_write"] {
^bb0(%out: memref<2xi32>):
  %lo = arith.constant 0 : index
  %hi = arith.constant 20 : index
  %st = arith.constant 1 : index
  %a = arith.constant 0 : i32
  %b = arith.constant 1 : i32
  %f:2 = scf.for %i = %lo to %hi step %st iter_args(%x = %a, %y = %b) -> (i32, i32) {
    %s = arith.addi %x, %y : i32
    scf.yield %y, %s : i32, i32
  }
  memref.store %f#0, %out[%lo] : memref<2xi32>
  memref.store %f#1, %out[%st] : memref<2xi32>
}"""
    (pair,) = run_kernel(text, [np.zeros(2, np.int32)])
    assert pair.tolist() == [6765, 10946]


def test_a_load_stays_before_the_store_after_it() -> None:
    text = """
wgsl.kernel @swap workgroup_size = [1, 1, 1] access = ["read_write"] {
^bb0(%x: memref<2xf32>):
  %i = arith.constant 0 : index
  %j = arith.constant 1 : index
  %a = memref.load %x[%i] : memref<2xf32>
  %b = memref.load %x[%j] : memref<2xf32>
  memref.store %b, %x[%i] : memref<2xf32>
  memref.store %a, %x[%j] : memref<2xf32>
}"""
    (swapped,) = run_kernel(text, [np.array([1, 2], np.float32)])
    assert swapped.tolist() == [2, 1]


def test_a_workgroup_reverses_through_shared_memory() -> None:
    text = """
wgsl.kernel @reverse workgroup_size = [64, 1, 1] access = ["read", "read_write"] {
^bb0(%x: memref<128xf32>, %y: memref<128xf32>):
  %tile = wgsl.workgroup_alloc : memref<64xf32>
  %flags = memref.alloca() : memref<2xi1>
  %t = wgsl.local_index
  %g = wgsl.global_id dim = 0
  %w = wgsl.workgroup_id dim = 0
  %n = wgsl.num_workgroups dim = 0
  %l = wgsl.local_id dim = 0
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %last = arith.constant 63 : index
  %v = memref.load %x[%g] : memref<128xf32>
  memref.store %v, %tile[%t] : memref<64xf32>
  wgsl.barrier
  %m = arith.subi %last, %l : index
  %r = memref.load %tile[%m] : memref<64xf32>
  %is = arith.cmpi eq, %w, %zero : index
  memref.store %is, %flags[%one] : memref<2xi1>
  %first = memref.load %flags[%one] : memref<2xi1>
  %s = scf.if %first -> (f32) {
    %neg = arith.negf %r : f32
    scf.yield %neg : f32
  } else {
    %k = arith.index_cast %n : index to i32
    %kf = arith.sitofp %k : i32 to f32
    %mul = arith.mulf %r, %kf : f32
    scf.yield %mul : f32
  }
  memref.store %s, %y[%g] : memref<128xf32>
}"""
    x = np.arange(128, dtype=np.float32)
    _, reversed_rows = run_kernel(text, [x, np.zeros_like(x)], (2, 1))
    np.testing.assert_array_equal(reversed_rows, np.concatenate([-x[:64][::-1], 2 * x[64:][::-1]]))


def test_a_subgroup_reduces_broadcasts_and_exchanges() -> None:
    text = """
wgsl.kernel @sums workgroup_size = [64, 1, 1] access = ["read", "read_write", "read_write"] {
^bb0(%x: memref<64xf32>, %y: memref<192xf32>, %z: memref<128xi32>):
  %t = wgsl.local_index
  %n = arith.constant 64 : index
  %u = arith.addi %t, %n : index
  %w = arith.addi %u, %n : index
  %v = memref.load %x[%t] : memref<64xf32>
  %sum = wgsl.subgroup_reduce "add" %v : f32
  %max = wgsl.subgroup_reduce "max" %v : f32
  %broadcast = wgsl.subgroup_broadcast %v, 0 : f32
  %swapped = wgsl.subgroup_shuffle_xor %v, 1 : f32
  %first = arith.addf %broadcast, %swapped : f32
  %lane = wgsl.subgroup_lane
  %size = wgsl.subgroup_size
  %lane32 = arith.index_cast %lane : index to i32
  %size32 = arith.index_cast %size : index to i32
  memref.store %sum, %y[%t] : memref<192xf32>
  memref.store %max, %y[%u] : memref<192xf32>
  memref.store %first, %y[%w] : memref<192xf32>
  memref.store %lane32, %z[%t] : memref<128xi32>
  memref.store %size32, %z[%u] : memref<128xi32>
}"""
    x = np.arange(64, dtype=np.float32)
    _, floats, integers = run_kernel(text, [x, np.zeros(192, np.float32), np.zeros(128, np.int32)])
    size = int(integers[64])
    rows = x.reshape(-1, size)
    np.testing.assert_array_equal(integers[:64], np.tile(np.arange(size), 64 // size))
    np.testing.assert_array_equal(floats[:64], np.repeat(rows.sum(1), size))
    np.testing.assert_array_equal(floats[64:128], np.repeat(rows.max(1), size))
    swapped = x.reshape(-1, 2)[:, ::-1].flatten()
    np.testing.assert_array_equal(floats[128:], np.repeat(rows[:, 0], size) + swapped)


def test_vectors_of_four() -> None:
    text = """
wgsl.kernel @vectors workgroup_size = [1, 1, 1] access = ["read", "read_write", "read_write"] {
^bb0(%x: memref<2xvector<4xf32>>, %y: memref<2xvector<4xf32>>, %z: memref<2xf32>):
  %i = wgsl.global_id dim = 0
  %v = memref.load %x[%i] : memref<2xvector<4xf32>>
  %c = arith.constant dense<2.0> : vector<4xf32>
  %d = arith.constant dense<[1.0, 2.0, 3.0, 4.0]> : vector<4xf32>
  %m = arith.mulf %v, %c : vector<4xf32>
  %e = vector.extract %v[2] : f32 from vector<4xf32>
  %b = vector.broadcast %e : f32 to vector<4xf32>
  %f = vector.fma %m, %d, %b : vector<4xf32>
  memref.store %f, %y[%i] : memref<2xvector<4xf32>>
  memref.store %e, %z[%i] : memref<2xf32>
}"""
    x = np.arange(8, dtype=np.float32)
    _, y, z = run_kernel(text, [x, np.zeros_like(x), np.zeros(2, np.float32)], (2, 1))
    rows = x.reshape(2, 4)
    np.testing.assert_array_equal(y.reshape(2, 4), rows * 2 * np.arange(1, 5) + rows[:, 2:3])
    np.testing.assert_array_equal(z, rows[:, 2])


# What `expand-math` promises, in ulp: the docstrings' bounds.

ERF = np.vectorize(python_math.erf, otypes=[np.float64])
BOUNDS: dict[str, tuple[Callable[..., Array], float]] = {
    "exp": (np.exp, 2),
    "exp2": (np.exp2, 2),
    "expm1": (np.expm1, 2),
    "log": (np.log, 1),
    "log2": (np.log2, 2),
    "log1p": (np.log1p, 3),
    "sin": (np.sin, 3),
    "cos": (np.cos, 3),
    "tan": (np.tan, 5),
    "tanh": (np.tanh, 2),
    "sinh": (np.sinh, 2),
    "cosh": (np.cosh, 2),
    "erf": (ERF, 3),
    "asin": (np.arcsin, 3),
    "acos": (np.arccos, 2),
    "atan": (np.arctan, 3),
    "asinh": (np.arcsinh, 4),
    "acosh": (np.arccosh, 4),
    "atanh": (np.arctanh, 4),
    "powf": (np.power, 2),
    "atan2": (np.arctan2, 4),
}
SPECIAL = np.array(
    [0.0, -0.0, 1, -1, 2, -2, 3, -3, 0.5, -0.5, 1.5, np.inf, -np.inf, np.nan, 1e30, 1e-30, -1e30, 1e-42, 2.0**24 + 2],
    np.float32,
)


def every_magnitude() -> Array:
    bits = np.arange(0, 2**32, 40009, dtype=np.uint64).astype(np.uint32).view(np.float32)
    steps = (np.linspace(-110, 110, 20001), np.linspace(-1.5, 1.5, 20001), 1 + np.linspace(-1e-3, 1e-3, 2001))
    return np.concatenate([bits, *singles(*steps), SPECIAL])


def singles(*arrays: Array) -> list[Array]:
    return [array.astype(np.float32) for array in arrays]


def errors_in_ulp(actual: Array, exact: Array) -> Array:
    with np.errstate(all="ignore"):
        rounded = exact.astype(np.float32)
        unit = np.maximum(np.spacing(np.abs(rounded)).astype(np.float64), 2.0**-149)
        error = np.abs(actual - exact) / unit
    same = (actual == rounded) & ~np.isfinite(rounded) | np.isnan(actual) & np.isnan(rounded)
    # Next to the largest number, infinity is one unit away.
    edge = np.isinf(actual) & (np.abs(exact) > 3.4028e38) & (np.sign(actual) == np.sign(exact))
    return np.where(same | edge, 0.0, np.where(np.isnan(error), np.inf, error))


def assert_accurate(name: str, actual: Array, *operands: Array) -> None:
    function, bound = BOUNDS[name]
    with np.errstate(all="ignore"):
        exact = function(*(operand.astype(np.float64) for operand in operands))
    error = errors_in_ulp(actual, exact)
    worst = error.argmax()
    place = [operand[worst] for operand in operands]
    assert error[worst] <= bound, f"{name}{place} gave {actual[worst]} for {exact[worst]}: {error[worst]} ulp"
    zero = (exact == 0) & (actual == 0)
    assert (np.signbit(actual) == np.signbit(exact))[zero].all(), f"{name}: the sign of a zero"


def test_every_expansion_has_a_bound() -> None:
    assert {op.name.removeprefix("math.") for op in EXPANSIONS} == set(BOUNDS)


def test_expanded_functions_of_one_argument() -> None:
    x = every_magnitude()
    names = [name for name in BOUNDS if name not in ("powf", "atan2")]
    results = apply_ops([(f"%r = math.{name} %a : f32", "f32") for name in names], "f32", [("f32", x)])
    for name, actual in zip(names, results, strict=True):
        assert_accurate(name, actual, x)


def test_expanded_functions_of_two_arguments() -> None:
    random = np.random.default_rng(0)
    x, y = (random.permutation(every_magnitude()) for _ in range(2))
    bases, powers = random.uniform(0, 3, 20000), random.uniform(-60, 60, 20000)
    near_one, large = 1 + random.uniform(-1e-3, 1e-3, 20000), random.uniform(-8e4, 8e4, 20000)
    negative, whole = -random.uniform(0, 8, 20000), random.integers(-20, 20, 20000)
    special = np.meshgrid(SPECIAL, SPECIAL)
    first = np.concatenate([x, *singles(bases, near_one, negative), special[0].ravel()])
    second = np.concatenate([y, *singles(powers, large, whole), special[1].ravel()])
    names = ("powf", "atan2")
    ops = [(f"%r = math.{name} %a, %b : f32", "f32") for name in names]
    for name, actual in zip(names, apply_ops(ops, "f32", [("f32", first), ("f32", second)]), strict=True):
        assert_accurate(name, actual, first, second)


def test_half_precision_goes_through_single() -> None:
    x = np.linspace(-4, 4, 1001).astype(np.float16)
    ops = [("%r = math.exp %a : f16", "f16"), ("%r = math.tanh %a : f16", "f16")]
    for function, actual in zip((np.exp, np.tanh), apply_ops(ops, "f16", [("f16", x)]), strict=True):
        expected = function(x.astype(np.float64)).astype(np.float16)
        assert np.abs(actual.view(np.int16).astype(int) - expected.view(np.int16)).max() <= 1
