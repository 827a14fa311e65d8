"""The `wgsl` dialect: kernels around upstream `scf`, `arith`, `math` and `memref`.

A kernel is a compute entry point. Its storage bindings are 1-D memrefs with linear indices. The concepts of WebGPU
(builtins, workgroup memory, barriers, subgroups) are ops of this dialect.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from functools import lru_cache
from typing import ClassVar, cast

from xdsl.dialects.builtin import (
    I64,
    ArrayAttr,
    BoolAttr,
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    MemRefType,
    NoneAttr,
    StringAttr,
    SymbolNameConstraint,
    VectorType,
    f16,
    f32,
    f64,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Dialect, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    VarConstraint,
    eq,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import HasParent, IsolatedFromAbove, MemoryAllocEffect, NoTerminator, Pure, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from tensorgrad.dialects.access import verify_access

Memref = MemRefType[Attribute]

VECTOR = VectorType(f32, [4])
ELEMENT_TYPES: tuple[Attribute, ...] = (f32, f16, i32, i64, i1, VECTOR)
"""The element types of buffers; an i1 takes one 32-bit word."""


def verify_buffer(type_: Attribute, what: str) -> None:
    """Raises a `VerifyException` unless `type_` is a static, non-empty 1-D memref of a WGSL element type."""
    if not isinstance(type_, MemRefType):
        raise VerifyException(f"{what} must be a memref, got {type_}")
    buffer = cast(Memref, type_)
    shape = buffer.get_shape()
    if len(shape) != 1 or shape[0] < 1:
        raise VerifyException(f"{what} must be a static, non-empty 1-D memref, got {buffer}")
    if not isinstance(buffer.layout, NoneAttr) or not isinstance(buffer.memory_space, NoneAttr):
        raise VerifyException(f"{what} must have no layout and no memory space, got {buffer}")
    if buffer.element_type not in ELEMENT_TYPES:
        allowed = ", ".join(map(str, ELEMENT_TYPES))
        raise VerifyException(f"{what} must hold one of {allowed}, got {buffer.element_type}")


@irdl_op_definition
class KernelOp(IRDLOperation):
    """A compute entry point, which each invocation of a dispatch executes.

    The block's arguments are the storage bindings in order, and `access` says for each whether the kernel only reads
    it. There are no results and no terminator. The body may be empty. Declarative assembly formats have no block then,
    so this op has a custom parser.

    ```mlir
    wgsl.kernel @double workgroup_size = [64, 1, 1] access = ["read", "read_write"] {
    ^bb0(%x: memref<1024xf32>, %y: memref<1024xf32>):
      %i = wgsl.global_id dim = 0
      %v = memref.load %x[%i] : memref<1024xf32>
      %w = arith.addf %v, %v : f32
      memref.store %w, %y[%i] : memref<1024xf32>
    }
    ```
    """

    name = "wgsl.kernel"
    sym_name = prop_def(SymbolNameConstraint())
    workgroup_size = prop_def(DenseArrayBase[I64])
    access = prop_def(ArrayAttr[StringAttr])
    body = region_def("single_block")

    traits = traits_def(SymbolOpInterface(), NoTerminator(), IsolatedFromAbove())

    def __init__(self, name: str, workgroup_size: Sequence[int], access: Sequence[str], body: Region | Block) -> None:
        """Initializes a kernel with `workgroup_size` invocations (x, y, z) per workgroup, and `access` per binding."""
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "workgroup_size": DenseArrayBase.from_list(i64, list(workgroup_size)),
                "access": ArrayAttr([StringAttr(mode) for mode in access]),
            },
            regions=[Region(body) if isinstance(body, Block) else body],
        )

    def verify_(self) -> None:
        """Raises a `VerifyException` that says what is wrong."""
        size = self.workgroup_size.get_values()
        if len(size) != 3 or any(extent < 1 for extent in size):
            raise VerifyException(f"workgroup_size must be three positive extents, got {list(size)}")
        bindings = self.body.block.args
        if len(self.access) != len(bindings):
            raise VerifyException(f"{len(bindings)} bindings need as many access modes, got {len(self.access)}")
        for number, binding in enumerate(bindings):
            verify_buffer(binding.type, f"binding {number}")
        verify_access(bindings, [mode.data for mode in self.access])
        self._verify_returns()

    def _verify_returns(self) -> None:
        returns = False
        for op in self.walk():
            returns = returns or isinstance(op, ReturnIfOp)
            if returns and isinstance(op, BarrierOp | SubgroupOp):
                raise VerifyException(f"{op.name} after wgsl.return_if: not every invocation would reach it")

    @classmethod
    def parse(cls, parser: Parser) -> KernelOp:
        """Parses the custom form, after the op's name."""
        name = parser.parse_symbol_name()
        parser.parse_keyword("workgroup_size")
        parser.parse_punctuation("=")
        size = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
        parser.parse_keyword("access")
        parser.parse_punctuation("=")
        access = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_str_literal)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        body = parser.parse_region()
        if not body.blocks:
            body.add_block(Block())
        op = cls(name.data, size, access, body)
        if attributes is not None:
            op.attributes |= attributes.data
        return op

    def print(self, printer: Printer) -> None:
        """Prints the custom form, after the op's name."""
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        printer.print_string(" workgroup_size = ")
        with printer.in_square_brackets():
            printer.print_list(self.workgroup_size.get_values(), lambda extent: printer.print_string(str(extent)))
        printer.print_string(" access = ")
        with printer.in_square_brackets():
            printer.print_list(self.access, lambda mode: printer.print_string_literal(mode.data))
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body, print_empty_block=False)


