"""The rules of pure ops: each maps the text of the operands to the text of the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, cast

import numpy as np
from xdsl.dialects import arith, math, vector
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    Float16Type,
    FloatAttr,
    IndexType,
    IntegerAttr,
    f16,
    f32,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, Operation

from tensorgrad.dialects import wgsl
from tensorgrad.passes.codegen.wgsl.emit_wgsl.text import (
    VALUE_TYPES,
    EmitError,
    Expression,
    as_signed,
    as_unsigned,
    call,
    component,
    float_literal,
    infix,
    literal,
    prefix,
    signed_literal,
    unsigned_literal,
)
from tensorgrad.passes.scalars import constant_integer

Operands: TypeAlias = Sequence[Expression]
Rule: TypeAlias = Callable[[Operation, Operands], Expression]

INDEX = IndexType()
_WHOLE = (INDEX, i32, i64)


def _operand_type(op: Operation, allowed: Sequence[Attribute]) -> Attribute:
    """Returns the type of the first operand, which must be one of `allowed`."""
    result = op.operands[0].type
    if result not in allowed:
        raise EmitError(op, f"no WGSL for operands of type {result}")
    return result


def _infix(operator: str, *types: Attribute) -> Rule:
    def rule(op: Operation, operands: Operands) -> Expression:
        _operand_type(op, types)
        return infix(operator, operands[0], operands[1])

    return rule


def _call(function: str, *types: Attribute) -> Rule:
    def rule(op: Operation, operands: Operands) -> Expression:
        _operand_type(op, types)
        return call(function, *operands)

    return rule


def _float_helper(function: str) -> Rule:
    """Returns a rule for a helper on f32; f16 is converted to f32, exactly, and back."""

    def rule(op: Operation, operands: Operands) -> Expression:
        if isinstance(_operand_type(op, (f32, f16)), Float16Type):
            return call("f16", call(function, *(call("f32", operand) for operand in operands)))
        return call(function, *operands)

    return rule


def _by_type(rules: Mapping[Attribute, Rule]) -> Rule:
    def rule(op: Operation, operands: Operands) -> Expression:
        return rules[_operand_type(op, tuple(rules))](op, operands)

    return rule


def _unsigned(of_unsigned: Callable[[Operation, Expression, Expression], Expression]) -> Rule:
    """Returns a rule for an unsigned binary op: plain on an index, with bitcasts on an i32 or an i64."""

    def rule(op: Operation, operands: Operands) -> Expression:
        type_ = _operand_type(op, _WHOLE)
        if type_ == INDEX:
            return of_unsigned(op, operands[0], operands[1])
        left, right = (as_unsigned(operand, type_) for operand in operands)
        return as_signed(of_unsigned(op, left, right), type_)

    return rule


def _divide_unsigned(operator: str, helper: str) -> Rule:
    def of_unsigned(op: Operation, left: Expression, right: Expression) -> Expression:
        plain = constant_integer(op.operands[1]) not in (None, 0)
        return infix(operator, left, right) if plain else call(f"{helper}_u{_bits(op)}", left, right)

    return _unsigned(of_unsigned)


def _divide_signed(op: Operation, operands: Operands) -> Expression:
    _operand_type(op, (i32, i64))
    plain = constant_integer(op.operands[1]) not in (None, 0, -1)
    return infix("/", *operands) if plain else call(f"tg_div_i{_bits(op)}", *operands)


def _signed_remainder(op: Operation, operands: Operands) -> Expression:
    """Calls a helper always: Vulkan leaves SPIR-V's remainder of a negative number undefined, and Naga uses it."""
    _operand_type(op, (i32, i64))
    return call(f"tg_rem_i{_bits(op)}", *operands)


def _shift_unsigned(operator: str, helper: str) -> Rule:
    def of_unsigned(op: Operation, left: Expression, right: Expression) -> Expression:
        amount = _constant_amount(op)
        return call(f"{helper}_u{_bits(op)}", left, right) if amount is None else infix(operator, left, amount)

    return _unsigned(of_unsigned)


