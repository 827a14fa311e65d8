"""`tg.call`: a named part of a program, optionally with a custom derivative or marked for recomputation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

from xdsl.dialects.builtin import DictionaryAttr, StringAttr, UnitAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_region_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, IsTerminator, Pure
from xdsl.utils.exceptions import VerifyException

from tensorgrad.dialects.tg.base import INT_LIST, Tensor, check_tensor, ints, is_float, require

HOLDERS = ("tg.call", "tg.scan", "tg.cond")
"""The ops whose regions end in `tg.return`."""


@irdl_op_definition
class ReturnOp(IRDLOperation):
    """Terminates a region of `tg.call`, `tg.scan` or `tg.cond`, and returns its values.

    Example:
        tg.return %0 : tensor<4xf32>
    """

    name = "tg.return"
    values = var_operand_def()
    traits = traits_def(IsTerminator(), Pure())
    assembly_format = "attr-dict ($values^ `:` type($values))?"

    def __init__(self, values: Sequence[SSAValue]):
        super().__init__(operands=[values])

    def verify_(self) -> None:
        parent = self.parent_op()
        require(
            parent is not None and parent.name in HOLDERS,
            f"tg.return ends a region of {', '.join(HOLDERS)}",
        )


@irdl_op_definition
class CallOp(IRDLOperation):
    """Applies its body, which depends on nothing but the operands, to the operands.

    By default, the derivative is that of the body. A custom derivative consists of two more regions. `forward` takes
    the operands and returns the body's results followed by any number of residuals. `backward` takes the residuals and
    the cotangent of each float result, and returns the cotangents of the operands listed in `wrt`; the others have
    none. The results are always those of the body.

    `recompute` makes the derivative recompute the body, in a separate call, instead of keeping values of the forward
    pass. `recursive` marks a call within a derivative of an enclosing call of the same name and types, whose derivative
    it shares.

    `composite` marks the call as a single operation of that name, with these parameters, whose decomposition is the
    body. Inlining keeps it, and a lowering that knows the name emits kernels for it; everything else (the reference,
    derivatives) uses the body.

    Example:
        %1 = tg.call @double(%0) : (tensor<4xf32>) -> (tensor<4xf32>) {
          ^bb0(%x: tensor<4xf32>):
            %y = tg.add %x, %x : tensor<4xf32>, tensor<4xf32>
            tg.return %y : tensor<4xf32>
        }
    """

    name = "tg.call"
    callee = prop_def(StringAttr)
    recompute = opt_prop_def(UnitAttr)
    recursive = opt_prop_def(UnitAttr)
    composite = opt_prop_def(DictionaryAttr)
    wrt = opt_prop_def(INT_LIST)
    inputs = var_operand_def()
    outputs = var_result_def()
    body = region_def("single_block")
    derivative = var_region_def("single_block")
    traits = traits_def(Pure(), IsolatedFromAbove())

    @classmethod
    def of(
        cls,
        name: str,
        operands: Sequence[SSAValue],
        body: Block,
        derivative: Sequence[Block] = (),
        wrt: Sequence[int] | None = None,
        recompute: bool = False,
        recursive: bool = False,
        composite: DictionaryAttr | None = None,
    ) -> CallOp:
        """Returns a call whose result types are those that the body returns."""
        properties: dict[str, Attribute] = {"callee": StringAttr(name)}
        if wrt is not None:
            properties["wrt"] = ints(wrt)
        if recompute:
            properties["recompute"] = UnitAttr()
        if recursive:
            properties["recursive"] = UnitAttr()
        if composite is not None:
            properties["composite"] = composite
        return cls.create(
            operands=operands,
            result_types=[value.type for value in returned(body)],
            properties=properties,
            regions=[Region(body), *[Region(block) for block in derivative]],
        )

    @property
    def function(self) -> str:
        """The name of the called part."""
        return self.callee.data

    @property
    def differentiable(self) -> tuple[int, ...]:
        """The positions of the operands for which the custom derivative returns a cotangent."""
        return () if self.wrt is None else self.wrt.get_values()

    def resembles(self, other: CallOp) -> bool:
        """Returns whether another call has the same name and types."""
        return (
            self.function == other.function
            and self.operand_types == other.operand_types
            and self.result_types == other.result_types
        )

    def verify_(self) -> None:
        check_tensors(self)
        inputs, outputs = list(self.operand_types), list(self.result_types)
        check_region("body", self.body.block, inputs)
        check_returned("the body", self.body.block, outputs)
        require(len(self.derivative) in (0, 2), "a derivative must have two regions, forward and backward")
        require(
            bool(self.derivative) == (self.wrt is not None),
            "a custom derivative needs wrt, and wrt needs a custom derivative",
        )
        if self.derivative:
            self._verify_derivative(inputs, outputs)
        if self.recursive is not None:
            require(
                not self.derivative,
                "a recursive call takes the derivative of the call around it and must not have its own",
            )
            require(
                any(self.resembles(call) and call.derivative for call in _around(self)),
                f"is recursive, but not inside the derivative of a call of @{self.function} with the same types",
            )

    def _verify_derivative(self, inputs: list[Attribute], outputs: list[Attribute]) -> None:
        forward, backward = (region.block for region in self.derivative)
        check_region("forward", forward, inputs)
        types = [value.type for value in returned(forward)]
        require(
            types[: len(outputs)] == outputs,
            lambda: f"forward returns {listed(types)}, which must begin with the results {listed(outputs)}",
        )
        floats = [kind for kind in outputs if is_float(cast(Tensor, kind).get_element_type())]
        check_region("backward", backward, [*types[len(outputs) :], *floats])
        wrt = self.differentiable
        require(
            list(wrt) == sorted(set(wrt)) and all(0 <= position < len(inputs) for position in wrt),
            f"wrt {list(wrt)} must be increasing positions of operands",
        )
        types, expected = [value.type for value in returned(backward)], [inputs[position] for position in wrt]
        require(
            types == expected, lambda: f"backward returns {listed(types)}, the operands in wrt are {listed(expected)}"
        )
        for kind in expected:
            require(is_float(cast(Tensor, kind).get_element_type()), f"wrt has {kind}: only floats have derivatives")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.function)
        with printer.in_parens():
            printer.print_list(self.operands, printer.print_ssa_value)
        for mark in ("recompute", "recursive"):
            if mark in self.properties:
                printer.print_string(f" {mark}")
        if self.composite is not None:
            printer.print_string(" composite ")
            printer.print_attribute(self.composite)
        print_signature(printer, self)
        printer.print_region(self.body)
        if self.derivative:
            printer.print_string(f" wrt [{', '.join(map(str, self.differentiable))}] forward ")
            printer.print_region(self.derivative[0])
            printer.print_string(" backward ")
            printer.print_region(self.derivative[1])

    @classmethod
    def parse(cls, parser: Parser) -> CallOp:
        properties: dict[str, Attribute] = {"callee": parser.parse_symbol_name()}
        start = parser.pos
        unresolved = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_unresolved_operand)
        for mark in ("recompute", "recursive"):
            if parser.parse_optional_keyword(mark):
                properties[mark] = UnitAttr()
        if parser.parse_optional_keyword("composite"):
            properties["composite"] = DictionaryAttr(parser.parse_optional_dictionary_attr_dict())
        attributes, types, results = parse_signature(parser)
        operands = parser.resolve_operands(unresolved, types, start)
        regions = [parser.parse_region()]
        if parser.parse_optional_keyword("wrt"):
            properties["wrt"] = ints(parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer))
            parser.parse_keyword("forward")
            regions.append(parser.parse_region())
            parser.parse_keyword("backward")
            regions.append(parser.parse_region())
        return cls.create(
            operands=operands,
            result_types=results,
            properties=properties,
            attributes=attributes,
            regions=regions,
        )


def returned(block: Block) -> tuple[SSAValue, ...]:
    """Returns the values that a region's block returns.

    Raises:
        VerifyException: The block doesn't end in `tg.return`.
    """
    last = block.last_op
    if not isinstance(last, ReturnOp):
        raise VerifyException("a region of a tg op must end in tg.return")
    return tuple(last.values)


def check_tensors(op: Operation) -> None:
    """Requires that all operands and results of an op are tensors of static shape, of elements that NumPy has."""
    for kind in (*op.operand_types, *op.result_types):
        check_tensor(kind)


def check_returned(what: str, block: Block, outputs: list[Attribute]) -> None:
    """Requires that a region returns values of an op's types of results."""
    types = [value.type for value in returned(block)]
    require(types == outputs, lambda: f"{what} returns {listed(types)}, the results are {listed(outputs)}")


