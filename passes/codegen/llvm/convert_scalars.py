"""Conversion of scalar and vector ops to the LLVM dialect."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias, cast

import numpy as np
from ml_dtypes import bfloat16
from xdsl.dialects import arith, llvm, math, vector
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    StringAttr,
    UnitAttr,
    UnknownLoc,
    VectorType,
    bf16,
    f16,
    f32,
    f64,
    i1,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.dialects.utils.fast_math import FastMathFlag
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects import cpu, wgsl
from tensorgrad.dialects.locations import line_of
from tensorgrad.dialects.tg.base import short_ints

INDEX = IndexType()
CONVERTED: dict[Attribute, Attribute] = {INDEX: i64, bf16: i16}
"""The types that others stand for."""
POINTER = llvm.LLVMPointerType()

Properties: TypeAlias = Mapping[str, Attribute]
NONE: Properties = {}
BY_INDEX: Properties = {
    "rawConstantIndices": short_ints([llvm.GEP_USE_SSA_VAL]),
    "noWrapFlags": IntegerAttr(0, i32),
}
"""Properties of a GEP whose index is a value."""
SEGMENTS = "operandSegmentSizes"
INBOUNDS: Properties = {"inbounds": UnitAttr()}
WRAPS: Properties = {"overflowFlags": IntegerAttr(0, i32)}
"""Properties of an integer instruction that wraps around."""
CAST_FLAGS: Mapping[type[Operation], Properties] = {llvm.TruncOp: {"overflowFlags": llvm.OverflowAttr(None)}}
NO_WRAP: Properties = {
    "overflowFlags": IntegerAttr(llvm.OverflowAttr([llvm.OverflowFlag.NO_SIGNED_WRAP]).to_int(), i32)
}
NAMES: dict[Attribute, str] = {
    f16: "f16",
    f32: "f32",
    f64: "f64",
    i1: "i1",
    i8: "i8",
    i16: "i16",
    i32: "i32",
    i64: "i64",
}
"""Type suffixes in the names of intrinsics."""


LIBRARY_PREFIX = "libm."
"""The prefix of C library functions in a module, where a user's function may have the same name."""


