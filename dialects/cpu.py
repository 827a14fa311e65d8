"""`cpu`: kernels of native code, between loops over buffers and LLVM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, cast

from xdsl.dialects.builtin import (
    I64,
    ArrayAttr,
    IndexType,
    IntegerAttr,
    MemRefType,
    StringAttr,
    SymbolNameConstraint,
    VectorType,
    f32,
    f64,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Dialect, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
)
from xdsl.irdl.constraints import AnyAttr, BaseAttr, VarConstraint
from xdsl.traits import IsolatedFromAbove, NoTerminator, Pure, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from tensorgrad.dialects.access import verify_access

PARALLEL = "cpu.parallel"
"""Marks a loop without dependences through memory: no iteration reads what another writes. It may carry a sum."""

MASKED = "cpu.masked"
"""Marks such a loop of few iterations, whose remainder a masked vector executes."""

BELOW = "cpu.below"
"""The exclusive upper bound of a loaded integer, which is not negative."""


DOT_LANES = ((4,), (8,), (16,))
"""The vectors of sums that one instruction adds products of pairs to."""


def _verify_lanes(kind: VectorType[Attribute], what: str) -> None:
    if kind.get_shape() not in DOT_LANES:
        raise VerifyException(f"there are vectors of 4, 8 and 16 {what}, got {kind}")


@irdl_op_definition
class KernelOp(IRDLOperation):
    """Runs a range of a dispatch's tasks in order, on one thread.

    The block's arguments are the flat buffers, then the first task and the end of the range. The tasks of a dispatch
    compute disjoint results, so any number of threads may run them in any order. `access` says for each buffer whether
    the kernel only reads it. There are no results and no terminator.

    Example:
        cpu.kernel @loops0 access = ["read", "read_write"] {
        ^bb0(%x: memref<1024xf32>, %y: memref<1024xf32>, %first: index, %last: index):
          %one = arith.constant 1 : index
          scf.for %i = %first to %last step %one {
            %v = memref.load %x[%i] : memref<1024xf32>
            %w = arith.addf %v, %v : f32
            memref.store %w, %y[%i] : memref<1024xf32>
          }
        }
    """

    name = "cpu.kernel"
    sym_name = prop_def(SymbolNameConstraint())
    access = prop_def(ArrayAttr.constr(AnyAttr()))
    body = region_def("single_block")

    traits = traits_def(SymbolOpInterface(), NoTerminator(), IsolatedFromAbove())

    assembly_format = "$sym_name `access` `=` $access attr-dict-with-keyword $body"

    def __init__(self, name: str, access: Sequence[str], body: Region | Block) -> None:
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "access": ArrayAttr([StringAttr(mode) for mode in access]),
            },
            regions=[Region(body) if isinstance(body, Block) else body],
        )

    @property
    def modes(self) -> tuple[str, ...]:
        """How the kernel accesses each buffer."""
        return tuple(mode.data for mode in self.access if isinstance(mode, StringAttr))

    def verify_(self) -> None:
        *buffers, first, last = self.body.block.arg_types if len(self.body.block.args) > 1 else (None, None)
        if first != IndexType() or last != IndexType():
            raise VerifyException("the last two arguments are the range of tasks, of type index")
        if len(self.modes) != len(buffers):
            raise VerifyException(f"{len(buffers)} buffers need as many access modes, got {len(self.modes)}")
        for number, type_ in enumerate(buffers):
            if not isinstance(type_, MemRefType) or len(type_.get_shape()) != 1 or min(type_.get_shape()) < 1:
                raise VerifyException(f"buffer {number} must be a static, non-empty 1-D memref, got {type_}")
        verify_access(self.body.block.args[:-2], self.modes)


@irdl_op_definition
class PrefetchOp(IRDLOperation):
    """Asks for the cache line of an element, to be near the core but not in its first cache.

    A hint, which changes no value: the index may be out of bounds.

    Example:
        cpu.prefetch %memory[%index] : memref<1024xf32>
    """

    name = "cpu.prefetch"
    memory = operand_def(MemRefType)
    index = operand_def(IndexType)

    assembly_format = "$memory `[` $index `]` attr-dict `:` type($memory)"

    def __init__(self, memory: SSAValue, index: SSAValue) -> None:
        super().__init__(operands=[memory, index])


@irdl_op_definition
class LoadLanesOp(IRDLOperation):
    """Loads `count` neighbouring elements into the lanes of a vector from lane `first` on; the others are zero.

    Example:
        %vector = cpu.load_lanes %memory[%index] first 1 count 7 : memref<1024xf32>, vector<16xf32>
    """

    name = "cpu.load_lanes"
    memory = operand_def(MemRefType)
    index = operand_def(IndexType)
    first = prop_def(IntegerAttr[I64])
    count = prop_def(IntegerAttr[I64])
    result = result_def(VectorType)

    assembly_format = (
        "$memory `[` $index `]` `first` $first `count` $count attr-dict `:` type($memory) `,` type($result)"
    )

    def __init__(
        self, memory: SSAValue, index: SSAValue, first: int, count: int, result: VectorType[Attribute]
    ) -> None:
        super().__init__(
            operands=[memory, index],
            properties={"first": IntegerAttr(first, i64), "count": IntegerAttr(count, i64)},
            result_types=[result],
        )

    @property
    def lanes(self) -> range:
        """The lanes that are loaded."""
        first, count = self.first.value.data, self.count.value.data
        return range(first, first + count)

    def verify_(self) -> None:
        kind, lanes = self.result.type, self.lanes
        if len(kind.get_shape()) != 1 or not 0 <= lanes.start < lanes.stop <= kind.element_count():
            raise VerifyException(f"there are no {len(lanes)} lanes from {lanes.start} on in {kind}")
        element = cast("MemRefType[Attribute]", self.memory.type).element_type
        if element != kind.element_type:
            raise VerifyException(f"the elements are {element}, those of the vector {kind.element_type}")
        if element not in (f32, f64):
            raise VerifyException(f"lanes are loaded of f32 and f64, got {element}")


@irdl_op_definition
class PairOp(IRDLOperation):
    """Rounds two numbers to bf16, to nearest and ties to even, and puts them into one word, the first in its low half.

    Subnormal numbers may become zero, which `cpu.dot_pairs` takes them for.

    Example:
        %word = cpu.pair %low, %high
    """

    name = "cpu.pair"
    low = operand_def(f32)
    high = operand_def(f32)
    word = result_def(i32)

    traits = traits_def(Pure())

    assembly_format = "$low `,` $high attr-dict"

    def __init__(self, low: SSAValue, high: SSAValue) -> None:
        super().__init__(operands=[low, high], result_types=[i32])


@irdl_op_definition
class PairNeighboursOp(IRDLOperation):
    """Rounds neighbouring numbers to bf16 as `cpu.pair` does: word `i` has the numbers `2 i` and `2 i + 1` of both.

    Example:
        %words = cpu.pair_neighbours %first, %second : vector<16xf32>, vector<16xi32>
    """

    name = "cpu.pair_neighbours"
    NUMBERS: ClassVar = VarConstraint("Numbers", BaseAttr(VectorType))
    WORDS: ClassVar = VarConstraint("Words", BaseAttr(VectorType))
    first = operand_def(NUMBERS)
    second = operand_def(NUMBERS)
    words = result_def(WORDS)

    traits = traits_def(Pure())

    assembly_format = "$first `,` $second attr-dict `:` type($first) `,` type($words)"

    def __init__(self, first: SSAValue, second: SSAValue) -> None:
        lanes = cast("VectorType[Attribute]", first.type).get_shape()
        super().__init__(operands=[first, second], result_types=[VectorType(i32, lanes)])

    def verify_(self) -> None:
        lanes = self.words.type.get_shape()
        if self.words.type != VectorType(i32, lanes) or self.first.type != VectorType(f32, lanes):
            raise VerifyException(f"expected vectors of f32 and of as many i32, got {self.first.type}")
        _verify_lanes(self.words.type, "words")


@irdl_op_definition
class DotPairsOp(IRDLOperation):
    """Adds to each sum the two products of the numbers in bf16 that two words hold, as AVX512-BF16's `vdpbf16ps`.

    The product of the high halves is added first. Numbers and sums that are subnormal count as zero.

    Example:
        %sums = cpu.dot_pairs %before, %x, %y : vector<16xf32>, vector<16xi32>
    """

    name = "cpu.dot_pairs"
    SUMS: ClassVar = VarConstraint("Sums", BaseAttr(VectorType))
    WORDS: ClassVar = VarConstraint("Words", BaseAttr(VectorType))
    sums = operand_def(SUMS)
    lhs = operand_def(WORDS)
    rhs = operand_def(WORDS)
    result = result_def(SUMS)

    traits = traits_def(Pure())

    assembly_format = "$sums `,` $lhs `,` $rhs attr-dict `:` type($result) `,` type($lhs)"

    def __init__(self, sums: SSAValue, lhs: SSAValue, rhs: SSAValue) -> None:
        super().__init__(operands=[sums, lhs, rhs], result_types=[sums.type])

    def verify_(self) -> None:
        lanes = self.result.type.get_shape()
        for value, element in ((self.sums, f32), (self.result, f32), (self.lhs, i32), (self.rhs, i32)):
            if value.type != VectorType(element, lanes):
                raise VerifyException(f"expected a vector of {lanes[0]} of {element}, got {value.type}")
        _verify_lanes(self.result.type, "sums")


Cpu = Dialect("cpu", [KernelOp, PrefetchOp, LoadLanesOp, PairOp, PairNeighboursOp, DotPairsOp], [])
