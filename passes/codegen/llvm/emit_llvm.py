"""Prints functions of the `llvm` dialect as LLVM IR.

xDSL's own conversion goes through llvmlite objects, which the compiler need not have installed, and has no loop
metadata.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import IO, Any, cast

import numpy as np
from xdsl.context import Context
from xdsl.dialects import llvm
from xdsl.dialects.builtin import (
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    VectorType,
    bf16,
    f16,
    f32,
    f64,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.utils.exceptions import DiagnosticException
from xdsl.utils.target import Target

from tensorgrad.dialects.cpu import BELOW, MASKED
from tensorgrad.dialects.locations import line_of
from tensorgrad.passes.codegen.llvm.convert_scalars import LIBRARY_PREFIX
from tensorgrad.passes.codegen.llvm.convert_to_llvm import FAULT, ITERATIONS, LOOP

FLOATS: Mapping[Attribute, str] = {bf16: "bfloat", f16: "half", f32: "float", f64: "double"}

PREDICATED = '!{!"llvm.loop.vectorize.predicate.enable", i1 true}'
"""Lets LLVM fold the tail of a loop by masking; it emits a scalar epilogue otherwise."""

WIDEST = 512
"""The width in bits of the widest vectors of any supported CPU."""

BINARY: Mapping[type[Operation], str] = {
    llvm.AddOp: "add",
    llvm.SubOp: "sub",
    llvm.MulOp: "mul",
    llvm.UDivOp: "udiv",
    llvm.SDivOp: "sdiv",
    llvm.URemOp: "urem",
    llvm.SRemOp: "srem",
    llvm.AndOp: "and",
    llvm.OrOp: "or",
    llvm.XOrOp: "xor",
    llvm.ShlOp: "shl",
    llvm.LShrOp: "lshr",
    llvm.AShrOp: "ashr",
    llvm.FAddOp: "fadd",
    llvm.FSubOp: "fsub",
    llvm.FMulOp: "fmul",
    llvm.FDivOp: "fdiv",
    llvm.FRemOp: "frem",
}
BITWISE = llvm.AndOp | llvm.OrOp | llvm.XOrOp
SHIFTS = llvm.ShlOp | llvm.LShrOp | llvm.AShrOp
CASTS: Mapping[type[Operation], str] = {
    llvm.ZExtOp: "zext",
    llvm.SExtOp: "sext",
    llvm.TruncOp: "trunc",
    llvm.BitcastOp: "bitcast",
    llvm.SIToFPOp: "sitofp",
    llvm.FPExtOp: "fpext",
    llvm.FPTruncOp: "fptrunc",
}
FCMP = (
    "false",
    "oeq",
    "ogt",
    "oge",
    "olt",
    "ole",
    "one",
    "ord",
    "ueq",
    "ugt",
    "uge",
    "ult",
    "ule",
    "une",
    "uno",
    "true",
)
ICMP = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")


def type_text(type_: Attribute) -> str:
    """Returns a type as LLVM IR text.

    Raises:
        DiagnosticException: LLVM has no such type.
    """
    if isinstance(type_, IntegerType):
        return f"i{cast(Any, type_).width.data}"
    if isinstance(type_, llvm.LLVMPointerType):
        return "ptr"
    if isinstance(type_, llvm.LLVMArrayType):
        return f"[{type_.size.data} x {type_text(type_.type)}]"
    if isinstance(type_, llvm.LLVMVoidType):
        return "void"
    if isinstance(type_, VectorType):
        vector = cast("VectorType[Attribute]", type_)
        return f"<{vector.element_count()} x {type_text(vector.element_type)}>"
    result = FLOATS.get(type_)
    if result is None:
        raise DiagnosticException(f"LLVM has no type {type_}")
    return result


def _float_text(number: float, type_: Attribute) -> str:
    """Returns a float as hexadecimal bits, as LLVM IR takes them: of a half, or of the equal double."""
    if type_ == f16:
        return f"0xH{int(np.float16(number).view(np.uint16)):04X}"
    with np.errstate(over="ignore"):
        value = float(np.float32(number)) if type_ == f32 else number
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def _constant_text(value: Attribute, type_: Attribute) -> str:
    if isinstance(value, IntegerAttr):
        number = cast("IntegerAttr[IntegerType]", value).value.data
        return ("true" if number else "false") if type_ == IntegerType(1) else str(number)
    if isinstance(value, FloatAttr):
        return _float_text(cast(Any, value).value.data, type_)
    vector, dense = cast("VectorType[Attribute]", type_), cast("DenseIntOrFPElementsAttr[Any]", value)
    element = vector.element_type
    numbers = cast(Sequence[float], dense.get_values())
    is_integer = isinstance(element, IntegerType)
    texts = [str(number) if is_integer else _float_text(number, element) for number in numbers]
    return f"<{', '.join(f'{type_text(element)} {text}' for text in texts)}>"


class FunctionPrinter:
    """Prints one function as a self-contained module, which declares what it calls."""

    def __init__(self, function: llvm.FuncOp):
        self.function = function
        self.names: dict[SSAValue, str] = {}
        self.types: dict[int, str] = {}
        self.labels = {block: f"b{number}" for number, block in enumerate(function.body.blocks)}
        self.incoming: dict[Block, list[tuple[str, Sequence[SSAValue]]]] = {}
        self.declared: dict[str, str] = {}
        self.loops: dict[int, tuple[str, str, str]] = {}
        self.metadata: list[str] = []

    def lines(self) -> list[tuple[str, Operation | None]]:
        """Returns the declarations, the function and its metadata; each instruction is paired with its op."""
        self._name_values()
        lines: list[tuple[str, Operation | None]] = [(self._signature() + " {", None)]
        for block in self.function.body.blocks:
            lines.append((f"{self.labels[block]}:", None))
            lines += [(f"  {line}", None) for line in self._phis(block)]
            lines += [(f"  {line}", op) for line, op in self._instructions(block)]
        declared, ends = self.declared.values(), ("}", *self.metadata)
        return [*((line, None) for line in declared), *lines, *((line, None) for line in ends)]

    def _name_values(self) -> None:
        """Names values, and collects the incoming values of each block."""
        count = 0
        for block in self.function.body.blocks:
            for argument in block.args:
                self.names[argument] = f"%{count}"
                count += 1
            for op in block.ops:
                if type(op) in UNPRINTED:
                    self.names[op.results[0]] = self._in_place(op)
                elif op.results:
                    self.names[op.results[0]] = f"%{count}"
                    count += 1
            if isinstance(op := block.last_op, llvm.BrOp):
                self._comes(op.successor, block, op.arguments)
            elif isinstance(op, llvm.CondBrOp):
                self._comes(op.then_block, block, op.then_arguments)
                self._comes(op.else_block, block, op.else_arguments)

    def _in_place(self, op: Operation) -> str:
        """Returns the text of an op that is not an instruction, printed where its result is used."""
        if isinstance(op, llvm.ConstantOp):
            return _constant_text(op.value, op.result.type)
        return self._global(op) if isinstance(op, llvm.AddressOfOp) else "poison"

    def _global(self, op: llvm.AddressOfOp) -> str:
        """Returns the name of a zero-initialized global of this function, and defines it."""
        name = f"@{op.global_name.root_reference.data}"
        self.declared[name] = f"{name} = global {type_text(FAULT)} zeroinitializer"
        return name

    def _comes(self, block: Block, source: Block, values: Sequence[SSAValue]) -> None:
        self.incoming.setdefault(block, []).append((self.labels[source], values))

    def _signature(self) -> str:
        arguments: list[str] = []
        attributes = self.function.arg_attrs
        for number, argument in enumerate(self.function.body.blocks[0].args):
            alone = attributes is not None and "llvm.noalias" in cast(Any, attributes.data[number]).data
            flag = " noalias" if alone else ""
            arguments.append(f"{type_text(argument.type)}{flag} {self.names[argument]}")
        return f"define void @{self.function.sym_name.data}({', '.join(arguments)}) noinline{self._wide()}"

    def _wide(self) -> str:
        """Returns attributes that make LLVM use the CPU's full vector width, and not split wider vectors.

        By default, it prefers half the width of AVX-512, which runs at a lower frequency on some CPUs.
        """
        # Attributes are slow to hash, and most equal ones are the same object: dedupe by identity.
        kinds = {id(value.type): value.type for value in self.names}.values()
        vectors = [cast("VectorType[Attribute]", kind) for kind in kinds if isinstance(kind, VectorType)]
        bits = max((vector.element_count() * cast(Any, vector.element_type).bitwidth for vector in vectors), default=0)
        least = f' "min-legal-vector-width"="{bits}"' if bits else ""
        return f'{least} "prefer-vector-width"="{max(bits, WIDEST)}"'

    def _phis(self, block: Block) -> Iterator[str]:
        if block is self.function.body.blocks[0]:
            return
        for number, argument in enumerate(block.args):
            sources = ", ".join(
                f"[ {self.names[values[number]]}, %{label} ]" for label, values in self.incoming.get(block, [])
            )
            yield f"{self.names[argument]} = phi {self._type(argument.type)} {sources}"

    def _instructions(self, block: Block) -> Iterator[tuple[str, Operation]]:
        for op in block.ops:
            kind = type(op)
            if kind in UNPRINTED:
                continue
            if kind in BINARY:
                yield from ((line, op) for line in self._binary(op, BINARY[kind]))
            elif kind in CASTS:
                arg, result = op.operands[0], op.results[0]
                yield f"{self._set(op)}{CASTS[kind]} {self._typed(arg)} to {self._type(result.type)}", op
            else:
                rule = RULES.get(kind)
                if rule is None:
                    raise DiagnosticException(f"no LLVM IR for {op.name}, at {line_of(op.location)}")
                yield rule(self, op), op

    # Operands

    def _set(self, op: Operation) -> str:
        return f"{self.names[op.results[0]]} = "

    def _type(self, type_: Attribute) -> str:
        """Returns a type as text, cached by identity; the function keeps the type alive."""
        result = self.types.get(id(type_))
        if result is None:
            result = self.types[id(type_)] = type_text(type_)
        return result

    def _typed(self, value: SSAValue) -> str:
        return f"{self._type(value.type)} {self.names[value]}"

    def _binary(self, op: Operation, name: str) -> Iterator[str]:
        words = _flag_words(op)
        overflow = op.properties.get("overflowFlags")
        if isinstance(overflow, IntegerAttr):
            words += _overflow_words(cast(Any, overflow).value.data)
        left, right = op.operands
        result = self.names[op.results[0]]
        operation = f"{' '.join([name, *words])} {self._typed(left)}, {self.names[right]}"
        if not _merges_bits(op):
            yield f"{result} = {operation}"
            return
        merged = f"%merged{result[1:]}"
        yield f"{merged} = {operation}"
        yield f"{result} = freeze {self._type(left.type)} {merged}"

    def _loop(self, op: Operation) -> tuple[str, str, str] | None:
        """Returns the metadata of an op's parallel loop: its access group, parallel accesses, and loop ID."""
        number = op.attributes.get(LOOP)
        if not isinstance(number, IntegerAttr):
            return None
        key = cast("IntegerAttr[IntegerType]", number).value.data
        if key not in self.loops:
            first = 3 * len(self.loops)
            group, parallel, loop = (f"!{first + i}" for i in range(3))
            self.metadata += [
                f"{group} = distinct !{{}}",
                f'{parallel} = !{{!"llvm.loop.parallel_accesses", {group}}}',
            ]
            self.loops[key] = (group, parallel, loop)
        return self.loops[key]

    # Instructions

    def load(self, op: llvm.LoadOp) -> str:
        """Prints a load."""
        type_ = self._type(op.results[0].type)
        below = op.attributes.get(BELOW)
        known = f", !range !{{{type_} 0, {type_} {below.value.data}}}" if isinstance(below, IntegerAttr) else ""
        return f"{self._set(op)}load {type_}, {self._typed(op.operands[0])}{self._access(op)}{known}"

    def store(self, op: llvm.StoreOp) -> str:
        """Prints a store."""
        value, address = op.operands
        return f"store {self._typed(value)}, {self._typed(address)}{self._access(op)}"

    def _access(self, op: llvm.LoadOp | llvm.StoreOp) -> str:
        alignment = "" if op.alignment is None else f", align {op.alignment.value.data}"
        loop = self._loop(op)
        return alignment + ("" if loop is None else f", !llvm.access.group {loop[0]}")

    def address(self, op: llvm.GEPOp) -> str:
        """Prints an address of an element."""
        base, at = op.operands
        flag = " inbounds" if op.inbounds is not None else ""
        return f"{self._set(op)}getelementptr{flag} {self._type(op.elem_type)}, {self._typed(base)}, {self._typed(at)}"

    def branch(self, op: llvm.BrOp) -> str:
        """Prints a branch."""
        labels, branch = self._loop(op), f"br label %{self.labels[op.successor]}"
        if labels is None:
            return branch
        _, parallel, loop = labels
        masked = f", {PREDICATED}" if MASKED in op.attributes else ""
        self.metadata.append(f'{loop} = distinct !{{{loop}, {parallel}, !{{!"llvm.loop.unroll.disable"}}{masked}}}')
        return f"{branch}, !llvm.loop {loop}"

    def conditional(self, op: llvm.CondBrOp) -> str:
        """Prints a branch on a condition."""
        then, otherwise = self.labels[op.then_block], self.labels[op.else_block]
        branch = f"br i1 {self.names[op.cond]}, label %{then}, label %{otherwise}"
        count = op.attributes.get(ITERATIONS)
        if not isinstance(count, IntegerAttr):
            return branch
        return f'{branch}, !prof !{{!"branch_weights", i32 {count.value.data}, i32 1}}'

    def compare(self, op: llvm.ICmpOp | llvm.FCmpOp) -> str:
        """Prints a comparison."""
        number = op.predicate.value.data
        name = f"icmp {ICMP[number]}" if isinstance(op, llvm.ICmpOp) else f"fcmp {FCMP[number]}"
        left, right = op.operands
        return f"{self._set(op)}{name} {self._typed(left)}, {self.names[right]}"

    def select(self, op: llvm.SelectOp) -> str:
        """Prints a select."""
        return f"{self._set(op)}select {', '.join(map(self._typed, op.operands))}"

    def call(self, op: llvm.CallIntrinsicOp | llvm.CallOp) -> str:
        """Prints a call, and declares what it calls."""
        name = op.intrin.data if isinstance(op, llvm.CallIntrinsicOp) else cast(Any, op.callee).root_reference.data
        name = name.removeprefix(LIBRARY_PREFIX)
        result = self._type(op.results[0].type) if op.results else "void"
        if name not in self.declared:
            types = ", ".join(self._type(operand.type) for operand in op.operands)
            self.declared[name] = f"declare {result} @{name}({types})"
        words = " ".join(["call", *_flag_words(op), result])
        call = f"{words} @{name}({', '.join(map(self._typed, op.operands))})"
        return f"{self._set(op)}{call}" if op.results else call

    def negate(self, op: llvm.FNegOp) -> str:
        """Prints a negation."""
        return f"{self._set(op)}fneg {self._typed(op.arg)}"

    def insert(self, op: llvm.InsertElementOp) -> str:
        """Prints an insertion into a vector."""
        return f"{self._set(op)}insertelement {', '.join(map(self._typed, op.operands))}"

    def shuffle(self, op: llvm.ShuffleVectorOp) -> str:
        """Prints a shuffle."""
        left, right = op.operands
        mask = _mask_text(cast("DenseArrayBase[IntegerType]", op.mask))
        return f"{self._set(op)}shufflevector {self._typed(left)}, {self._typed(right)}, {mask}"