def _shift_signed(op: Operation, operands: Operands) -> Expression:
    type_, amount = _operand_type(op, (i32, i64)), _constant_amount(op)
    if amount is not None:
        return infix(">>", operands[0], amount)
    return call(f"tg_shr_i{_bits(op)}", operands[0], as_unsigned(operands[1], type_))


def _constant_amount(op: Operation) -> Expression | None:
    """Returns a shift's amount, always a u32, if it is a constant below the bit width."""
    amount = constant_integer(op.operands[1])
    return unsigned_literal(amount) if amount is not None and 0 <= amount < _bits(op) else None


def _bits(op: Operation) -> int:
    """Returns the bit width of an op's integers."""
    return 64 if op.operands[0].type == i64 else 32


INTEGER_PREDICATES = ("==", "!=", "<", "<=", ">", ">=", "<", "<=", ">", ">=")
FIRST_UNSIGNED = 6


def _compare_integers(op: Operation, operands: Operands) -> Expression:
    predicate = cast(arith.CmpiOp, op).predicate.value.data
    type_ = _operand_type(op, (*_WHOLE, i1))
    left, right = operands
    if predicate >= 2:
        if type_ == i1 or (type_ == INDEX and predicate < FIRST_UNSIGNED):
            raise EmitError(op, f"only equality and, on an index, unsigned order can be compared, not {type_}")
        if type_ in (i32, i64) and predicate >= FIRST_UNSIGNED:
            left, right = as_unsigned(left, type_), as_unsigned(right, type_)
    return infix(INTEGER_PREDICATES[predicate], left, right)


# Indexed by `arith.cmpf`'s predicate: the relation of two numbers, and the result for a NaN.
FLOAT_PREDICATES: tuple[tuple[str | bool, bool], ...] = (
    (False, False),
    ("==", False),
    (">", False),
    (">=", False),
    ("<", False),
    ("<=", False),
    ("!=", False),
    (True, False),
    ("==", True),
    (">", True),
    (">=", True),
    ("<", True),
    ("<=", True),
    ("!=", True),
    (False, True),
    (True, True),
)


def _has_nan(op: Operation, operands: Operands) -> Expression:
    """Returns a test of the operands' bits for NaN; constants that are numbers need none."""
    wide = [call("f32", o) if op.operands[0].type == f16 else o for o in operands]
    same = op.operands[0] is op.operands[1]
    tests = [
        call("tg_is_nan", value)
        for value, operand in zip(wide[: 1 if same else 2], operands, strict=False)
        if not operand.finite
    ]
    if not tests:
        return literal("false")
    return tests[0] if len(tests) == 1 else infix("||", *tests)


def _compare_floats(op: Operation, operands: Operands) -> Expression:
    _operand_type(op, (f32, f16))
    relation, of_nan = FLOAT_PREDICATES[cast(arith.CmpfOp, op).predicate.value.data]
    if isinstance(relation, bool):
        if relation == of_nan:
            return literal("true" if relation else "false")
        unordered = _has_nan(op, operands)
        return unordered if of_nan else prefix("!", unordered)
    compared = infix(relation, *operands)
    if relation != "!=" and not of_nan:
        return compared
    unordered = _has_nan(op, operands)
    return infix("||", unordered, compared) if of_nan else infix("&&", prefix("!", unordered), compared)


def _select(op: Operation, operands: Operands) -> Expression:
    condition, if_true, if_false = operands
    return call("select", if_false, if_true, condition)


def _lowest_bit(value: Expression) -> Expression:
    return infix("!=", infix("&", value, unsigned_literal(1)), unsigned_literal(0))


def _convert(rules: Mapping[tuple[Attribute, Attribute], Callable[[Expression], Expression]]) -> Rule:
    """Returns a rule for a conversion, selected by operand and result type."""

    def rule(op: Operation, operands: Operands) -> Expression:
        pair = (op.operands[0].type, op.results[0].type)
        if pair not in rules:
            raise EmitError(op, f"no WGSL for {pair[0]} to {pair[1]}")
        return rules[pair](operands[0])

    return rule