class Builder:
    """Appends instructions to a block.

    Attributes:
        block: The insertion block.
        entry: The function's entry block, where constants go.
        constants: The constants by value and type.
        env: The converted value of each value of the kernel.
        declared: The called C library functions, by name.
        location: The location of new instructions.
    """

    def __init__(self, block: Block, declared: dict[str, llvm.FuncOp]):
        self.block = block
        self.entry = block
        self.constants: dict[tuple[Attribute, Attribute], SSAValue] = {}
        self._numbers: dict[int, SSAValue] = {}
        self._last_constant: Operation | None = None
        self.env: dict[SSAValue, SSAValue] = {}
        self.declared = declared
        self.location: Any = UnknownLoc()

    def add(self, op: Operation) -> SSAValue:
        """Appends an instruction; returns its result, if any."""
        op.location = self.location
        self.block.add_op(op)
        return op.results[0] if op.results else cast(SSAValue, None)

    def make(
        self, kind: type[Operation], operands: Sequence[SSAValue], type_: Attribute, properties: Properties = NONE
    ) -> SSAValue:
        """Builds an instruction from its parts and appends it; returns its result.

        The constructors of xDSL's ops take several times as long, and kernels have thousands of instructions.
        """
        location = self.location
        return self.add(kind.create(operands=operands, result_types=(type_,), properties=properties, location=location))

    @staticmethod
    def type_of(type_: Attribute) -> Attribute:
        """Returns the converted type: an index has 64 bits, and a bf16 is its 16 bits, since few CPUs have its type."""
        return CONVERTED.get(type_, type_)

    def _insert_first(self, op: Operation) -> None:
        """Inserts a constant after the others in the entry block."""
        first = self.entry.first_op
        if self._last_constant is not None:
            self.entry.insert_op_after(op, self._last_constant)
        elif first is not None:
            self.entry.insert_op_before(op, first)
        else:
            self.entry.add_op(op)
        self._last_constant = op

    # Instructions

    def integer(self, value: int, type_: Attribute) -> SSAValue:
        """Returns a constant."""
        bits = cast(IntegerType, type_).width.data
        wrapped = value if bits == 64 else (value + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))
        if bits == 1:
            wrapped = value & 1
        return self.constant(integer_attribute(wrapped, cast(IntegerType, type_)), type_)

    def constant(self, value: Attribute, type_: Attribute) -> SSAValue:
        """Returns a uniqued constant."""
        key = (value, type_)
        result = self.constants.get(key)
        if result is None:
            op = llvm.ConstantOp.create(result_types=(type_,), properties={"value": value}, location=self.location)
            self._insert_first(op)
            result = self.constants[key] = op.result
        return result

    def number(self, value: int) -> SSAValue:
        """Returns a 64-bit integer constant."""
        result = self._numbers.get(value)
        if result is None:
            result = self._numbers[value] = self.integer(value, i64)
        return result

    def offset(self, address: SSAValue, at: SSAValue, element: Attribute, inbounds: bool = True) -> SSAValue:
        """Returns the address of an element."""
        return self.make(llvm.GEPOp, (address, at), POINTER, _by_index(element, inbounds))

    def cast(self, kind: type[Operation], value: SSAValue, type_: Attribute) -> SSAValue:
        """Returns a value converted by an instruction."""
        return self.make(kind, (value,), type_, CAST_FLAGS.get(kind, NONE))

    def compare(self, predicate: str, x: SSAValue, y: SSAValue) -> SSAValue:
        """Returns an integer comparison."""
        return self.make(llvm.ICmpOp, (x, y), i1, _comparison(predicate))

    def intrinsic(
        self, name: str, operands: Sequence[SSAValue], result: Attribute, flags: tuple[FastMathFlag, ...] = ()
    ) -> SSAValue:
        """Returns a call to an intrinsic, given its full name and its fast-math flags."""
        return self.make(llvm.CallIntrinsicOp, operands, result, _call_of(name, len(operands), flags))

    def call(self, name: str, operands: Sequence[SSAValue]) -> None:
        """Calls an intrinsic without a result, given its full name."""
        self.add(llvm.CallIntrinsicOp.create(operands=operands, properties=_call_of(name, len(operands), ())))

    def library(self, name: str, operands: Sequence[SSAValue]) -> SSAValue:
        """Returns a call to a C library function on f64."""
        symbol = LIBRARY_PREFIX + name
        if symbol not in self.declared:
            kind = llvm.LLVMFunctionType([f64] * len(operands), f64)
            declared = llvm.FuncOp(symbol, kind, linkage=llvm.LinkageAttr("external"))
            declared.location = self.location
            self.declared[symbol] = declared
        return self.add(llvm.CallOp(symbol, *operands, return_type=f64))


# Attributes shared by many instructions.


@lru_cache(maxsize=1 << 11)
def integer_attribute(value: int, element: IntegerType) -> IntegerAttr[IntegerType]:
    """Returns an integer as an attribute."""
    return IntegerAttr(value, element)


@lru_cache
def _by_index(element: Attribute, inbounds: bool) -> Properties:
    return {**BY_INDEX, "elem_type": element, **(INBOUNDS if inbounds else NONE)}


@lru_cache
def _call_of(name: str, operands: int, flags: tuple[FastMathFlag, ...]) -> Properties:
    return {
        "fastmathFlags": fast_math(flags),
        "op_bundle_sizes": short_ints([]),
        "intrin": StringAttr(name),
        SEGMENTS: short_ints([operands, 0]),
    }


@lru_cache
def _comparison(predicate: str) -> Properties:
    return {"predicate": integer_attribute(llvm.ICmpPredicateFlag(predicate).to_int(), i64)}


Rule: TypeAlias = Callable[[Builder, Operation, Sequence[SSAValue]], SSAValue]


def suffix(type_: Attribute) -> str:
    """Returns an intrinsic's suffix for a scalar or vector type."""
    if isinstance(type_, VectorType):
        kind = cast("VectorType[Attribute]", type_)
        return f"v{kind.element_count()}{NAMES[kind.element_type]}"
    return NAMES[type_]


def _binary(kind: type[Operation], properties: Properties = NONE) -> Rule:
    return lambda b, op, operands: b.make(kind, operands, operands[0].type, properties)