@lru_cache
def _overflow_words(flags: int) -> list[str]:
    return [flag.value for flag in llvm.OverflowAttr.from_int(flags).data]


@lru_cache(1024)
def _mask_text(mask: DenseArrayBase[IntegerType]) -> str:
    lanes = mask.get_values()
    return f"<{len(lanes)} x i32> <{', '.join(f'i32 {lane}' for lane in lanes)}>"


UNPRINTED = frozenset((llvm.ConstantOp, llvm.UndefOp, llvm.AddressOfOp))
"""Ops that are not instructions: their results are printed where they are used."""

RULES: Mapping[type[Operation], Callable[[FunctionPrinter, Any], str]] = {
    llvm.LoadOp: FunctionPrinter.load,
    llvm.StoreOp: FunctionPrinter.store,
    llvm.GEPOp: FunctionPrinter.address,
    llvm.BrOp: FunctionPrinter.branch,
    llvm.CondBrOp: FunctionPrinter.conditional,
    llvm.ICmpOp: FunctionPrinter.compare,
    llvm.FCmpOp: FunctionPrinter.compare,
    llvm.SelectOp: FunctionPrinter.select,
    llvm.CallIntrinsicOp: FunctionPrinter.call,
    llvm.CallOp: FunctionPrinter.call,
    llvm.FNegOp: FunctionPrinter.negate,
    llvm.InsertElementOp: FunctionPrinter.insert,
    llvm.ShuffleVectorOp: FunctionPrinter.shuffle,
    llvm.ReturnOp: lambda printer, op: "ret void",
}


