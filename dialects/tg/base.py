"""The base of every `tg` op: types, verification by type inference, the assembly format, folding."""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias, TypeVar, cast

import numpy as np
from ml_dtypes import bfloat16
from xdsl.dialects.builtin import (
    BFloat16Type,
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
    bf16,
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
from xdsl.ir import Attribute, Block, OpResult, SSAValue
from xdsl.irdl import IRDLOperation, OptOperandDef, VarOperandDef
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import ConstantLike, OpTrait
from xdsl.utils.exceptions import VerifyException

Tensor: TypeAlias = TensorType[Attribute]
Properties: TypeAlias = Mapping[str, Attribute]
NumpyArray: TypeAlias = np.ndarray[Any, np.dtype[Any]]

ui8, ui16, ui32, ui64 = (IntegerType(bits, Signedness.UNSIGNED) for bits in (8, 16, 32, 64))

NUMPY_DTYPES: dict[Attribute, np.dtype[Any]] = {
    bf16: np.dtype(bfloat16),
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
"""The element types of `tg`, and their NumPy dtypes."""

SIGNLESS: dict[Attribute, IntegerType] = {ui8: i8, ui16: i16, ui32: i32, ui64: i64}
"""The unsigned element types, each with the signless type of the same width, which holds the same bits."""

INTEGERS = frozenset((*SIGNLESS, *SIGNLESS.values()))

ELEMENT_TYPES: dict[np.dtype[Any], Attribute] = {dtype: element for element, dtype in NUMPY_DTYPES.items()}

Evaluate: TypeAlias = Callable[..., NumpyArray]
"""A function from the operands' arrays to the result's."""
UnaryEvaluate: TypeAlias = Callable[[NumpyArray], NumpyArray]
BinaryEvaluate: TypeAlias = Callable[[NumpyArray, NumpyArray], NumpyArray]

OpT = TypeVar("OpT", bound="TensorOp")


def rounding_once(prepare: Callable[[OpT], Evaluate]) -> Callable[[OpT], Evaluate]:
    """Wraps the semantics of an op that adds or multiplies many elements, so that f16 is accumulated in f32."""

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
    """Returns an `evaluate` that calls a ufunc directly."""
    return staticmethod(function)


def giving_arrays(function: Evaluate, kind: Tensor) -> Evaluate:
    """Wraps a function so that it returns arrays of type `kind`, where NumPy returns scalars or another dtype.

    A ufunc that returns such arrays anyway is not wrapped, so that the interpreter calls NumPy directly.
    """
    if isinstance(function, np.ufunc) and kind.get_shape():
        return function
    dtype = numpy_dtype(kind)

    def giving(*operands: NumpyArray) -> NumpyArray:
        return np.asarray(function(*operands), dtype)

    return giving


FOLD_LIMIT = 16
"""The most elements of a result that the compiler folds; larger ones are computed at run time."""


def is_float(element: Attribute) -> bool:
    """Returns whether `element` is one of the floating-point element types."""
    return isinstance(element, BFloat16Type | Float16Type | Float32Type | Float64Type)


def has_floats(array: NumpyArray) -> bool:
    """Returns whether an array of an element type has floats; NumPy has no kind for bf16."""
    return is_float(ELEMENT_TYPES[array.dtype])


def is_integer(element: Attribute) -> bool:
    """Returns whether `element` is a signed or unsigned integer, which bool is not."""
    return element in INTEGERS


def is_unsigned(element: Attribute) -> bool:
    """Returns whether `element` is an unsigned integer, which bool is not."""
    return element in SIGNLESS


INTERNED = 1 << 11
"""The most attributes of a kind that are interned: several times those of a large model."""


def tensor(shape: Sequence[int], element: Attribute) -> Tensor:
    """Returns the interned type `tensor<shape x element>`; interning makes comparisons cheap."""
    return _tensor(tuple(shape), element)


@functools.lru_cache(INTERNED)
def _tensor(shape: tuple[int, ...], element: Attribute) -> Tensor:
    return TensorType(element, list(shape))


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
    """Returns a list of integers as an interned attribute."""
    return _ints(tuple(values), i64)


def short_ints(values: Sequence[int]) -> DenseArrayBase[IntegerType]:
    """Returns a list of 32-bit integers as an interned attribute."""
    return _ints(tuple(values), i32)


@functools.lru_cache(INTERNED)
def _ints(values: tuple[int, ...], element: IntegerType) -> DenseArrayBase[IntegerType]:
    return DenseArrayBase.from_list(element, list(values))


INTEGER = IntegerAttr.constr(i64)
"""The constraint of a property that is an integer."""
INT_LIST = DenseArrayBase.constr(i64)
"""The constraint of a property that is a list of integers."""


def int_lists(*properties: DenseArrayBase[IntegerType]) -> tuple[tuple[int, ...], ...]:
    """Returns the values of several properties."""
    return tuple(listed.get_values() for listed in properties)


def int_list(properties: Properties, name: str) -> tuple[int, ...]:
    """Reads a list of integers among the properties of an op that does not exist yet, as `infer` takes them."""
    return tuple(cast("DenseArrayBase[IntegerType]", properties[name]).get_values())


def int_value(properties: Properties, name: str) -> int:
    """Reads an integer among the properties of an op that does not exist yet, as `infer` takes them."""
    return cast(IntegerAttr[IntegerType], properties[name]).value.data


def integer(value: int) -> IntegerAttr[IntegerType]:
    """Returns an integer as an interned attribute."""
    return _integer(int(value))


@functools.lru_cache(INTERNED)
def _integer(value: int) -> IntegerAttr[IntegerType]:
    return IntegerAttr(value, i64)


def require(condition: bool, message: str | Callable[[], str]) -> None:
    """Raises a `VerifyException` with `message` unless `condition` holds.

    A message that prints types should be a function, since printing takes time.
    """
    if not condition:
        raise VerifyException(message if isinstance(message, str) else message())


class ElementException(VerifyException):
    """An op doesn't take elements of this type.

    Attributes:
        taken: What it takes.
        element: The type.
    """

    def __init__(self, taken: str, element: Attribute):
        super().__init__(f"takes {taken}, not {element}")
        self.taken, self.element = taken, element


ELEMENTS: Mapping[str, tuple[str, Callable[[Attribute], bool]]] = {
    "float": ("floats", is_float),
    "integer": ("integers", is_integer),
    "number": ("numbers", lambda element: is_float(element) or is_integer(element)),
    "bits": ("integers or booleans", lambda element: is_integer(element) or element == i1),
    "any": ("all elements", lambda _: True),
}
"""The kinds of element types that ops take: what they are called, and which they are."""


def require_elements(element: Attribute, kind: str) -> None:
    """Raises an `ElementException` unless an element type is of the given kind."""
    taken, is_taken = ELEMENTS[kind]
    if not is_taken(element):
        raise ElementException(taken, element)


def check_tensor(kind: Attribute) -> None:
    """Requires a tensor of static shape whose elements NumPy has."""
    if not isinstance(kind, TensorType):
        raise VerifyException(f"operands and results must be tensors, got {kind}")
    numpy_dtype(cast(Tensor, kind))
    if not kind.has_static_shape():
        raise VerifyException(f"shapes must be static, got {kind}")


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
        array = array[(slice(0, 1),) * array.ndim]  # already a splat: nothing to compare
    flat = array.reshape(-1)
    bits = flat.view(f"u{array.dtype.itemsize}")
    if flat.size and bool((bits == bits[0]).all()):
        flat = flat[:1]
    if element == i1:
        return DenseIntOrFPElementsAttr.from_list(kind, flat.tolist())
    return DenseIntOrFPElementsAttr(kind, BytesAttr(flat.tobytes()))


def dense_to_numpy(attribute: DenseIntOrFPElementsAttr[Any]) -> NumpyArray:
    """Returns the values of a dense attribute as a NumPy array, which is read-only if it is a splat."""
    kind = cast(Tensor, attribute.type)
    dtype = numpy_dtype(kind)
    if dtype == np.bool_:
        values = np.array(list(attribute.get_values()), dtype)
    else:
        values = np.frombuffer(attribute.data.data, dtype)
    if not kind.element_count():
        return np.zeros(kind.get_shape(), dtype)
    bits = values.view(f"u{dtype.itemsize}")
    # The parser expands splats to all of their elements.
    if bool((bits == bits[0]).all()):
        return np.broadcast_to(values[0], kind.get_shape())
    return values.reshape(kind.get_shape())


def compact(attribute: DenseIntOrFPElementsAttr[Any]) -> DenseIntOrFPElementsAttr[Any]:
    """Returns the canonical form of a dense attribute, that of `dense`, so that equal constants compare equal."""
    return dense(dense_to_numpy(attribute))


class TensorOp(IRDLOperation, HasFolderInterface, ABC):
    """A pure op on tensors.

    `infer` infers the result's type: the tracer, rewrites and the parser use it, and the verifier compares against it.

    The NumPy semantics are defined by one of two methods, from which the other follows: `evaluate`, or, for an op with
    properties, `prepare`, so that a program that runs many times reads them only once.
    """

    PROPERTIES: ClassVar[tuple[str, ...]] = ()
    """The op's properties, in the order of the assembly format."""
    REPEATS: ClassVar[bool] = False
    """Whether the op only repeats the elements of its operand along axes."""

    @classmethod
    @abstractmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Tensor:
        """Returns the result's type; raises `VerifyException` if the operands are invalid."""

    def evaluate(self, *operands: NumpyArray) -> NumpyArray:
        """Returns the op's result for NumPy arrays of the operands' types."""
        return self.prepare()(*operands)

    def prepare(self) -> Evaluate:
        """Returns `evaluate` as a function that no longer accesses the op; properties are read here."""
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
        for kind in (*self.operand_types, *self.result_types):
            check_tensor(kind)
        expected = self._inferred(cast(Sequence[Tensor], self.operand_types), self.properties)
        require(self.type == expected, lambda: f"result is {self.type}, expected {expected}")

    def fold(self) -> Sequence[SSAValue | Attribute] | None:
        """Folds constants of up to `FOLD_LIMIT` elements, and larger ones to a splat or to integers that don't grow."""
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
        small = size_of(self.shape) <= FOLD_LIMIT and all(value.size <= FOLD_LIMIT for value in values)
        if not small and not self._is_exact_and_no_larger(values):
            return None
        with np.errstate(all="ignore"):
            return (dense(np.ascontiguousarray(prepared(self)(*values)).reshape(self.shape)),)

    def _is_exact_and_no_larger(self, values: Sequence[NumpyArray]) -> bool:
        """Returns whether all elements are integers, and the result takes no more bytes than the operands store."""
        dtypes = [numpy_dtype(self.type), *(value.dtype for value in values)]
        stored = sum(stored_bytes(value) for value in values)
        if any(is_float(ELEMENT_TYPES[dtype]) for dtype in dtypes):
            return False
        return size_of(self.shape) * dtypes[0].itemsize <= stored

    def simplified(self) -> SSAValue | None:
        """Returns an existing value that equals the result by an algebraic identity, or `None`."""
        return None

    def fold_splat(self, values: Sequence[NumpyArray]) -> Attribute | None:
        """Returns the result of an elementwise op whose operands are all splats, or `None`."""
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
            result = cls._inferred([cast(Tensor, operand.type) for operand in operands], properties)
        except VerifyException as error:
            parser.raise_error(f"{cls.name}: {error}", start, parser.pos)
        return cls.create(
            operands=operands,
            result_types=[result],
            properties=properties,
            attributes={} if attributes is None else dict(attributes.data),
        )

    @classmethod
    def _inferred(cls, operands: Sequence[Tensor], properties: Properties) -> Tensor:
        """Returns the result's type, given properties of any kinds, which `infer` takes to be those it expects."""
        try:
            return cls.infer(operands, properties)
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
            raise VerifyException(f"its properties have the wrong types: {error}") from error

    @classmethod
    def _takes(cls, count: int) -> bool:
        """Returns whether the op may have `count` operands."""
        declared = [operand for _, operand in cls.get_irdl_definition().operands]
        if any(isinstance(operand, VarOperandDef | OptOperandDef) for operand in declared):
            return True  # `infer` checks the number of variadic operands
        return count == len(declared)

    @classmethod
    def optional_properties(cls) -> frozenset[str]:
        """Returns the properties that may be absent."""
        return frozenset()


class Moves(OpTrait):
    """Each element of the result has the bits of an element of an operand, or is one fixed value."""


def computes_in_bf16(op: TensorOp) -> bool:
    """Returns whether an op would compute with bf16, rather than move it: such ops compute in f32, and round once."""
    touches = any(cast(Tensor, value.type).get_element_type() == bf16 for value in (*op.operands, *op.results))
    return touches and not op.has_trait(Moves)


def in_f32(op: OpT, operands: Sequence[SSAValue]) -> OpT:
    """Returns a new op that computes in f32 what an op computes in bf16.

    Args:
        op: An op on bf16.
        operands: Its operands, with f32 in place of bf16.
    """
    properties = {name: f32 if value == bf16 else value for name, value in op.properties.items()}
    result = type(op).infer([cast(Tensor, operand.type) for operand in operands], properties)
    return type(op).create(operands=operands, result_types=[result], properties=properties, location=op.location)


def prepared(op: TensorOp) -> Evaluate:
    """Returns an op's semantics for NumPy arrays of any element types; the function no longer accesses the op."""
    if not computes_in_bf16(op):
        return op.prepare()
    types = [cast(Tensor, operand.type) for operand in op.operands]
    wide = Block(
        arg_types=[tensor(kind.get_shape(), f32) if kind.get_element_type() == bf16 else kind for kind in types]
    )
    evaluate, dtype, half = in_f32(op, wide.args).prepare(), numpy_dtype(op.type), numpy_dtype(bf16)

    def rounding(*operands: NumpyArray) -> NumpyArray:
        full = [operand.astype(np.float32) if operand.dtype == half else operand for operand in operands]
        return np.asarray(evaluate(*full)).astype(dtype, copy=False)

    return rounding


def constant_value(value: SSAValue) -> NumpyArray | None:
    """Returns the NumPy array of a constant, or of one that is broadcast, as a view; `None` for any other value."""
    if not isinstance(value, OpResult):
        return None
    op = value.owner
    if isinstance(op, TensorOp) and op.REPEATS:
        array = constant_value(op.operands[0])
        return None if array is None else prepared(op)(array)
    if op.operands:
        return None  # constants have no operands, and most other values have
    attribute = ConstantLike.get_constant_value(value)
    if isinstance(attribute, DenseIntOrFPElementsAttr):
        return dense_to_numpy(cast("DenseIntOrFPElementsAttr[Any]", attribute))
    return None


def stored_bytes(array: NumpyArray) -> int:
    """Returns the bytes of a constant's array without the axes along which it is broadcast."""
    axes = zip(array.shape, array.strides, strict=True)
    return array.itemsize * math.prod(extent for extent, stride in axes if stride)


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
    """Returns an integer or a list of integers in Python's notation, or `None` for attributes that upstream prints."""
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
