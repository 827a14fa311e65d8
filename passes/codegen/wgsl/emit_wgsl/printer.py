"""Prints statements: decides which values are named, and assembles a kernel's text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from io import StringIO
from typing import Any, Protocol, cast

from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import f16, i1, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.utils.base_printer import BasePrinter

from tensorgrad.dialects import wgsl
from tensorgrad.passes.analyses.walking import operations
from tensorgrad.passes.codegen.wgsl.emit_wgsl.expressions import ENTRY_PARAMETERS, RULES, constant
from tensorgrad.passes.codegen.wgsl.emit_wgsl.helpers import HELPERS, with_dependencies
from tensorgrad.passes.codegen.wgsl.emit_wgsl.text import (
    STORED_TYPES,
    VALUE_TYPES,
    EmitError,
    Expression,
    call,
    element,
    infix,
    unsigned_literal,
)

WIDTH = 72
"""Longer expressions are named."""

SUBGROUP_OPS = (wgsl.SubgroupOp, wgsl.SubgroupLaneOp, wgsl.SubgroupSizeOp)
HELPER_CALL = re.compile(r"\btg_\w+(?=\()")
IDENTIFIER = re.compile(r"(?!tg_)[A-Za-z][A-Za-z0-9_]*")
GENERATED = re.compile(r"[bvw][0-9]+")

# The standard's keywords, and those reserved words that might be used as a kernel's name.
_KEYWORDS = """
alias break case const const_assert continue continuing default diagnostic discard else enable false fn
for if let loop override requires return struct switch true var while abstract active as async attribute
auto await become box catch class co_await co_return co_yield common compile concept constexpr crate
debugger decltype delete demote do dynamic_cast enum explicit export extends extern external filter
final finally friend from get goto groupshared highp impl implements import inline instanceof interface
layout lowp macro match mediump meta mod module move mut mutable namespace new nil noexcept noinline
null of operator package packoffset partial pass patch pixelfragment precise precision private protected
pub public readonly ref register resource restrict self set shared sizeof smooth snorm static std
subroutine super target template this throw trait try type typedef typeid typename typeof union unless
unorm unsafe unsized use using varying virtual volatile wgsl where with writeonly yield
"""
KEYWORDS = frozenset(_KEYWORDS.split())


class ShaderTarget(Protocol):
    """The features of a target that the emitter queries."""

    @property
    def f16(self) -> bool:
        """Whether kernels may use f16."""
        ...

    @property
    def subgroups(self) -> bool:
        """Whether kernels may use subgroup ops."""
        ...

    @property
    def int64(self) -> bool:
        """Whether kernels may use 64-bit integers, which the standard lacks."""
        ...

    @property
    def shader_dialect(self) -> str:
        """`"naga"`, or `"standard"`, which requires a directive to enable subgroups."""
        ...


class KernelPrinter(BasePrinter):
    """Prints the statements of one kernel's body, and collects the declarations they need.

    A value that is used once, in the block that computes it, is printed inline at its use; one that reads memory is
    named before anything may write.
    """

    def __init__(self, kernel: wgsl.KernelOp) -> None:
        """Creates a printer for the body of `kernel`, which must verify."""
        self.output = StringIO()
        super().__init__(stream=self.output)
        self.kernel = kernel
        self.named: dict[SSAValue, Expression] = {}
        self.pending: dict[SSAValue, Expression] = {}
        self.parameters: set[str] = set()
        self.shared: list[str] = []
        self.count = 0
        for number, binding in enumerate(kernel.body.block.args):
            self.named[binding] = Expression(f"b{number}")

    # Values

    def fresh(self) -> str:
        """Returns an unused name."""
        self.count += 1
        return f"v{self.count - 1}"

    def operand(self, value: SSAValue) -> Expression:
        """Returns the text for `value`; consumes a pending expression."""
        pending = self.pending.pop(value, None)
        if pending is not None:
            return pending
        return self.named[value]

    def name(self, expression: Expression) -> Expression:
        """Prints a `let` of `expression`."""
        name = self.fresh()
        self.line(f"let {name} = {expression.text};")
        return Expression(name)

    def fixed(self, value: SSAValue) -> Expression:
        """Returns `value` as a literal or a name, which is cheap to evaluate in every iteration."""
        expression = self.operand(value)
        return expression if expression.constant or value in self.named else self.name(expression)

    def flush(self) -> None:
        """Names pending expressions that read memory, since what follows may write."""
        for value in [value for value, expression in self.pending.items() if expression.reads]:
            self.name_pending(value)

    def name_pending(self, value: SSAValue) -> None:
        """Prints a `let` of a pending expression."""
        self.named[value] = self.name(self.operand(value))

    def define(self, result: SSAValue, expression: Expression) -> None:
        """Makes `expression` available as `result`, inline if it is used once in its own block."""
        use = result.get_user_of_unique_use()
        is_local = use is not None and use.parent is cast(Operation, result.owner).parent
        if expression.constant:
            self.named[result] = expression
        elif result.first_use is None:
            return
        elif is_local and len(expression.text) <= WIDTH:
            self.pending[result] = expression
        else:
            self.named[result] = self.name(expression)

    # Statements

    def line(self, text: str) -> None:
        """Prints a line."""
        self.print_string(f"\n{text}")

    def print_block(self, block: Block) -> None:
        """Prints the statements of a block, indented."""
        with self.indented():
            for op in block.ops:
                self.print_op(op)

    def print_op(self, op: Operation) -> None:
        """Prints a statement, or keeps an expression pending."""
        statement = STATEMENTS.get(type(op))
        if statement is not None:
            statement(self, op)
            return
        rule = RULES.get(type(op))
        if rule is None:
            raise EmitError(op, "no WGSL for this op; the pass that lowers it has not run")
        for result in op.results:
            self.value_type(result.type, op)
        if op.results[0].first_use is None:
            return
        if type(op) in ENTRY_PARAMETERS:
            self.parameters.add(ENTRY_PARAMETERS[type(op)])
        operands = [self.operand(operand) for operand in op.operands]
        if operands and all(operand.constant for operand in operands):
            # WGSL evaluates constant expressions at shader creation, and rejects those that overflow.
            operands[0] = self.name(operands[0])
        self.define(op.results[0], rule(op, operands))

    def print_constant(self, op: arith.ConstantOp) -> None:
        """Keeps a literal inline; names a value that WGSL has no literal for."""
        expression = constant(op)
        if expression.constant:
            self.named[op.result] = expression
        else:
            self.define(op.result, expression)

    def print_load(self, op: memref.LoadOp) -> None:
        """Keeps an array element as an expression."""
        array, index = self.access(op, op.memref, op.indices)
        loaded = element(array, index)
        stored_as_word = cast(wgsl.Memref, op.memref.type).element_type == i1
        self.define(op.res, infix("!=", loaded, unsigned_literal(0)) if stored_as_word else loaded)

    def print_store(self, op: memref.StoreOp) -> None:
        """Prints an assignment to an array element."""
        value = self.operand(op.value)
        array, index = self.access(op, op.memref, op.indices)
        if op.value.type == i1:
            value = call("u32", value)
        self.flush()
        self.line(f"{array}[{index.text}] = {value.text};")

    def access(self, op: Operation, array: SSAValue, indices: Sequence[SSAValue]) -> tuple[str, Expression]:
        """Returns the array's name and its linear index."""
        if len(indices) != 1:
            raise EmitError(op, f"expected one linear index, got {len(indices)}")
        return self.named[array].text, self.operand(indices[0])

    def print_alloca(self, op: memref.AllocaOp) -> None:
        """Prints a thread-private array."""
        name = self.fresh()
        self.line(f"var {name}: {self.array_type(op.memref.type, op)};")
        self.named[op.memref] = Expression(name)

    def print_workgroup_alloc(self, op: wgsl.WorkgroupAllocOp) -> None:
        """Declares a workgroup array, before the entry point."""
        name = f"w{len(self.shared)}"
        self.shared.append(f"var<workgroup> {name}: {self.array_type(op.memref.type, op)};")
        self.named[op.memref] = Expression(name)

    def print_barrier(self, op: wgsl.BarrierOp) -> None:
        """Prints a barrier, after naming pending expressions that read memory."""
        self.flush()
        if op.storage is not None and op.storage.value.data:
            self.line("storageBarrier();")
        self.line("workgroupBarrier();")

    def print_subgroup_broadcast(self, op: wgsl.SubgroupBroadcastOp) -> None:
        """Prints a broadcast of one lane's value."""
        lane = unsigned_literal(op.lane.value.data)
        self.named[op.result] = self.name(call("subgroupBroadcast", self.operand(op.value), lane))

    def print_subgroup_reduce(self, op: wgsl.SubgroupReduceOp) -> None:
        """Prints a reduction over the lanes."""
        function = f"subgroup{op.kind.data.capitalize()}"
        self.named[op.result] = self.name(call(function, self.operand(op.value)))

    def print_subgroup_shuffle_xor(self, op: wgsl.SubgroupShuffleXorOp) -> None:
        """Prints an exchange of values between pairs of lanes."""
        mask = unsigned_literal(op.mask.value.data)
        self.named[op.result] = self.name(call("subgroupShuffleXor", self.operand(op.value), mask))

    def print_return_if(self, op: wgsl.ReturnIfOp) -> None:
        """Prints an early return."""
        self.line(f"if ({self.operand(op.condition).text}) {{ return; }}")

    def print_if(self, op: scf.IfOp) -> None:
        """Prints an `if`; its results are variables that the branches assign."""
        condition = self.operand(op.cond)
        self.flush()
        results = [self.fresh() for _ in op.results]
        for name, result in zip(results, op.results, strict=True):
            self.line(f"var {name}: {self.value_type(result.type, op)};")
        self.line(f"if ({condition.text}) {{")
        self.print_branch(op.true_region, results)
        if op.false_region.blocks and (results or len(op.false_region.block.ops) > 1):
            self.line("} else {")
            self.print_branch(op.false_region, results)
        self.line("}")
        for name, result in zip(results, op.results, strict=True):
            self.named[result] = Expression(name)

    def print_branch(self, region: Region, results: Sequence[str]) -> None:
        """Prints a branch, whose yield assigns the variables `results`."""
        self.print_block(region.block)
        with self.indented():
            self.assign(results, region.block)

    def print_for(self, op: scf.ForOp) -> None:
        """Prints a loop; its carried values are variables."""
        induction, *carried = op.body.block.args
        type_ = self.value_type(induction.type, op)
        lower, upper, step = self.operand(op.lb), self.fixed(op.ub), self.fixed(op.step)
        initial = [self.operand(value) for value in op.iter_args]
        self.flush()
        names = [self.fresh() for _ in carried]
        for name, argument, value in zip(names, carried, initial, strict=True):
            self.line(f"var {name}: {self.value_type(argument.type, op)} = {value.text};")
            self.named[argument] = Expression(name, variables=frozenset({name}))
        counter = self.fresh()
        self.named[induction] = Expression(counter)
        start = f"var {counter}: {type_} = {lower.text}"
        limit = upper.text if upper.form in ("primary", "unary") else f"({upper.text})"
        self.line(f"for ({start}; {counter} < {limit}; {counter} += {step.text}) {{")
        self.print_branch(op.body, names)
        self.line("}")
        for name, result in zip(names, op.results, strict=True):
            self.named[result] = Expression(name)

    def print_yield(self, op: scf.YieldOp) -> None:
        """Prints nothing: the parent op, which knows the variables, prints the assignments."""

    def assign(self, names: Sequence[str], block: Block) -> None:
        """Assigns what `block` yields to `names`, as if simultaneously."""
        last = block.last_op
        values = [self.operand(value) for value in last.operands] if isinstance(last, scf.YieldOp) else []
        for position, value in enumerate(values):
            changed = {name for name, other in zip(names[:position], values, strict=False) if name != other.text}
            if value.variables & changed:
                values[position] = self.name(value)
        for name, value in zip(names, values, strict=True):
            if name != value.text:
                self.line(f"{name} = {value.text};")

    # Types

    def value_type(self, type_: Attribute, op: Operation) -> str:
        """Returns the WGSL type of a value.

        Raises:
            EmitError: WGSL has no such type.
        """
        result = VALUE_TYPES.get(type_)
        if result is None:
            raise EmitError(op, f"WGSL has no type {type_}")
        return result

    def array_type(self, type_: Attribute, op: Operation) -> str:
        """Returns the WGSL type of an array in memory.

        Raises:
            EmitError: it is not a static 1-D memref of an element type of WGSL.
        """
        try:
            wgsl.verify_buffer(type_, "an array")
        except Exception as error:
            raise EmitError(op, str(error)) from error
        buffer = cast(wgsl.Memref, type_)
        return f"array<{STORED_TYPES[buffer.element_type]}, {buffer.get_shape()[0]}>"