class DimensionBuiltin(IRDLOperation, ABC):
    """A component of a builtin vector of three."""

    dim = prop_def(IntegerAttr[I64])
    result = result_def(IndexType())
    traits = traits_def(Pure())

    assembly_format = "`dim` `=` $dim attr-dict"

    def __init__(self, dim: int) -> None:
        super().__init__(result_types=[IndexType()], properties={"dim": IntegerAttr(dim, i64)})

    def verify_(self) -> None:
        """Raises a `VerifyException` that says what is wrong."""
        if self.dim.value.data not in (0, 1, 2):
            raise VerifyException(f"dim must be 0, 1 or 2, got {self.dim.value.data}")


@irdl_op_definition
class WorkgroupIdOp(DimensionBuiltin):
    """The index of the workgroup in the dispatch: `%g = wgsl.workgroup_id dim = 0`."""

    name = "wgsl.workgroup_id"


@irdl_op_definition
class NumWorkgroupsOp(DimensionBuiltin):
    """The number of workgroups of the dispatch: `%n = wgsl.num_workgroups dim = 0`."""

    name = "wgsl.num_workgroups"


@irdl_op_definition
class LocalIdOp(DimensionBuiltin):
    """The index of the invocation in its workgroup, per dimension: `%x = wgsl.local_id dim = 0`."""

    name = "wgsl.local_id"


@irdl_op_definition
class GlobalIdOp(DimensionBuiltin):
    """`workgroup_id * workgroup_size + local_id`: `%i = wgsl.global_id dim = 0`."""

    name = "wgsl.global_id"


class ScalarBuiltin(IRDLOperation, ABC):
    """A scalar builtin."""

    result = result_def(IndexType())
    traits = traits_def(Pure())

    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__(result_types=[IndexType()])


@irdl_op_definition
class LocalIndexOp(ScalarBuiltin):
    """The linear index of the invocation in its workgroup, x fastest: `%t = wgsl.local_index`."""

    name = "wgsl.local_index"


@irdl_op_definition
class SubgroupLaneOp(ScalarBuiltin):
    """The index of the invocation in its subgroup: `%lane = wgsl.subgroup_lane`."""

    name = "wgsl.subgroup_lane"