def _cast(function: str) -> Callable[[Expression], Expression]:
    return lambda value: call(function, value)


def _choose(if_false: Expression, if_true: Expression) -> Callable[[Expression], Expression]:
    return lambda condition: call("select", if_false, if_true, condition)


def _wide(value: Expression) -> Expression:
    return call("f32", value)


def _same(value: Expression) -> Expression:
    return value


_FROM_SIGNED_BIT = _choose(signed_literal(0), signed_literal(-1))


def _from_unsigned(function: str, type_: Attribute = i32) -> Callable[[Expression], Expression]:
    return lambda value: call(function, as_unsigned(value, type_))


def _extended(value: Expression) -> Expression:
    """Zero-extends a u32 to i64, through u64, since Naga sign-extends by the target type."""
    return as_signed(call("u64", value), i64)


def _to_unsigned(helper: str, type_: Attribute, of_half: bool = False) -> Callable[[Expression], Expression]:
    return lambda value: as_signed(call(helper, _wide(value) if of_half else value), type_)


CONVERSIONS: dict[type[Operation], dict[tuple[Attribute, Attribute], Callable[[Expression], Expression]]] = {
    arith.IndexCastOp: {
        (INDEX, i32): as_signed,
        (i32, INDEX): as_unsigned,
        (i1, INDEX): _choose(unsigned_literal(0), unsigned_literal(-1)),
        (INDEX, i1): _lowest_bit,
        (INDEX, i64): _extended,
        (i64, INDEX): _cast("u32"),
    },
    arith.SIToFPOp: {
        (i32, f32): _cast("f32"),
        (i32, f16): _cast("f16"),
        (i64, f32): _cast("f32"),
        (i64, f16): _cast("f16"),
        # Through i32, because Mesa turns a select of 0.0 and -1.0 into a negation, which gives -0.0.
        (i1, f32): lambda value: call("f32", _FROM_SIGNED_BIT(value)),
        (i1, f16): lambda value: call("f16", _FROM_SIGNED_BIT(value)),
    },
    arith.UIToFPOp: {
        (i32, f32): _from_unsigned("f32"),
        (i32, f16): _from_unsigned("f16"),
        (i64, f32): _from_unsigned("f32", i64),
        (i64, f16): _from_unsigned("f16", i64),
        (i1, f32): _cast("f32"),
        (i1, f16): _cast("f16"),
    },
    arith.FPToSIOp: {
        (f32, i32): _cast("tg_to_i32"),
        (f16, i32): lambda value: call("tg_to_i32", _wide(value)),
        (f32, i64): _cast("tg_to_i64"),
        (f16, i64): lambda value: call("tg_to_i64", _wide(value)),
    },
    arith.FPToUIOp: {
        (f32, i32): _to_unsigned("tg_to_u32", i32),
        (f16, i32): _to_unsigned("tg_to_u32", i32, of_half=True),
        (f32, i64): _to_unsigned("tg_to_u64", i64),
        (f16, i64): _to_unsigned("tg_to_u64", i64, of_half=True),
    },
    arith.ExtUIOp: {
        (i1, i32): _cast("i32"),
        (i1, i64): _choose(signed_literal(0, i64), signed_literal(1, i64)),
        (i32, i64): lambda value: _extended(as_unsigned(value)),
    },
    arith.ExtSIOp: {
        (i1, i32): _FROM_SIGNED_BIT,
        (i1, i64): _choose(signed_literal(0, i64), signed_literal(-1, i64)),
        (i32, i64): _cast("i64"),
    },
    arith.TruncIOp: {
        (i32, i1): lambda value: _lowest_bit(as_unsigned(value)),
        (i64, i1): lambda value: _lowest_bit(call("u32", value)),
        (i64, i32): _cast("i32"),
    },
    arith.ExtFOp: {(f16, f32): _wide},
    arith.TruncFOp: {(f32, f16): _cast("f16")},
    arith.BitcastOp: {
        (i32, f32): lambda value: call("bitcast<f32>", value),
        (f32, i32): lambda value: as_signed(call("bitcast<u32>", value)),
        (i32, INDEX): as_unsigned,
        (INDEX, i32): as_signed,
        **{(type_, type_): _same for type_ in VALUE_TYPES},
    },
}