@lru_cache
def fast_math(names: tuple[FastMathFlag, ...]) -> llvm.FastMathAttr:
    """Returns fast-math flags."""
    return llvm.FastMathAttr(list(names) or None)


@lru_cache
def _fast_math_properties(names: tuple[FastMathFlag, ...]) -> Properties:
    return {"fastmathFlags": fast_math(names)}


def _float(kind: type[Operation]) -> Rule:
    """Returns a rule for a float instruction, which keeps the op's flags.

    No other sum is contracted: a kernel may compute a value in several loops, whose results have to be the same.
    """

    def rule(b: Builder, op: Operation, operands: Sequence[SSAValue]) -> SSAValue:
        flags = cast("arith.FastMathFlagsAttr | None", op.properties.get("fastmath"))
        names = tuple(flags.data) if flags is not None else ()
        return b.make(kind, operands, operands[0].type, _fast_math_properties(names))

    return rule


def _intrinsic(name: str) -> Rule:
    """Returns a rule for an intrinsic overloaded on its result type."""
    flags = (FastMathFlag.NO_SIGNED_ZEROS,) if name in EITHER_ZERO else ()

    def rule(b: Builder, op: Operation, operands: Sequence[SSAValue]) -> SSAValue:
        type_ = b.type_of(op.results[0].type)
        return b.intrinsic(f"llvm.{name}.{suffix(type_)}", operands, type_, flags)

    return rule


def _with_flag(name: str) -> Rule:
    """Returns a rule for an intrinsic with a flag operand: zero, or the minimum integer, is not poison."""

    def rule(b: Builder, op: Operation, operands: Sequence[SSAValue]) -> SSAValue:
        type_ = b.type_of(op.results[0].type)
        return b.intrinsic(f"llvm.{name}.{suffix(type_)}", [*operands, b.integer(0, i1)], type_)

    return rule


def _library(name: str) -> Rule:
    """Returns a rule for an f64 function that LLVM has no intrinsic for."""

    def rule(b: Builder, op: Operation, operands: Sequence[SSAValue]) -> SSAValue:
        if op.results[0].type != f64:
            raise DiagnosticException(
                f"{op.name} of {op.results[0].type} at {line_of(op.location)}: run `expand-math` first"
            )
        return b.library(name, operands)

    return rule


def _constant(b: Builder, op: Operation, operands: Sequence[SSAValue]) -> SSAValue:
    value = cast(arith.ConstantOp, op).value
    if isinstance(value, IntegerAttr):
        number, type_ = cast("IntegerAttr[IntegerType]", value).value.data, op.results[0].type
        return b.number(number) if type_ == INDEX else b.integer(number, type_)
    assert isinstance(value, FloatAttr | DenseIntOrFPElementsAttr)
    if op.results[0].type == bf16 and isinstance(value, FloatAttr):
        return b.integer(int(np.array(value.value.data, bfloat16).view(np.uint16)), i16)
    return b.constant(value, op.results[0].type)


def _compare_integers(b: Builder, op: Operation, operands: Sequence[SSAValue]) -> SSAValue:
    return b.make(llvm.ICmpOp, operands, op.results[0].type, {"predicate": cast(arith.CmpiOp, op).predicate})


def _compare_floats(b: Builder, op: Operation, operands: Sequence[SSAValue]) -> SSAValue:
    flags = {"predicate": cast(arith.CmpfOp, op).predicate, "fastmathFlags": fast_math(())}
    return b.make(llvm.FCmpOp, operands, op.results[0].type, flags)


def _select(b: Builder, op: Operation, operands: Sequence[SSAValue]) -> SSAValue:
    return b.make(llvm.SelectOp, operands, operands[1].type, {"fastmathFlags": fast_math(())})


def _width(type_: Attribute) -> int:
    return cast(Any, getattr(type_, "element_type", type_)).bitwidth


def _resized(kind: type[Operation]) -> Rule:
    """Returns a rule that resizes an integer; `kind` says how it is extended."""

    def rule(b: Builder, op: Operation, operands: Sequence[SSAValue]) -> SSAValue:
        type_, value = b.type_of(op.results[0].type), operands[0]
        if value.type == type_:
            return value
        return b.cast(kind if _width(type_) > _width(value.type) else llvm.TruncOp, value, type_)

    return rule