@irdl_op_definition
class SubgroupSizeOp(ScalarBuiltin):
    """The number of invocations of the subgroup: `%size = wgsl.subgroup_size`."""

    name = "wgsl.subgroup_size"


@irdl_op_definition
class WorkgroupAllocOp(IRDLOperation):
    """Allocates an array that the invocations of a workgroup share; it is zero when the workgroup starts.

    It lives as long as the workgroup, so the op must be at the kernel's top level. An invocation may read what another
    wrote only after a `wgsl.barrier`.

    ```mlir
    %tile = wgsl.workgroup_alloc : memref<256xf32>
    ```
    """

    name = "wgsl.workgroup_alloc"
    memref = result_def(MemRefType)
    traits = traits_def(MemoryAllocEffect(), HasParent(KernelOp))

    assembly_format = "attr-dict `:` type($memref)"

    def __init__(self, memref_type: Memref) -> None:
        super().__init__(result_types=[memref_type])

    def verify_(self) -> None:
        """Raises a `VerifyException` that says what is wrong."""
        verify_buffer(self.memref.type, "workgroup memory")


@irdl_op_definition
class BarrierOp(IRDLOperation):
    """Waits for every invocation of the workgroup, and makes their writes visible: `wgsl.barrier`.

    Control flow must be uniform at a barrier. Its effects are unknown on purpose, so that nothing moves across it.
    With `storage`, writes to storage buffers become visible too, within the workgroup.

    ```mlir
    wgsl.barrier
    wgsl.barrier {storage = true}
    ```
    """

    name = "wgsl.barrier"
    storage = opt_prop_def(BoolAttr)

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "attr-dict"

    def __init__(self, storage: bool = False) -> None:
        super().__init__(properties={"storage": BoolAttr.from_bool(True)} if storage else {})


class SubgroupOp(IRDLOperation, ABC):
    """An op across the invocations of a subgroup, where control flow must be uniform.

    Its effects are unknown on purpose: moving it under a condition would change which invocations take part.
    """

    T: ClassVar = VarConstraint("T", eq(f32) | eq(f16) | eq(i32) | eq(VECTOR) | eq(IndexType()))
    value = operand_def(T)
    result = result_def(T)

    def __init__(self, value: SSAValue | Operation, **properties: Attribute) -> None:
        source = SSAValue.get(value)
        # Kernels contain many of these ops; this takes a third of the time of the constructor that xDSL generates.
        Operation.__init__(self, operands=[source], result_types=[source.type], properties=properties)


@irdl_op_definition
class SubgroupBroadcastOp(SubgroupOp):
    """The value of invocation `lane` of the subgroup; `lane` is a constant less than the subgroup's size.

    ```mlir
    %a = wgsl.subgroup_broadcast %v, 3 : f32
    ```
    """

    name = "wgsl.subgroup_broadcast"
    lane = prop_def(IntegerAttr[I64])

    assembly_format = "$value `,` $lane attr-dict `:` type($value)"

    def __init__(self, value: SSAValue | Operation, lane: int) -> None:
        super().__init__(value, lane=_number(lane))

    def verify_(self) -> None:
        """Raises a `VerifyException` that says what is wrong."""
        if not 0 <= self.lane.value.data < 128:
            raise VerifyException(f"lane must be in [0, 128), got {self.lane.value.data}")


@lru_cache
def _number(number: int) -> IntegerAttr[I64]:
    return IntegerAttr(number, i64)


@irdl_op_definition
class SubgroupShuffleXorOp(SubgroupOp):
    """The value of the invocation of the subgroup whose number differs in the bits of `mask`, a constant.

    ```mlir
    %a = wgsl.subgroup_shuffle_xor %v, 16 : f32
    ```
    """

    name = "wgsl.subgroup_shuffle_xor"
    mask = prop_def(IntegerAttr[I64])

    assembly_format = "$value `,` $mask attr-dict `:` type($value)"

    def __init__(self, value: SSAValue | Operation, mask: int) -> None:
        super().__init__(value, mask=_number(mask))

    def verify_(self) -> None:
        """Raises a `VerifyException` that says what is wrong."""
        if not 0 < self.mask.value.data < 128:
            raise VerifyException(f"mask must be in [1, 128), got {self.mask.value.data}")