STATEMENTS: dict[type[Operation], Callable[[KernelPrinter, Any], None]] = {
    arith.ConstantOp: KernelPrinter.print_constant,
    memref.LoadOp: KernelPrinter.print_load,
    memref.StoreOp: KernelPrinter.print_store,
    memref.AllocaOp: KernelPrinter.print_alloca,
    wgsl.WorkgroupAllocOp: KernelPrinter.print_workgroup_alloc,
    wgsl.BarrierOp: KernelPrinter.print_barrier,
    wgsl.SubgroupBroadcastOp: KernelPrinter.print_subgroup_broadcast,
    wgsl.SubgroupReduceOp: KernelPrinter.print_subgroup_reduce,
    wgsl.SubgroupShuffleXorOp: KernelPrinter.print_subgroup_shuffle_xor,
    wgsl.ReturnIfOp: KernelPrinter.print_return_if,
    scf.IfOp: KernelPrinter.print_if,
    scf.ForOp: KernelPrinter.print_for,
    scf.YieldOp: KernelPrinter.print_yield,
}
"""The printing method of each op that is not an expression."""


def uses(types: Iterable[Attribute], element_type: Attribute) -> bool:
    """Returns whether a value has a type, or a buffer has elements of it."""
    return any(getattr(type_, "element_type", type_) == element_type for type_ in types)


