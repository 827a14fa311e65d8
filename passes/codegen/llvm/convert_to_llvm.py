"""The pass `convert-to-llvm`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

from xdsl.context import Context
from xdsl.dialects import llvm, memref, scf, vector
from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    SymbolRefAttr,
    TensorType,
    UnitAttr,
    VectorType,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.utils.exceptions import DiagnosticException

from tensorgrad.dialects import cpu
from tensorgrad.dialects.buf import buffer_bytes, element_bytes, element_of
from tensorgrad.dialects.locations import line_of
from tensorgrad.dialects.tg.base import short_ints
from tensorgrad.passes.analyses.blocks import rounded_up
from tensorgrad.passes.analyses.machine import LINE_BYTES
from tensorgrad.passes.analyses.trips import is_exact, most_trips
from tensorgrad.passes.codegen.llvm.convert_addresses import Indices
from tensorgrad.passes.codegen.llvm.convert_scalars import (
    NO_WRAP,
    POINTER,
    RULES,
    SEGMENTS,
    WRAPS,
    Builder,
    Properties,
    integer_attribute,
)
from tensorgrad.passes.levels import NATIVE_KERNELS, LevelPass
from tensorgrad.runtime.program import fault_name
from tensorgrad.runtime.target import CPU, Target

ACCESS, SCRATCH, LOOP, ITERATIONS = "cpu.access", "cpu.scratch", "cpu.loop", "cpu.iterations"
"""Attributes of a function: its access to each buffer, and the size in bytes of its scratch memory. `LOOP` marks the
back edge of a parallel loop, and the accesses in it, with the loop's number; `ITERATIONS` the branch into a loop of few
iterations, with the most there are."""

FEW_ITERATIONS = 32
"""The iterations that LLVM assumes of a loop if it isn't told. Inside of one more loop, however short, the constants of
an epilogue would take registers from a product's loop. Of parallel loops it is told exact numbers alone: for an upper
bound it may give all vectors a mask."""

FAULT = llvm.LLVMArrayType(2, i64)
"""The fault record of bounds checks: see `fault_name`."""

ALIGNED_WORD: Properties = {"ordering": integer_attribute(0, i64), "alignment": integer_attribute(8, i64)}


@dataclass(frozen=True)
class ConvertToLlvmPass(LevelPass):
    """Converts each `cpu.kernel` to an `llvm.func` of its buffers' addresses, scratch memory, and a range of tasks.

    Expects code after `expand-math`. Guarantees functions of branches and scalar or vector instructions. An i1 in
    memory is a 32-bit word; a bf16 is the integer of its bits. Arrays local to a kernel are allocated in scratch
    memory, whose size is the attribute `cpu.scratch`; functions of f64 are calls to the C library. Constants are
    materialized once, in the entry block. If the target has `check_bounds`, an out-of-bounds index is recorded in the
    kernel's `.fault`, and element 0 is accessed instead.

    Attributes:
        target: The target CPU.
    """

    name = "convert-to-llvm"
    levels = NATIVE_KERNELS

    target: Target = CPU

    def rewrite(self, ctx: Context, op: ModuleOp) -> None:
        declared: dict[str, llvm.FuncOp] = {}
        for kernel in list(op.ops):
            if isinstance(kernel, cpu.KernelOp):
                converted = _Function(kernel, declared, self.target.check_bounds).convert()
                if self.target.check_bounds:
                    op.body.block.insert_op_before(_fault_of(kernel), kernel)
                op.body.block.insert_op_before(converted, kernel)
                kernel.detach()
        first = op.body.block.first_op
        for function in declared.values():
            if first is not None:
                op.body.block.insert_op_before(function, first)


@lru_cache
def _aligned(element: Attribute) -> Properties:
    size = 4 if element == i1 else max(getattr(element, "bitwidth", 32) // 8, 1)
    return {"ordering": integer_attribute(0, i64), "alignment": integer_attribute(size, i64)}


def _fault_of(kernel: cpu.KernelOp) -> llvm.GlobalOp:
    zeros = DenseIntOrFPElementsAttr.from_list(TensorType(i64, [2]), [0, 0])
    op = llvm.GlobalOp(FAULT, fault_name(kernel.sym_name.data), "external", value=zeros)
    op.location = kernel.location
    return op


class _Function(Builder):
    """Converts one kernel."""

    def __init__(self, kernel: cpu.KernelOp, declared: dict[str, llvm.FuncOp], check_bounds: bool):
        buffers = len(kernel.body.block.args) - 2
        super().__init__(Block(arg_types=[*[llvm.LLVMPointerType()] * (buffers + 1), i64, i64]), declared)
        self.kernel = kernel
        self.check_bounds = check_bounds
        self.region = Region(self.block)
        *bound, self.scratch, first, last = self.block.args
        for old, new in zip(kernel.body.block.args, (*bound, first, last), strict=True):
            self.env[old] = new
        self.indices = Indices(kernel.body.block)
        self.addresses: dict[tuple[SSAValue, tuple[SSAValue, ...] | int], SSAValue] = {}
        self.scratch_bytes = 0
        self.loops: list[int] = []
        self.loop_count = 0

    def convert(self) -> llvm.FuncOp:
        """Returns the function."""
        for op in self.kernel.body.block.ops:
            self._convert(op)
        self.add(llvm.ReturnOp())
        types = [argument.type for argument in self.entry.args]
        func_op = llvm.FuncOp(
            self.kernel.sym_name.data,
            llvm.LLVMFunctionType(types),
            linkage=llvm.LinkageAttr("external"),
            body=self.region,
            other_props={"arg_attrs": self._argument_attributes(len(types))},
            extra_attrs={ACCESS: self.kernel.access, SCRATCH: IntegerAttr(self.scratch_bytes, i64)},
        )
        func_op.location = self.kernel.location
        return func_op

    @staticmethod
    def _argument_attributes(count: int) -> ArrayAttr[DictionaryAttr]:
        """Scratch memory is `noalias`; buffers may alias, since kernels may work in place."""
        none, alone = DictionaryAttr({}), DictionaryAttr({"llvm.noalias": UnitAttr()})
        return ArrayAttr([*[none] * (count - 3), alone, none, none])

    def _convert(self, op: Operation) -> None:
        if not self.check_bounds and self.indices.is_unneeded(op):
            return
        self.location = op.location
        rule = RULES.get(type(op))
        if rule is not None:
            self.env[op.results[0]] = rule(self, op, [self.env[operand] for operand in op.operands])
            return
        match op:
            case memref.LoadOp():
                self.env[op.res] = self._load(op.memref, op.indices, op.res.type, op.attributes.get(cpu.BELOW))
            case memref.StoreOp():
                self._store(op.value, op.memref, op.indices)
            case vector.LoadOp():
                self.env[op.result] = self._load(op.base, op.indices, op.result.type)
            case vector.StoreOp():
                self._store(op.vector, op.base, op.indices)
            case cpu.LoadLanesOp():
                self.env[op.result] = self._load_lanes(op)
            case cpu.PrefetchOp():
                self._prefetch(op)
            case scf.ForOp():
                self._for(op)
            case scf.IfOp():
                self._if(op)
            case memref.AllocaOp():
                self.env[op.memref] = self._alloca(op)
            case _:
                raise DiagnosticException(f"convert-to-llvm has no rule for {op.name}, at {line_of(op.location)}")

    # Memory

    def _alloca(self, op: memref.AllocaOp) -> SSAValue:
        kind = op.memref.type
        assert isinstance(kind, MemRefType)
        offset = self.offset(self.scratch, self.number(self.scratch_bytes), IntegerAttr(0, 8).type)
        self.scratch_bytes += rounded_up(buffer_bytes(kind), LINE_BYTES)
        return offset

    def _address(self, memory: SSAValue, indices: Sequence[SSAValue], type_: Attribute) -> SSAValue:
        element = element_of(memory)
        stored = i32 if element == i1 else self.type_of(element)
        if not indices:
            return self.env[memory]
        (at,) = indices
        if self.check_bounds:
            lanes = cast("VectorType[Attribute]", type_).element_count() if isinstance(type_, VectorType) else 1
            return self.offset(self.env[memory], self._checked(memory, self.env[at], lanes), stored)
        index, address = self.indices.of(at), self.env[memory]
        if not index.is_split:
            return self.offset(address, self.env[at], stored)
        for terms in index.groups:
            address = self._moved(address, terms, stored)
        return address if index.constant == 0 else self._moved(address, index.constant, stored)

    def _moved(self, address: SSAValue, terms: tuple[SSAValue, ...] | int, stored: Attribute) -> SSAValue:
        """Returns an address offset by a sum or a constant; the value is reused within a block."""
        result = self.addresses.get((address, terms))
        if result is None:
            if isinstance(terms, int):
                total = self.number(terms)
            else:
                total = self.env[terms[0]]
                for term in terms[1:]:
                    total = self.make(llvm.AddOp, (total, self.env[term]), total.type, WRAPS)
            result = self.addresses[address, terms] = self.offset(address, total, stored, inbounds=False)
        return result

    def _checked(self, memory: SSAValue, at: SSAValue, lanes: int) -> SSAValue:
        """Returns an index, or 0 if `lanes` elements from it are not all in bounds, which is recorded."""
        kind = memory.type
        assert isinstance(kind, MemRefType)
        extent = cast("MemRefType[Attribute]", kind).element_count()
        outside, inside = Block(), Block(arg_types=[i64])
        self._choose(self.compare("uge", at, self.number(max(extent - lanes + 1, 0))), outside, inside, [at])
        self._enter(outside)
        properties = {"global_name": SymbolRefAttr(fault_name(self.kernel.sym_name.data))}
        fault = self.make(llvm.AddressOfOp, (), POINTER, properties)
        for place, value in enumerate((at, self.number(extent))):
            operands = (value, self.offset(fault, self.number(place), i64))
            self.add(llvm.StoreOp.create(operands=operands, properties=ALIGNED_WORD))
        self._branch(inside, [self.number(0)])
        self._enter(inside)
        return inside.args[0]

    def _load(
        self, memory: SSAValue, indices: Sequence[SSAValue], type_: Attribute, below: Attribute | None = None
    ) -> SSAValue:
        stored = i32 if type_ == i1 else self.type_of(type_)
        operands = (self._address(memory, indices, type_),)
        op = llvm.LoadOp.create(operands=operands, result_types=(stored,), properties=self._access(memory))
        self._mark(op)
        if below is not None:
            op.attributes[cpu.BELOW] = below
        loaded = self.add(op)
        return loaded if type_ != i1 else self.compare("ne", loaded, self.integer(0, i32))

    def _load_lanes(self, op: cpu.LoadLanesOp) -> SSAValue:
        kind, lanes = cast("VectorType[AnyFloat]", op.result.type), op.lanes
        element, count = self.type_of(kind.element_type), kind.element_count()
        loaded = VectorType(kind.element_type, [len(lanes)])
        address = self._address(op.memory, [op.index], loaded)
        address = self.offset(address, self.number(-lanes.start), element, inbounds=False)
        size = self.integer(element_bytes(kind.element_type), i32)
        masks = VectorType(i1, [count])
        mask = self.constant(DenseIntOrFPElementsAttr.from_list(masks, [lane in lanes for lane in range(count)]), masks)
        name = f"llvm.masked.load.v{count}{element}.p0"
        zeros = self.constant(DenseIntOrFPElementsAttr.from_list(kind, [0.0] * count), kind)
        return self.intrinsic(name, (address, size, mask, zeros), kind)

    def _store(self, value: SSAValue, memory: SSAValue, indices: Sequence[SSAValue]) -> None:
        stored = self.env[value]
        if stored.type == i1:
            stored = self.cast(llvm.ZExtOp, stored, i32)
        operands = (stored, self._address(memory, indices, stored.type))
        op = llvm.StoreOp.create(operands=operands, properties=self._access(memory))
        self._mark(op)
        self.add(op)

    def _prefetch(self, op: cpu.PrefetchOp) -> None:
        stored = self.type_of(element_of(op.memory))
        address = self.offset(self.env[op.memory], self.env[op.index], stored, inbounds=False)
        read, near, data = (self.integer(number, i32) for number in (0, 2, 1))
        self.call("llvm.prefetch.p0", (address, read, near, data))

    def _access(self, memory: SSAValue) -> Properties:
        """Returns the properties of an access; elements are naturally aligned."""
        return _aligned(element_of(memory))

    def _mark(self, op: Operation) -> None:
        """Marks an access as belonging to its enclosing parallel loops."""
        if self.loops:
            op.attributes[LOOP] = IntegerAttr(self.loops[-1], i64)

    # Control flow

    def _branch(self, block: Block, values: Sequence[SSAValue]) -> llvm.BrOp:
        op = llvm.BrOp.create(operands=values, successors=(block,))
        self.add(op)
        return op

    def _choose(
        self, condition: SSAValue, then: Block, otherwise: Block, values: Sequence[SSAValue] = ()
    ) -> llvm.CondBrOp:
        """Emits a conditional branch; `values` are passed to `otherwise`."""
        sizes = {SEGMENTS: short_ints([1, 0, len(values)])}
        op = llvm.CondBrOp.create(operands=(condition, *values), successors=(then, otherwise), properties=sizes)
        self.add(op)
        return op

    def _enter(self, block: Block) -> None:
        self.region.add_block(block)
        self.block = block
        self.addresses = {}

    def _body(self, block: Block) -> list[SSAValue]:
        """Converts the ops of a block; returns the values it yields."""
        for op in block.ops:
            if isinstance(op, scf.YieldOp):
                return [self.env[operand] for operand in op.operands]
            self._convert(op)
        return []

    def _for(self, op: scf.ForOp) -> None:
        start, stop, step = self.env[op.lb], self.env[op.ub], self.env[op.step]
        carried = [self.env[value] for value in op.iter_args]
        types = [value.type for value in carried]
        header, inside, after = Block(arg_types=[i64, *types]), Block(), Block(arg_types=types)
        is_parallel = cpu.PARALLEL in op.attributes
        self._branch(header, [start, *carried])
        self._enter(header)
        below = self.compare("slt", header.args[0], stop)
        entry = self._choose(below, inside, after, header.args[1:])
        if (most := most_trips(op)) < FEW_ITERATIONS and (not is_parallel or is_exact(op)):
            entry.attributes[ITERATIONS] = IntegerAttr(most, i64)
        self._enter(inside)
        self.env.update(zip(op.body.block.args, header.args, strict=True))
        if is_parallel:
            self.loops.append(self.loop_count)
            self.loop_count += 1
        yielded = self._body(op.body.block)
        following = self.make(llvm.AddOp, (header.args[0], step), i64, NO_WRAP)
        back = self._branch(header, [following, *yielded])
        if is_parallel:
            back.attributes[LOOP] = IntegerAttr(self.loops.pop(), i64)
            if cpu.MASKED in op.attributes:
                back.attributes[cpu.MASKED] = UnitAttr()
        self._enter(after)
        self.env.update(zip(op.results, after.args, strict=True))

    def _if(self, op: scf.IfOp) -> None:
        first, second, after = Block(), Block(), Block(arg_types=[self.type_of(result.type) for result in op.results])
        self._choose(self.env[op.cond], first, second)
        for block, region in ((first, op.true_region), (second, op.false_region)):
            self._enter(block)
            self._branch(after, self._body(region.block) if region.blocks else [])
        self._enter(after)
        self.env.update(zip(op.results, after.args, strict=True))