def _dimension(name: str) -> Rule:
    def rule(op: Operation, operands: Operands) -> Expression:
        del operands
        dim = cast(wgsl.DimensionBuiltin, op).dim.value.data
        return Expression(f"{name}.{'xyz'[dim]}")

    return rule


def _builtin(name: str) -> Rule:
    return lambda op, operands: Expression(name)


def constant(op: arith.ConstantOp) -> Expression:
    """Returns a literal, or a call that builds the value if WGSL has no constant expression for it."""
    value, type_ = op.value, op.result.type
    if isinstance(value, DenseIntOrFPElementsAttr) and type_ == wgsl.VECTOR:
        numbers = [float(number) for number in cast(Sequence[float], value.get_values())]
        parts = numbers[:1] if len(set(map(repr, numbers))) == 1 else numbers
        return call("vec4<f32>", *(_float_constant(number, f32) for number in parts))
    if isinstance(value, FloatAttr) and type_ in (f32, f16):
        return _float_constant(float(value.value.data), type_)
    if isinstance(value, IntegerAttr):
        integer = value.value.data
        if type_ == i1:
            return literal("true" if integer else "false")
        if type_ == INDEX:
            return unsigned_literal(integer)
        if type_ in (i32, i64):
            return signed_literal(integer, type_)
    raise EmitError(op, f"no WGSL for a constant of type {type_}")


def _float_constant(number: float, type_: Attribute) -> Expression:
    with np.errstate(over="ignore"):
        narrow = np.float32(number) if type_ == f32 else np.float16(number)
    if np.isfinite(narrow):
        return float_literal(narrow)
    bits = int(np.float32(narrow).view(np.uint32))
    expression = call("tg_from_bits", literal(f"{bits:#x}u"))
    return expression if type_ == f32 else call("f16", expression)


def _extract(op: Operation, operands: Operands) -> Expression:
    extract = cast(vector.ExtractOp, op)
    position = extract.static_position.get_values()
    _operand_type(op, (wgsl.VECTOR,))
    if len(position) != 1 or extract.dynamic_position or position[0] not in range(4):
        raise EmitError(op, "only one static position can be extracted")
    return component(operands[0], int(position[0]))


def _splat(op: Operation, operands: Operands) -> Expression:
    _operand_type(op, (f32,))
    if op.results[0].type != wgsl.VECTOR:
        raise EmitError(op, f"no WGSL for {op.results[0].type}")
    return call("vec4<f32>", operands[0])


_REAL = (f32, f16, wgsl.VECTOR)


def _logic(operator: str, on_bits: str) -> Rule:
    return _by_type({i1: _infix(operator, i1), **dict.fromkeys(_WHOLE, _infix(on_bits, *_WHOLE))})