def enabled(kernel: wgsl.KernelOp, target: ShaderTarget | None) -> list[str]:
    """Returns the directives that the kernel needs.

    Raises:
        EmitError: the target lacks what they enable.
    """
    directives: list[str] = []
    ops = list(operations(kernel.body.block))
    values = (*kernel.body.block.args, *(result for op in ops for result in op.results))
    types = {id(value.type): value.type for value in values}.values()
    if target is not None and not target.int64 and uses(types, i64):
        raise EmitError(kernel, "uses integers of 64 bits, which the target lacks")
    if uses(types, f16):
        if target is not None and not target.f16:
            raise EmitError(kernel, "uses f16, which the target lacks")
        directives.append("enable f16;")
    if any(isinstance(op, SUBGROUP_OPS) for op in ops):
        if target is not None and not target.subgroups:
            raise EmitError(kernel, "uses subgroups, which the target lacks")
        # Naga rejects the directive that the standard demands, and doesn't analyse uniformity. The standard's analysis
        # knows which values are workgroup-uniform, but not that the lanes of a subgroup take the same branch.
        if target is not None and target.shader_dialect == "standard":
            directives += ["enable subgroups;", "diagnostic(off, subgroup_uniformity);"]
    return directives


def checked_name(kernel: wgsl.KernelOp) -> str:
    """Returns the entry point's name.

    Raises:
        EmitError: it is not an identifier of WGSL, or one that the emitter generates.
    """
    name = kernel.sym_name.data
    if not IDENTIFIER.fullmatch(name) or name in KEYWORDS or GENERATED.fullmatch(name):
        raise EmitError(kernel, f'"{name}" cannot name an entry point in WGSL')
    return name