def _signed_to_float(b: Builder, op: Operation, operands: Sequence[SSAValue]) -> SSAValue:
    return b.cast(llvm.SIToFPOp, operands[0], op.results[0].type)


def _unsigned_to_float(b: Builder, op: Operation, operands: Sequence[SSAValue]) -> SSAValue:
    """Converts an unsigned integer to float; a 32-bit one by halves, so that only their sum rounds.

    Conversions from 64 bits have no vector instruction before AVX-512, and the dialect has none for unsigned integers.
    """
    value, type_ = operands[0], op.results[0].type
    if value.type == i64:
        return _unsigned_word_to_float(b, value, type_)
    if _width(value.type) < 32:
        return b.cast(llvm.SIToFPOp, b.cast(llvm.ZExtOp, value, i32), type_)
    if type_ == f16:
        return b.cast(llvm.SIToFPOp, b.cast(llvm.ZExtOp, value, i64), f16)
    high = b.add(llvm.LShrOp(value, b.integer(16, i32)))
    low = b.add(llvm.AndOp(value, b.integer(0xFFFF, i32)))
    scale = b.constant(FloatAttr(65536.0, cast(Any, type_)), type_)
    product = b.add(llvm.FMulOp(b.cast(llvm.SIToFPOp, high, type_), scale))
    return b.add(llvm.FAddOp(product, b.cast(llvm.SIToFPOp, low, type_)))


def _unsigned_word_to_float(b: Builder, value: SSAValue, type_: Attribute) -> SSAValue:
    """Converts an unsigned 64-bit integer to float: if the top bit is set, as twice the float of half of it.

    The bit that halving drops is ORed back in, since all that matters is whether the half lies on a tie.
    """
    dropped = b.add(llvm.AndOp(value, b.number(1)))
    half = b.add(llvm.OrOp(b.add(llvm.LShrOp(value, b.number(1))), dropped))
    halved = b.cast(llvm.SIToFPOp, half, type_)
    large = b.add(llvm.FAddOp(halved, halved))
    is_large = b.compare("slt", value, b.number(0))
    return b.add(llvm.SelectOp(is_large, large, b.cast(llvm.SIToFPOp, value, type_)))


def _to_integer(name: str) -> Rule:
    """Returns a rule for a saturating conversion, which maps NaN to 0."""

    def rule(b: Builder, op: Operation, operands: Sequence[SSAValue]) -> SSAValue:
        type_ = op.results[0].type
        return b.intrinsic(f"llvm.{name}.sat.{suffix(type_)}.{suffix(operands[0].type)}", operands, type_)

    return rule


def _bitcast(b: Builder, op: Operation, operands: Sequence[SSAValue]) -> SSAValue:
    type_ = b.type_of(op.results[0].type)
    if operands[0].type == type_:
        return operands[0]
    if is_integer(type_) and is_integer(operands[0].type):
        return _resized(llvm.ZExtOp)(b, op, operands)
    return b.cast(llvm.BitcastOp, operands[0], type_)


def _resized_float(kind: type[Operation]) -> Rule:
    """Returns a rule for a conversion between floats."""

    def rule(b: Builder, op: Operation, operands: Sequence[SSAValue]) -> SSAValue:
        narrow, wide = op.operands[0].type, op.results[0].type
        if bf16 in (narrow, wide):
            raise DiagnosticException(f"{op.name} of bf16 at {line_of(op.location)}: run `expand-math` first")
        shape = cast("VectorType[Attribute]", narrow).get_shape() if isinstance(narrow, VectorType) else ()
        if narrow == VectorType(bf16, shape):
            return _extended(b, operands[0], shape, wide)
        return b.cast(kind, operands[0], wide)

    return rule


def _extended(b: Builder, numbers: SSAValue, shape: Sequence[int], wide: Attribute) -> SSAValue:
    """Extends a vector of bf16, which is the upper half of its bits."""
    shorts, words = VectorType(i16, shape), VectorType(i32, shape)
    shift = b.constant(DenseIntOrFPElementsAttr.from_list(words, [16]), words)
    lower = b.cast(llvm.ZExtOp, b.cast(llvm.BitcastOp, numbers, shorts), words)
    return b.cast(llvm.BitcastOp, b.make(llvm.ShlOp, (lower, shift), words, WRAPS), wide)


