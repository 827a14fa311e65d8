"""What every `tg` op shares: types, inference as verification, one printed form, folding."""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias, TypeVar, cast

import numpy as np
from xdsl.dialects.builtin import (
    BytesAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerAttr,
    IntegerType,
    Signedness,
    TensorType,
    f16,
    f32,
    f64,
    i1,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.interfaces import HasFolderInterface
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import IRDLOperation, OptOperandDef, VarOperandDef
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import ConstantLike
from xdsl.utils.exceptions import VerifyException

Tensor: TypeAlias = TensorType[Attribute]
Properties: TypeAlias = Mapping[str, Attribute]
NumpyArray: TypeAlias = np.ndarray[Any, np.dtype[Any]]

ui8, ui16, ui32, ui64 = (IntegerType(bits, Signedness.UNSIGNED) for bits in (8, 16, 32, 64))

NUMPY_DTYPES: dict[Attribute, np.dtype[Any]] = {
    f16: np.dtype(np.float16),
    f32: np.dtype(np.float32),
    f64: np.dtype(np.float64),
    i8: np.dtype(np.int8),
    ui8: np.dtype(np.uint8),
    i16: np.dtype(np.int16),
    ui16: np.dtype(np.uint16),
    i32: np.dtype(np.int32),
    ui32: np.dtype(np.uint32),
    i64: np.dtype(np.int64),
    ui64: np.dtype(np.uint64),
    i1: np.dtype(np.bool_),
}
"""The element types of `tg` and what numpy calls them."""

SIGNLESS: dict[Attribute, IntegerType] = {ui8: i8, ui16: i16, ui32: i32, ui64: i64}
"""The unsigned element types, and the signless one of the same width, which holds the same bits."""

INTEGERS = frozenset((*SIGNLESS, *SIGNLESS.values()))

ELEMENT_TYPES: dict[np.dtype[Any], Attribute] = {dtype: element for element, dtype in NUMPY_DTYPES.items()}

Evaluate: TypeAlias = Callable[..., NumpyArray]
"""A function of the operands' arrays that gives the result's."""
UnaryEvaluate: TypeAlias = Callable[[NumpyArray], NumpyArray]
BinaryEvaluate: TypeAlias = Callable[[NumpyArray, NumpyArray], NumpyArray]

OpT = TypeVar("OpT", bound="TensorOp")


def rounding_once(prepare: Callable[[OpT], Evaluate]) -> Callable[[OpT], Evaluate]:
    """Returns the meaning of an op that adds or multiplies many elements: those of f16 in f32, its result rounded to
    f16.
    """

    @functools.wraps(prepare)
    def wide(op: OpT) -> Evaluate:
        evaluate, half = prepare(op), np.dtype(np.float16)
        if all(numpy_dtype(operand.type) != half for operand in op.operands):
            return evaluate

        def rounding(*operands: NumpyArray) -> NumpyArray:
            full = [operand.astype(np.float32) if operand.dtype == half else operand for operand in operands]
            with np.errstate(over="ignore"):
                return evaluate(*full).astype(half)

        return rounding

    return wide


def by_numpy(function: np.ufunc) -> staticmethod[..., NumpyArray]:
    """Returns the ufunc that computes an op, called directly."""
    return staticmethod(function)


def giving_arrays(function: Evaluate, kind: Tensor) -> Evaluate:
    """Returns a function of arrays whose results are arrays of a type, where NumPy gives scalars or another dtype.

    A ufunc that gives arrays anyway is returned as it is: nothing stands between the interpreter and NumPy then.
    """
    if isinstance(function, np.ufunc) and kind.get_shape():
        return function
    dtype = numpy_dtype(kind)

    def giving(*operands: NumpyArray) -> NumpyArray:
        return np.asarray(function(*operands), dtype)

    return giving


FOLD_LIMIT = 16
"""Results with more elements than this are computed at run time, not by the compiler."""


def is_float(element: Attribute) -> bool:
    """Returns whether `element` is one of the floating-point element types."""
    return isinstance(element, Float16Type | Float32Type | Float64Type)


def is_integer(element: Attribute) -> bool:
    """Returns whether `element` is a signed or unsigned integer (bool is neither)."""
    return element in INTEGERS


def is_unsigned(element: Attribute) -> bool:
    """Returns whether `element` is an unsigned integer (bool is none)."""
    return element in SIGNLESS


_TENSORS: dict[tuple[tuple[int, ...], Attribute], Tensor] = {}


def tensor(shape: Sequence[int], element: Attribute) -> Tensor:
    """Returns the interned `tensor<shape x element>`; interning makes comparing types cheap."""
    key = (tuple(shape), element)
    found = _TENSORS.get(key)
    if found is None:
        found = _TENSORS[key] = TensorType(element, list(key[0]))
    return found


def numpy_dtype(of: Attribute) -> np.dtype[Any]:
    """Returns the numpy dtype of an element type or of a tensor's elements."""
    element = cast(Tensor, of).get_element_type() if isinstance(of, TensorType) else of
    dtype = NUMPY_DTYPES.get(element)
    if dtype is None:
        raise VerifyException(f"{element} is not an element type of tg ({', '.join(map(str, NUMPY_DTYPES))})")
    return dtype


def size_of(shape: Sequence[int]) -> int:
    """Returns the number of elements of a tensor with `shape`."""
    return math.prod(shape)


def ints(values: Sequence[int]) -> DenseArrayBase[IntegerType]:
    """Returns a list of integers as an attribute; equal ones are one object."""
    return _ints(tuple(values), i64)


def short_ints(values: Sequence[int]) -> DenseArrayBase[IntegerType]:
    """Returns a list of integers of 32 bits as an attribute; equal ones are one object."""
    return _ints(tuple(values), i32)


@functools.lru_cache(4096)
def _ints(values: tuple[int, ...], element: IntegerType) -> DenseArrayBase[IntegerType]:
    return DenseArrayBase.from_list(element, list(values))


def int_list(properties: Properties, name: str) -> tuple[int, ...]:
    """Reads a list-of-integers property."""
    return tuple(cast("DenseArrayBase[IntegerType]", properties[name]).get_values())


def int_value(properties: Properties, name: str) -> int:
    """Reads an integer property."""
    return cast(IntegerAttr[IntegerType], properties[name]).value.data


def integer(value: int) -> IntegerAttr[IntegerType]:
    """Returns an integer as an attribute; equal ones are one object."""
    return _integer(int(value))


@functools.lru_cache(4096)
def _integer(value: int) -> IntegerAttr[IntegerType]:
    return IntegerAttr(value, i64)


def require(condition: bool, message: str | Callable[[], str]) -> None:
    """Raises a `VerifyException` with `message` unless `condition` holds.

    Printing types takes time: a message that names some is better a function.
    """
    if not condition:
        raise VerifyException(message if isinstance(message, str) else message())


def check_axes(axes: Sequence[int], rank: int, what: str) -> None:
    """Requires distinct axes, each in `[0, rank)`."""
    require(
        len(set(axes)) == len(axes) and all(0 <= axis < rank for axis in axes),
        f"{what} {list(axes)} must be distinct axes of a tensor of rank {rank}",
    )


def dense(array: NumpyArray) -> DenseIntOrFPElementsAttr[Any]:
    """Returns a numpy array as a dense attribute; equal elements are stored once (a splat)."""
    element = ELEMENT_TYPES[array.dtype]
    kind = cast(Any, tensor(array.shape, element))
    if array.size and not any(array.strides):
        array = array[(slice(0, 1),) * array.ndim]  # a splat already: nothing to compare
    flat = array.reshape(-1)
    bits = flat.view(f"u{array.dtype.itemsize}")
    if flat.size and bool((bits == bits[0]).all()):
        flat = flat[:1]
    if element == i1:
        return DenseIntOrFPElementsAttr.from_list(kind, flat.tolist())
    return DenseIntOrFPElementsAttr(kind, BytesAttr(flat.tobytes()))


def dense_to_numpy(attribute: DenseIntOrFPElementsAttr[Any]) -> NumpyArray:
    """Returns the numpy array that a dense attribute holds (read-only where it is a splat)."""
    kind = cast(Tensor, attribute.type)
    dtype = numpy_dtype(kind)
    if dtype == np.bool_:
        values = np.array(list(attribute.get_values()), dtype)
    else:
        values = np.frombuffer(attribute.data.data, dtype)
    if not kind.element_count():
        return np.zeros(kind.get_shape(), dtype)
    bits = values.view(f"u{dtype.itemsize}")
    # A parsed splat comes with every element written out.
    if bool((bits == bits[0]).all()):
        return np.broadcast_to(values[0], kind.get_shape())
    return values.reshape(kind.get_shape())


def compact(attribute: DenseIntOrFPElementsAttr[Any]) -> DenseIntOrFPElementsAttr[Any]:
    """Returns the same values stored as `dense` stores them, so that equal constants are equal attributes."""
    return dense(dense_to_numpy(attribute))


class TensorOp(IRDLOperation, HasFolderInterface, ABC):
    """A pure op on tensors.

    `infer` is the shape rule: the tracer and the rewrites build results with it, the parser infers types by it,
    and the verifier compares against it.

    The op's meaning, in numpy, is one of two methods, and the other one follows from it: `evaluate`, or `prepare` for
    an op that has properties to read, which a program that runs many times reads once.
    """

    PROPERTIES: ClassVar[tuple[str, ...]] = ()
    """The op's properties in the order in which the printed form lists them."""

    @classmethod
    @abstractmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Tensor:
        """Returns the result's type; raises `VerifyException` when the operands don't fit."""

    def evaluate(self, *operands: NumpyArray) -> NumpyArray:
        """Returns the op's value on numpy arrays of the operands' types."""
        return self.prepare()(*operands)

    def prepare(self) -> Evaluate:
        """Returns `evaluate` as a function that looks at nothing of the op: what it needs was read here."""
        return self.evaluate

    @property
    def type(self) -> Tensor:
        """The type of the only result."""
        return cast(Tensor, self.results[0].type)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the only result."""
        return self.type.get_shape()

    def verify_(self) -> None:
        for operand in (*self.operands, *self.results):
            numpy_dtype(operand.type)
        expected = self.infer(cast(Sequence[Tensor], self.operand_types), self.properties)
        require(self.type == expected, lambda: f"result is {self.type}, expected {expected}")

    def fold(self) -> Sequence[SSAValue | Attribute] | None:
        """Folds constants, up to `FOLD_LIMIT` elements (any number where the result is a splat)."""
        identity = self.simplified()
        if identity is not None:
            return (identity,)
        if not self.operands:
            return None
        values: list[NumpyArray] = []
        for operand in self.operands:
            value = constant_value(operand)
            if value is None:
                return None
            values.append(value)
        splat = self.fold_splat(values)
        if splat is not None:
            return (splat,)
        if size_of(self.shape) > FOLD_LIMIT or any(value.size > FOLD_LIMIT for value in values):
            return None
        with np.errstate(all="ignore"):
            return (dense(np.ascontiguousarray(self.evaluate(*values)).reshape(self.shape)),)

    def simplified(self) -> SSAValue | None:
        """Returns an existing value equal to the result, when an algebraic identity gives one."""
        return None

    def fold_splat(self, values: Sequence[NumpyArray]) -> Attribute | None:
        """Returns the result when every operand is a splat and the op works element by element."""
        return None

    def print(self, printer: Printer) -> None:
        if self.operands:
            printer.print_string(" ")
            printer.print_list(self.operands, printer.print_ssa_value)
        for name in self.PROPERTIES:
            if name in self.properties:
                printer.print_string(f" {name} = ")
                _print_property(printer, self.properties[name])
        if self.attributes:
            printer.print_op_attributes(self.attributes, print_keyword=True)
        if self.operands:
            printer.print_string(" : ")
            printer.print_list(self.operands, lambda operand: printer.print_attribute(operand.type))

    @classmethod
    def parse(cls, parser: Parser) -> TensorOp:
        start = parser.pos
        unresolved = parser.parse_optional_undelimited_comma_separated_list(
            parser.parse_optional_unresolved_operand, parser.parse_unresolved_operand
        )
        properties: dict[str, Attribute] = {}
        while (name := parser.parse_optional_keyword_in(cls.PROPERTIES)) is not None:
            parser.parse_punctuation("=")
            properties[name] = _parse_property(parser)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        operands: Sequence[SSAValue] = ()
        if unresolved:
            parser.parse_punctuation(":")
            types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
            operands = parser.resolve_operands(unresolved, types, start)
        for operand in operands:
            if not isinstance(operand.type, TensorType):
                parser.raise_error(f"{cls.name} takes tensors, got {operand.type}", start, parser.pos)
        if not cls._takes(len(operands)):
            parser.raise_error(f"{cls.name} does not take {len(operands)} operands", start, parser.pos)
        missing = [n for n in cls.PROPERTIES if n not in properties and n not in cls.optional_properties()]
        if missing:
            parser.raise_error(f"{cls.name} needs {', '.join(missing)}", start, parser.pos)
        try:
            result = cls.infer([cast(Tensor, operand.type) for operand in operands], properties)
        except VerifyException as error:
            parser.raise_error(f"{cls.name}: {error}", start, parser.pos)
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
            parser.raise_error(f"{cls.name}: its properties are of other kinds: {error}", start, parser.pos)
        return cls.create(
            operands=operands,
            result_types=[result],
            properties=properties,
            attributes={} if attributes is None else dict(attributes.data),
        )

    @classmethod
    def _takes(cls, count: int) -> bool:
        """Returns whether the op may have so many operands."""
        declared = [operand for _, operand in cls.get_irdl_definition().operands]
        if any(isinstance(operand, VarOperandDef | OptOperandDef) for operand in declared):
            return True  # whose rule says how many
        return count == len(declared)

    @classmethod
    def optional_properties(cls) -> frozenset[str]:
        """Returns the properties that may be absent."""
        return frozenset()


def constant_value(value: SSAValue) -> NumpyArray | None:
    """Returns the numpy array of a constant, or `None` for any other value."""
    attribute = ConstantLike.get_constant_value(value)
    if isinstance(attribute, DenseIntOrFPElementsAttr):
        return dense_to_numpy(cast("DenseIntOrFPElementsAttr[Any]", attribute))
    return None


def is_splat(array: NumpyArray) -> bool:
    """Returns whether a constant's array repeats one stored element."""
    return array.size <= 1 or all(stride == 0 for stride in array.strides)


def splat_value(value: SSAValue) -> float | int | bool | None:
    """Returns the scalar that a splat constant repeats, or `None`."""
    array = constant_value(value)
    if array is None or array.size == 0 or not is_splat(array):
        return None
    return array.reshape(-1)[0].item()


def _print_property(printer: Printer, attribute: Attribute) -> None:
    text = _property_text(attribute)
    if text is None:
        printer.print_attribute(attribute)
    else:
        printer.print_string(text)


def _property_text(attribute: Attribute) -> str | None:
    """Lists of integers and integers as they are written in Python; `None` for what upstream prints."""
    if isinstance(attribute, DenseArrayBase):
        values = cast("DenseArrayBase[IntegerType]", attribute).get_values()
        return f"[{', '.join(str(value) for value in values)}]"
    if isinstance(attribute, IntegerAttr):
        number = cast("IntegerAttr[IntegerType]", attribute)
        return str(number.value.data) if number.type == i64 else None
    return None


def _parse_property(parser: Parser) -> Attribute:
    values = parser.parse_optional_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
    if values is not None:
        return ints(values)
    number = parser.parse_optional_integer(allow_boolean=False)
    return integer(number) if number is not None else parser.parse_attribute()