class OriginPrinter(KernelPrinter):
    """Prints a kernel as `KernelPrinter` does, and records the ops that each line was made from.

    Attributes:
        origins: The ops of each line, the statement's own op first.
    """

    def __init__(self, kernel: wgsl.KernelOp) -> None:
        """Creates a printer for the body of `kernel`, which must verify."""
        super().__init__(kernel)
        self.origins: list[tuple[Operation, ...]] = []
        self._ops: list[Operation] = []
        self._kept: dict[SSAValue, tuple[Operation, ...]] = {}

    def line(self, text: str) -> None:
        """Prints a line."""
        super().line(text)
        self.origins.append(tuple(self._ops))

    def print_op(self, op: Operation) -> None:
        """Prints a statement, or keeps an expression pending."""
        around, self._ops = self._ops, [op]
        super().print_op(op)
        self._ops = around

    def define(self, result: SSAValue, expression: Expression) -> None:
        """Makes `expression` available as `result`, inline if it is used once in its own block."""
        super().define(result, expression)
        if result in self.pending:
            self._kept[result] = tuple(self._ops)

    def operand(self, value: SSAValue) -> Expression:
        """Returns the text for `value`; consumes a pending expression."""
        self._ops += self._kept.pop(value, ())
        return super().operand(value)

    def name_pending(self, value: SSAValue) -> None:
        """Prints a `let` of a pending expression."""
        around, self._ops = self._ops, []
        super().name_pending(value)
        self._ops = around