SUBGROUP_REDUCTIONS = ("add", "max", "min")


@irdl_op_definition
class SubgroupReduceOp(SubgroupOp):
    """The sum, maximum or minimum over the active invocations of the subgroup, which all of them receive.

    The effect of a NaN on `max` and `min` depends on the device.

    ```mlir
    %s = wgsl.subgroup_reduce "add" %v : f32
    ```
    """

    name = "wgsl.subgroup_reduce"
    kind = prop_def(StringAttr)

    assembly_format = "$kind $value attr-dict `:` type($value)"

    def __init__(self, kind: str, value: SSAValue | Operation) -> None:
        super().__init__(value, kind=StringAttr(kind))

    def verify_(self) -> None:
        """Raises a `VerifyException` that says what is wrong."""
        if self.kind.data not in SUBGROUP_REDUCTIONS:
            raise VerifyException(f'kind must be "add", "max" or "min", got "{self.kind.data}"')


@irdl_op_definition
class JoinOp(IRDLOperation):
    """A vector of four values: upstream's `vector.from_elements`, which xDSL lacks.

    ```mlir
    %v = wgsl.join %a, %b, %c, %d
    ```
    """

    name = "wgsl.join"
    values = var_operand_def(eq(f32))
    result = result_def(eq(VECTOR))
    traits = traits_def(Pure())

    assembly_format = "$values attr-dict"

    def __init__(self, values: Sequence[SSAValue]) -> None:
        super().__init__(operands=[list(values)], result_types=[VECTOR])

    def verify_(self) -> None:
        """Raises a `VerifyException` that says what is wrong."""
        if len(self.values) != 4:
            raise VerifyException(f"a vector has 4 elements, got {len(self.values)}")


@irdl_op_definition
class RemFOp(IRDLOperation):
    """C's `fmod`, exact: the remainder of the division that rounds toward zero, with the dividend's sign.

    It is upstream's `arith.remf`, which xDSL lacks. `buf` uses it too; only there may it be on f64. The remainder by
    zero, and of an infinity, is NaN.

    ```mlir
    %r = wgsl.remf %a, %b : f32
    ```
    """

    name = "wgsl.remf"
    T: ClassVar = VarConstraint("T", eq(f32) | eq(f16) | eq(f64))
    lhs = operand_def(T)
    rhs = operand_def(T)
    result = result_def(T)
    traits = traits_def(Pure())

    assembly_format = "$lhs `,` $rhs attr-dict `:` type($lhs)"

    def __init__(self, lhs: SSAValue | Operation, rhs: SSAValue | Operation) -> None:
        super().__init__(operands=[lhs, rhs], result_types=[SSAValue.get(lhs).type])


@irdl_op_definition
class ReturnIfOp(IRDLOperation):
    """Ends the invocation if the condition holds: `wgsl.return_if %outside`.

    It must be at the kernel's top level, and no barrier or subgroup op may follow it, since invocations that returned
    would not take part.
    """

    name = "wgsl.return_if"
    condition = operand_def(i1)
    traits = traits_def(HasParent(KernelOp))

    assembly_format = "$condition attr-dict"

    def __init__(self, condition: SSAValue | Operation) -> None:
        super().__init__(operands=[condition])


Wgsl = Dialect(
    "wgsl",
    [
        KernelOp,
        WorkgroupIdOp,
        NumWorkgroupsOp,
        LocalIdOp,
        GlobalIdOp,
        LocalIndexOp,
        SubgroupLaneOp,
        SubgroupSizeOp,
        WorkgroupAllocOp,
        BarrierOp,
        SubgroupBroadcastOp,
        SubgroupReduceOp,
        SubgroupShuffleXorOp,
        JoinOp,
        RemFOp,
        ReturnIfOp,
    ],
    [],
)