RULES: dict[type[Operation], Rule] = {
    arith.AddfOp: _infix("+", *_REAL),
    arith.SubfOp: _infix("-", *_REAL),
    arith.MulfOp: _infix("*", *_REAL),
    arith.DivfOp: _infix("/", *_REAL),
    arith.NegfOp: lambda op, operands: prefix("-", operands[0]),
    arith.MaximumfOp: _float_helper("tg_maximum"),
    arith.MinimumfOp: _float_helper("tg_minimum"),
    arith.MaxnumfOp: _float_helper("tg_maxnum"),
    arith.MinnumfOp: _float_helper("tg_minnum"),
    arith.CmpfOp: _compare_floats,
    arith.CmpiOp: _compare_integers,
    arith.SelectOp: _select,
    arith.AddiOp: _infix("+", *_WHOLE),
    arith.SubiOp: _infix("-", *_WHOLE),
    arith.MuliOp: _infix("*", *_WHOLE),
    arith.DivUIOp: _divide_unsigned("/", "tg_div"),
    arith.RemUIOp: _divide_unsigned("%", "tg_rem"),
    arith.DivSIOp: _divide_signed,
    arith.RemSIOp: _signed_remainder,
    arith.MinSIOp: _call("min", i32, i64),
    arith.MaxSIOp: _call("max", i32, i64),
    arith.MinUIOp: _unsigned(lambda op, left, right: call("min", left, right)),
    arith.MaxUIOp: _unsigned(lambda op, left, right: call("max", left, right)),
    arith.AndIOp: _logic("&&", "&"),
    arith.OrIOp: _logic("||", "|"),
    arith.XOrIOp: _logic("!=", "^"),
    arith.ShLIOp: _shift_unsigned("<<", "tg_shl"),
    arith.ShRUIOp: _shift_unsigned(">>", "tg_shr"),
    arith.ShRSIOp: _shift_signed,
    **{op: _convert(pairs) for op, pairs in CONVERSIONS.items()},
    math.AbsFOp: _call("abs", *_REAL),
    math.AbsIOp: _call("abs", i32, i64),
    math.CtPopOp: _call("countOneBits", i32),
    math.CountLeadingZerosOp: _call("countLeadingZeros", i32),
    math.CountTrailingZerosOp: _call("countTrailingZeros", i32),
    math.CopySignOp: _float_helper("tg_copysign"),
    math.FmaOp: _call("fma", *_REAL),
    math.RoundEvenOp: _call("round", *_REAL),
    math.RsqrtOp: _call("inverseSqrt", *_REAL),
    math.PowFOp: _call("pow", *_REAL),
    math.Atan2Op: _call("atan2", *_REAL),
    **{
        op: _call(op.name.removeprefix("math."), *_REAL)
        for op in (
            math.FloorOp,
            math.CeilOp,
            math.TruncOp,
            math.SqrtOp,
            math.ExpOp,
            math.Exp2Op,
            math.LogOp,
            math.Log2Op,
            math.SinOp,
            math.CosOp,
            math.TanOp,
            math.AsinOp,
            math.AcosOp,
            math.AtanOp,
            math.SinhOp,
            math.CoshOp,
            math.TanhOp,
        )
    },
    wgsl.RemFOp: _float_helper("tg_remainder"),
    vector.BroadcastOp: _splat,
    vector.ExtractOp: _extract,
    vector.FMAOp: _call("fma", wgsl.VECTOR),
    wgsl.JoinOp: _call("vec4<f32>", f32),
    wgsl.WorkgroupIdOp: _dimension("workgroup_id"),
    wgsl.NumWorkgroupsOp: _dimension("num_workgroups"),
    wgsl.LocalIdOp: _dimension("local_invocation_id"),
    wgsl.GlobalIdOp: _dimension("global_invocation_id"),
    wgsl.LocalIndexOp: _builtin("local_invocation_index"),
    wgsl.SubgroupLaneOp: _builtin("subgroup_invocation_id"),
    wgsl.SubgroupSizeOp: _builtin("subgroup_size"),
}
"""The expression of each pure op. A missing one can't be expressed in WGSL, or only after `expand-math`."""

ENTRY_PARAMETERS: dict[type[Operation], str] = {
    wgsl.WorkgroupIdOp: "workgroup_id: vec3<u32>",
    wgsl.NumWorkgroupsOp: "num_workgroups: vec3<u32>",
    wgsl.LocalIdOp: "local_invocation_id: vec3<u32>",
    wgsl.GlobalIdOp: "global_invocation_id: vec3<u32>",
    wgsl.LocalIndexOp: "local_invocation_index: u32",
    wgsl.SubgroupLaneOp: "subgroup_invocation_id: u32",
    wgsl.SubgroupSizeOp: "subgroup_size: u32",
}
"""The builtin that each op reads, as an entry point parameter."""