def _flag_words(op: Operation) -> list[str]:
    """Returns the fast-math flags of an instruction."""
    flags = op.properties.get("fastmathFlags")
    return [flag.value for flag in cast(llvm.FastMathAttr, flags).data] if flags is not None else []


def _merges_bits(op: Operation) -> bool:
    """Returns whether an op joins bits that constant masks, or shifts there and back, select; sums do it too.

    LLVM 22 makes one instruction of AVX-512 of such a merge and a `select` between it and one of its operands, and
    computes its table of truth wrongly. What is frozen, which costs nothing, is not merged with what reads it.
    """
    return isinstance(op, BITWISE | llvm.AddOp | llvm.SubOp) and any(_is_masked(operand) for operand in op.operands)


def _is_masked(value: SSAValue) -> bool:
    op = value.owner
    if isinstance(op, SHIFTS):
        return isinstance(op.operands[0].owner, SHIFTS)
    return isinstance(op, BITWISE) and any(isinstance(operand.owner, llvm.ConstantOp) for operand in op.operands)


def emit_function(function: llvm.FuncOp) -> str:
    """Returns a function as self-contained LLVM IR.

    Raises:
        DiagnosticException: LLVM, or this printer, lacks an instruction or a type.
    """
    return "\n".join([*(line for line, _ in FunctionPrinter(function).lines()), ""])


def line_origins(function: llvm.FuncOp) -> list[tuple[Operation, ...]]:
    """Returns the op of each line of a function's text; none for lines that are not instructions."""
    return [() if op is None else (op,) for _, op in FunctionPrinter(function).lines()]


@dataclass(frozen=True)
class LlvmTarget(Target):
    """Prints each kernel function of a module as LLVM IR: `tg-opt -t llvm`."""

    name = "llvm"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        """Writes the functions, in order.

        Raises:
            DiagnosticException: There is none, or one can't be expressed in LLVM IR.
        """
        for function in functions_of(module, self.name):
            output.write(emit_function(function))


def functions_of(module: ModuleOp, target: str) -> list[llvm.FuncOp]:
    """Returns the functions of a module that have bodies.

    Raises:
        DiagnosticException: There is none; the message says what `target` prints.
    """
    ops = [op for op in module.ops if isinstance(op, llvm.FuncOp) and op.body.blocks]
    if not ops:
        raise DiagnosticException(f"the target {target} prints llvm.func ops and the module has none: lower it first")
    return ops