def line_origins(kernel: wgsl.KernelOp, target: ShaderTarget | None) -> list[tuple[Operation, ...]]:
    """Returns the ops that each line of a kernel's text was made from; none for declarations."""
    printer = OriginPrinter(kernel)
    lines = kernel_text(kernel, target, printer).splitlines()
    return [*[()] * (len(lines) - len(printer.origins) - 1), *printer.origins, ()]


def kernel_text(kernel: wgsl.KernelOp, target: ShaderTarget | None, printer: KernelPrinter | None = None) -> str:
    """Returns a complete WGSL module for one kernel.

    Args:
        kernel: The kernel.
        target: The target, as in `emit_kernel`.
        printer: The printer of its statements; a new one by default.
    """
    name = checked_name(kernel)
    directives = enabled(kernel, target)
    printer = KernelPrinter(kernel) if printer is None else printer
    printer.print_block(kernel.body.block)
    body = printer.output.getvalue()
    bindings = [
        f"@group(0) @binding({number}) var<storage, {mode.data}> b{number}: {printer.array_type(binding.type, kernel)};"
        for number, (binding, mode) in enumerate(zip(kernel.body.block.args, kernel.access, strict=True))
    ]
    helpers = with_dependencies(helper for helper in HELPER_CALL.findall(body) if helper in HELPERS)
    parameters = "".join(
        f"\n  @builtin({parameter.partition(':')[0]}) {parameter},"
        for parameter in ENTRY_PARAMETERS.values()
        if parameter in printer.parameters
    )
    parameters += "\n" if parameters else ""
    size = ", ".join(map(str, kernel.workgroup_size.get_values()))
    entry = f"@compute @workgroup_size({size})\nfn {name}({parameters}) {{{body}\n}}"
    sections = ["\n".join(directives), "\n".join(bindings), "\n".join(printer.shared), *helpers, entry]
    return "\n\n".join(section for section in sections if section) + "\n"
