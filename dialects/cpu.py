"""`cpu`: kernels of native code, between loops over buffers and LLVM."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, IndexType, MemRefType, StringAttr, SymbolNameConstraint
from xdsl.ir import Block, Dialect, Region
from xdsl.irdl import IRDLOperation, irdl_op_definition, prop_def, region_def, traits_def
from xdsl.irdl.constraints import AnyAttr
from xdsl.traits import IsolatedFromAbove, NoTerminator, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

PARALLEL = "cpu.parallel"
"""Marks a loop without dependences between iterations: none reads what another writes."""

MASKED = "cpu.masked"
"""Marks such a loop of few iterations, whose remainder a masked vector executes."""

BELOW = "cpu.below"
"""The exclusive upper bound of a loaded integer, which is not negative."""

ACCESS_MODES = ("read", "read_write")


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
        for number, (type_, mode) in enumerate(zip(buffers, self.modes, strict=True)):
            if not isinstance(type_, MemRefType) or len(type_.get_shape()) != 1 or min(type_.get_shape()) < 1:
                raise VerifyException(f"buffer {number} must be a static, non-empty 1-D memref, got {type_}")
            if mode not in ACCESS_MODES:
                raise VerifyException(f'access must be "read" or "read_write", got "{mode}"')


Cpu = Dialect("cpu", [KernelOp], [])
