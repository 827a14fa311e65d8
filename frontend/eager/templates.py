"""Templates: ops or traced functions that are recorded as one unit, and their derivatives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias, cast

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.rewriter import Rewriter

from tensorgrad.dialects.tg.base import NumpyArray, TensorOp, is_float, prepared
from tensorgrad.dialects.tg.build import TensorBuilder, element_of, type_of
from tensorgrad.dialects.tg.call import ReturnOp, returned
from tensorgrad.eager.values import Kind, kinds_of, read_only
from tensorgrad.errors import DeviceError
from tensorgrad.interpreters.tensors import TensorExecutor
from tensorgrad.passes.tensors.grad import cotangents, differentiated
from tensorgrad.passes.tensors.moving import copied, inlined
from tensorgrad.passes.tensors.simplify import erase_dead
from tensorgrad.tracing.location import user_line

ApplicationValue: TypeAlias = tuple[Literal["operand", "result", "cotangent"], int]
"""An operand or result of an application, or the cotangent of a result."""


class Template:
    """A function of tensors that is recorded as one unit. Equal ones are the same object.

    Attributes:
        name: Its name in error messages.
        body: Its ops, in one block that ends in `tg.return`.
        operands: The operand types.
        results: The result types.
        op: The op, if it is a single one on the operands in order.
        size: The number of ops.
    """

    def __init__(self, name: str, block: Block):
        self.name = name
        self.body = Region(block)
        self.operands = kinds_of([type_of(argument) for argument in block.args])
        self.results = kinds_of([type_of(value) for value in returned(block)])
        first = block.first_op
        self.op: TensorOp | None = None
        if isinstance(first, TensorOp) and list(first.operands) == list(block.args):
            self.op = first if returned(block) == tuple(first.results) else None
        self.size = len(block.ops) - 1
        self._derivatives: dict[tuple[bool, ...], Derivative] = {}

    @classmethod
    def of_op(cls, kind: type[TensorOp], operands: Sequence[Kind], properties: Mapping[str, Attribute]) -> Template:
        """Returns the template of an op.

        Raises:
            VerifyException: The operands are invalid for it.
        """
        block = Block(arg_types=[operand.type for operand in operands])
        result = TensorBuilder(block).emit(kind, list(block.args), **properties)
        block.add_op(ReturnOp([result]))
        return cls(kind.name.removeprefix("tg."), block)

    @classmethod
    def of_function(cls, function: FuncOp) -> Template:
        """Returns the template of a traced function."""
        block = copied(function.body)
        last = block.last_op
        assert last is not None
        values = list(last.operands)
        Rewriter.erase_op(last)
        block.add_op(ReturnOp(values))
        return cls(function.sym_name.data, block)

    def inlined(self, operands: Sequence[SSAValue], builder: TensorBuilder) -> list[SSAValue]:
        """Inlines the ops at the builder's insertion point; returns the results."""
        return inlined(self.body, operands, builder)

    def evaluate(self, operands: Sequence[NumpyArray]) -> list[NumpyArray]:
        """Returns the results by NumPy.

        Raises:
            DeviceError: There is not enough memory.
        """
        try:
            with np.errstate(all="ignore"):
                results = self._function(*operands)
        except MemoryError as error:
            raise DeviceError(f"{user_line()}: {self.name}: {error}") from error
        pairs = zip(results, self.results, strict=True)
        return [read_only(np.asarray(result).reshape(kind.shape)) for result, kind in pairs]

    @cached_property
    def _function(self) -> Callable[..., Sequence[Any]]:
        if self.op is None:
            executor = TensorExecutor(_module_of(self))
            return lambda *arrays: executor.call(arrays)
        function = prepared(self.op)
        return lambda *arrays: (function(*arrays),)

    def derivative(self, requested: tuple[bool, ...]) -> Derivative:
        """Returns the derivative, which computes the cotangents of operands from those of the results.

        Args:
            requested: The operands whose cotangents are requested.
        """
        result = self._derivatives.get(requested)
        if result is None:
            result = self._derivatives[requested] = _derived(self, requested)
        return result


@dataclass(frozen=True, eq=False)
class Derivative:
    """The derivative of a template.

    Attributes:
        template: Computes the cotangents that are not zero; `None` if all are zero.
        uses: Its arguments, in order.
        pieces: For each operand, the index of the result that is its cotangent, or `None` for zero.
        active: The results that depend differentiably on a wanted operand.
        results: The types of the results.
        positions: Like `uses`, as indices into a list of all operands and results; `None` for cotangents.
    """

    template: Template | None
    uses: tuple[ApplicationValue, ...]
    pieces: tuple[int | None, ...]
    active: tuple[bool, ...]
    results: tuple[Kind, ...]
    positions: tuple[int | None, ...]

    @property
    def has_any(self) -> bool:
        """Whether it has to be recorded on the tape."""
        return self.template is not None and True in self.active


def _module_of(template: Template) -> ModuleOp:
    block = copied(template.body)
    values = returned(block)
    end = block.last_op
    assert end is not None
    Rewriter.erase_op(end)
    block.add_op(func.ReturnOp(*values))
    kinds = FunctionType.from_lists([argument.type for argument in block.args], [value.type for value in values])
    return ModuleOp([FuncOp("function", kinds, Region(block))])


def _derived(template: Template, requested: tuple[bool, ...]) -> Derivative:
    block = copied(template.body)
    operands, results = list(block.args), list(returned(block))
    builder = TensorBuilder(block, before=block.last_op)
    wrt = [operand for operand, is_requested in zip(operands, requested, strict=True) if is_requested]
    moving, _ = differentiated(block, wrt)
    active = tuple(result in moving for result in results)
    seeds: dict[SSAValue, SSAValue] = {}
    places: list[tuple[ApplicationValue, SSAValue]] = [(("operand", i), operand) for i, operand in enumerate(operands)]
    for i, result in enumerate(results):
        if is_float(element_of(result)):
            argument = block.insert_arg(result.type, len(block.args))
            seeds[result] = builder.add(seeds[result], argument) if result in seeds else argument
            places.append((("cotangent", i), argument))
    gradients = dict(zip(wrt, cotangents(block, seeds, wrt, builder), strict=True))
    pieces = [gradients.get(operand) for operand in operands]
    for i, result in enumerate(results):
        if result not in operands and all(result is not value for _, value in places):
            argument = block.insert_arg(result.type, len(block.args))
            result.replace_all_uses_with(argument)
            pieces = [argument if piece is result else piece for piece in pieces]
            places.append((("result", i), argument))
    end = block.last_op
    assert end is not None
    Rewriter.erase_op(end)
    outputs = list(dict.fromkeys(piece for piece in pieces if piece is not None))
    block.add_op(ReturnOp(outputs))
    erase_dead(block)
    uses = [place for place, value in places if value.uses]
    for _, value in places:
        if not value.uses:
            block.erase_arg(cast("Any", value))
    indices = tuple(None if piece is None else outputs.index(piece) for piece in pieces)
    backward = Template(f"{template.name}'", block) if outputs else None
    sources = tuple(None if what == "cotangent" else i + (what == "result") * len(operands) for what, i in uses)
    return Derivative(backward, tuple(uses), indices, active, template.results, sources)