def check_region(what: str, block: Block, expected: Sequence[Attribute]) -> None:
    """Requires that a region takes arguments of the types `expected` and ends in `tg.return`."""
    types = [argument.type for argument in block.args]
    require(types == list(expected), lambda: f"{what} takes {listed(types)}, expected {listed(expected)}")
    returned(block)


def _around(call: CallOp) -> Iterator[CallOp]:
    op: Operation | None = call.parent_op()
    while op is not None:
        if isinstance(op, CallOp):
            yield op
        op = op.parent_op()


def listed(types: Sequence[Attribute]) -> str:
    """Returns types as a list for messages."""
    return f"({', '.join(map(str, types))})"


def print_signature(printer: Printer, op: IRDLOperation, operands: Sequence[SSAValue] | None = None) -> None:
    """Prints an op's attributes, and the types of its operands (of `operands`, if given) and results."""
    if op.attributes:
        printer.print_op_attributes(op.attributes, print_keyword=True)
    printer.print_string(" : (")
    printer.print_list(op.operands if operands is None else operands, lambda x: printer.print_attribute(x.type))
    printer.print_string(") -> (")
    printer.print_list(op.result_types, printer.print_attribute)
    printer.print_string(") ")


def parse_signature(parser: Parser) -> tuple[dict[str, Attribute], Sequence[Attribute], Sequence[Attribute]]:
    """Parses what `print_signature` prints: attributes, and the types of operands and results."""
    attributes = parser.parse_optional_attr_dict_with_keyword()
    parser.parse_punctuation(":")
    types = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
    parser.parse_punctuation("->")
    results = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
    return {} if attributes is None else dict(attributes.data), types, results