def _pair(b: Builder, op: Operation, operands: Sequence[SSAValue]) -> SSAValue:
    """Puts two numbers of bf16 into one word, rounded by the instruction for it."""
    low, high = (
        b.cast(llvm.ZExtOp, b.cast(llvm.BitcastOp, b.cast(llvm.FPTruncOp, operand, bf16), i16), i32)
        for operand in operands
    )
    return b.make(llvm.OrOp, (low, b.make(llvm.ShlOp, (high, b.integer(16, i32)), i32, WRAPS)), i32)


def _pair_neighbours(b: Builder, op: Operation, operands: Sequence[SSAValue]) -> SSAValue:
    """Puts neighbours into words by the instruction for it, whose first operand is the upper half of its result."""
    kind = cast("VectorType[Attribute]", op.results[0].type)
    lanes = kind.element_count()
    first, second = operands
    halves = VectorType(bf16, [2 * lanes])
    rounded = b.intrinsic(f"llvm.x86.avx512bf16.cvtne2ps2bf16.{32 * lanes}", [second, first], halves)
    return b.cast(llvm.BitcastOp, rounded, kind)


def _dot_pairs(b: Builder, op: Operation, operands: Sequence[SSAValue]) -> SSAValue:
    """Adds products of pairs by the instruction for as many sums."""
    sums, *words = operands
    kind = cast("VectorType[Attribute]", sums.type)
    lanes = kind.element_count()
    halves = [b.cast(llvm.BitcastOp, word, VectorType(bf16, [2 * lanes])) for word in words]
    return b.intrinsic(f"llvm.x86.avx512bf16.dpbf16ps.{32 * lanes}", [sums, *halves], kind)


def is_integer(type_: Attribute) -> bool:
    """Returns whether a type is a scalar integer type."""
    return type_ in (i1, i8, i16, i32, i64)


def _negate(b: Builder, op: Operation, operands: Sequence[SSAValue]) -> SSAValue:
    return b.make(llvm.FNegOp, operands, operands[0].type, _fast_math_properties(()))


def _broadcast(b: Builder, op: Operation, operands: Sequence[SSAValue]) -> SSAValue:
    """Broadcasts a scalar: inserts it as element 0, and shuffles that to all lanes."""
    type_ = cast("VectorType[Attribute]", op.results[0].type)
    empty = b.make(llvm.UndefOp, (), type_)
    first = b.make(llvm.InsertElementOp, (empty, operands[0], b.number(0)), type_)
    return b.make(llvm.ShuffleVectorOp, (first, first), type_, {"mask": short_ints([0] * type_.element_count())})


def _shuffle(b: Builder, op: Operation, operands: Sequence[SSAValue]) -> SSAValue:
    mask = short_ints(cast(vector.ShuffleOp, op).mask.get_values())
    return b.make(llvm.ShuffleVectorOp, operands, op.results[0].type, {"mask": mask})


INTEGERS: Mapping[type[Operation], type[Operation]] = {
    arith.AddiOp: llvm.AddOp,
    arith.SubiOp: llvm.SubOp,
    arith.MuliOp: llvm.MulOp,
    arith.DivUIOp: llvm.UDivOp,
    arith.DivSIOp: llvm.SDivOp,
    arith.RemUIOp: llvm.URemOp,
    arith.RemSIOp: llvm.SRemOp,
    arith.AndIOp: llvm.AndOp,
    arith.OrIOp: llvm.OrOp,
    arith.XOrIOp: llvm.XOrOp,
    arith.ShLIOp: llvm.ShlOp,
    arith.ShRUIOp: llvm.LShrOp,
    arith.ShRSIOp: llvm.AShrOp,
}

WRAPPING = (llvm.AddOp, llvm.SubOp, llvm.MulOp, llvm.ShlOp)
"""Instructions that take overflow flags."""

FLOATS: Mapping[type[Operation], type[Operation]] = {
    arith.AddfOp: llvm.FAddOp,
    arith.SubfOp: llvm.FSubOp,
    arith.MulfOp: llvm.FMulOp,
    arith.DivfOp: llvm.FDivOp,
}

INTRINSICS: Mapping[type[Operation], str] = {
    arith.MaximumfOp: "maximum",
    arith.MinimumfOp: "minimum",
    arith.MaxnumfOp: "maxnum",
    arith.MinnumfOp: "minnum",
    arith.MaxSIOp: "smax",
    arith.MinSIOp: "smin",
    arith.MaxUIOp: "umax",
    arith.MinUIOp: "umin",
    math.AbsFOp: "fabs",
    math.CtPopOp: "ctpop",
    math.CopySignOp: "copysign",
    math.FmaOp: "fma",
    vector.FMAOp: "fmuladd",
    math.RoundEvenOp: "roundeven",
    math.FloorOp: "floor",
    math.CeilOp: "ceil",
    math.TruncOp: "trunc",
    math.SqrtOp: "sqrt",
    math.ExpOp: "exp",
    math.Exp2Op: "exp2",
    math.LogOp: "log",
    math.Log2Op: "log2",
    math.SinOp: "sin",
    math.CosOp: "cos",
    math.PowFOp: "pow",
}
"""Ops with an equivalent intrinsic. The last ones become C library calls, and only take f64."""

EITHER_ZERO = ("maximum", "minimum")
"""Intrinsics of which zeros of both signs have either zero, as in NumPy: to tell them apart takes half of the time."""

LIBRARY: Mapping[type[Operation], str] = {
    math.ExpM1Op: "expm1",
    math.Log1pOp: "log1p",
    math.TanOp: "tan",
    math.TanhOp: "tanh",
    math.SinhOp: "sinh",
    math.CoshOp: "cosh",
    math.ErfOp: "erf",
    math.AsinOp: "asin",
    math.AcosOp: "acos",
    math.AtanOp: "atan",
    math.AsinhOp: "asinh",
    math.AcoshOp: "acosh",
    math.AtanhOp: "atanh",
    math.Atan2Op: "atan2",
}
"""C library functions on f64."""

RULES: Mapping[type[Operation], Rule] = {
    **{kind: _binary(llvm_op, WRAPS if llvm_op in WRAPPING else NONE) for kind, llvm_op in INTEGERS.items()},
    **{kind: _float(llvm_op) for kind, llvm_op in FLOATS.items()},
    **{kind: _intrinsic(name) for kind, name in INTRINSICS.items()},
    **{kind: _library(name) for kind, name in LIBRARY.items()},
    arith.ConstantOp: _constant,
    arith.NegfOp: _negate,
    arith.CmpiOp: _compare_integers,
    arith.CmpfOp: _compare_floats,
    arith.SelectOp: _select,
    arith.IndexCastOp: _resized(llvm.SExtOp),
    arith.ExtSIOp: _resized(llvm.SExtOp),
    arith.ExtUIOp: _resized(llvm.ZExtOp),
    arith.TruncIOp: _resized(llvm.ZExtOp),
    arith.ExtFOp: _resized_float(llvm.FPExtOp),
    arith.TruncFOp: _resized_float(llvm.FPTruncOp),
    arith.SIToFPOp: _signed_to_float,
    arith.UIToFPOp: _unsigned_to_float,
    arith.FPToSIOp: _to_integer("fptosi"),
    arith.FPToUIOp: _to_integer("fptoui"),
    arith.BitcastOp: _bitcast,
    vector.BitcastOp: _bitcast,
    math.AbsIOp: _with_flag("abs"),
    math.CountLeadingZerosOp: _with_flag("ctlz"),
    math.CountTrailingZerosOp: _with_flag("cttz"),
    wgsl.RemFOp: _binary(llvm.FRemOp, {"fastmathFlags": fast_math(())}),
    vector.BroadcastOp: _broadcast,
    vector.ShuffleOp: _shuffle,
    cpu.PairOp: _pair,
    cpu.PairNeighboursOp: _pair_neighbours,
    cpu.DotPairsOp: _dot_pairs,
}
"""The conversion of each op. Integers wrap around and floats follow IEEE 754, as everywhere."""
