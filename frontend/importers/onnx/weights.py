"""Which arrays of a file are weights: decided by what uses them.

Exporters store everything as arrays: weights, but also exponents, epsilons, masks and tables of angles. What each op
uses an input for is in the table of ops, as its `Role`. Roles are passed on backwards, through ops that only rearrange
an array (`Rule.carries`), through arithmetic on arrays of the file alone, and into the graphs of `If`, `Loop` and
`Scan`.

Some roles depend on the other operands too: a vector that multiplies features is learned, but what scales an input
before anything has been computed from it is preprocessing. `Kind` tells them apart.
"""

from __future__ import annotations

from collections import ChainMap, Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
import onnx
from onnx import helper

from tensorgrad.importers.onnx.checking import rule_of
from tensorgrad.importers.onnx.elements import FLOATS, NumpyArray, element_named
from tensorgrad.importers.onnx.evaluation import Graph, Step
from tensorgrad.importers.onnx.table import Role, Rule
from tensorgrad.runtime.conversion import kind_of

_SHAPE_READERS = {"Shape", "Size", "SequenceLength"}
_OF_ANGLES = {"Sin", "Cos"}


class Kind(IntEnum):
    """What a value is computed from; the largest of its operands' kinds."""

    FILE = 0
    """Arrays of the file alone."""
    INTEGERS = 1
    """Integers: positions, indices, shapes."""
    INPUT = 2
    """An input of floats, moved, scaled and shifted."""
    FEATURE = 3
    """What layers and reductions have computed."""


@dataclass(eq=False)
class Value:
    """A value of a graph, and where it comes from and goes.

    Attributes:
        name: Its name; that of an array of an inner graph is prefixed by its place where others have the same.
        array: The array of the file that it is.
        graph: The graph that holds the array.
        key: The array's name in that graph.
        kind: What it is computed from.
        maker: The operation that computes it.
        sources: The values of an enclosing or inner graph that it is a copy of.
        targets: The values that are copies of it.
        uses: The operations that take it, each with the position.
        roles: What it is used for.
    """

    name: str
    array: NumpyArray | None = None
    graph: Graph | None = None
    key: str = ""
    kind: Kind = Kind.FILE
    maker: Operation | None = None
    sources: list[Value] = field(default_factory=list["Value"])
    targets: list[Value] = field(default_factory=list["Value"])
    uses: list[tuple[Operation, int]] = field(default_factory=list["tuple[Operation, int]"])
    roles: set[Role] = field(default_factory=set[Role])

    def copies(self, *sources: Value) -> None:
        """Records that this value is a copy of another, or of one of several."""
        self.sources += sources
        for source in sources:
            source.targets.append(self)


@dataclass(eq=False)
class Operation:
    """A node, with its values; an op that isn't in the table has the rule of one that does nothing."""

    proto: onnx.NodeProto
    rule: Rule
    inputs: list[Value | None]
    outputs: list[Value] = field(default_factory=list["Value"])

    def others(self, position: int) -> Kind:
        """Returns the kind of all inputs but one."""
        kinds = [value.kind for i, value in enumerate(self.inputs) if value is not None and i != position]
        return max(kinds, default=Kind.FILE)

    def passes(self, position: int) -> bool:
        """Returns whether its result is that input, rearranged, or scaled and shifted by arrays of the file."""
        is_scaled = self.rule.is_arithmetic and self.others(position) is Kind.FILE
        return is_scaled or self.rule.carried(position)


_UNKNOWN = Rule(lambda node: None, {})


class Flow:
    """The values of a model's graph and their roles.

    Attributes:
        arrays: The arrays of the file, in the order of the graph: its own, then those of its nodes' graphs.
        inputs: The inputs of the graph.
    """

    def __init__(self, graph: Graph, floats: Collection[str], version: int):
        self.arrays: list[Value] = []
        self._values: list[Value] = []
        self._operations: list[Operation] = []
        self._version = version
        names = self._entered(graph, ChainMap(), "")
        repeated = Counter(value.key for value in self.arrays)
        for value in self.arrays:
            if repeated[value.key] == 1 or value.graph is graph:
                value.name = value.key
        self.inputs = [names[name] for name in graph.inputs]
        for value in self.inputs:
            if value.array is None:
                value.kind = Kind.INPUT if value.name in floats else Kind.INTEGERS
        for value in self._values:
            value.kind = _kind(value)
        self._assign_roles()

    # The values of graphs

    def _entered(self, graph: Graph, outer: ChainMap[str, Value], place: str) -> ChainMap[str, Value]:
        """Adds the values of a graph; returns all that are visible in it."""
        names = outer.new_child()
        for name, array in graph.constants.items():
            names[name] = Value(f"{place}/{name}", array, graph, name)
            self.arrays.append(names[name])
        for name in graph.inputs:
            if name not in graph.constants:
                names[name] = self._new(name)
        for step in graph.steps:
            self._operate(step, names, place)
        return names

    def _new(self, name: str) -> Value:
        value = Value(name, kind=Kind.FEATURE)  # the kind of what isn't known yet, such as a later step of a loop
        self._values.append(value)
        return value

    def _operate(self, step: Step, names: ChainMap[str, Value], place: str) -> None:
        proto = step.proto
        inputs = [names[name] if name else None for name in proto.input]
        operation = Operation(proto, rule_of(proto) or _UNKNOWN, inputs)
        self._operations.append(operation)
        for position, value in enumerate(inputs):
            if value is not None:
                value.uses.append((operation, position))
        bodies = [(name, value) for name, value in step.attributes.items() if isinstance(value, Graph)]
        label = f"{place}/{proto.name or proto.output[0]}".lstrip("/")
        results = [self._body(operation, body, names, f"{label}/{name}") for name, body in bodies]
        for position, name in enumerate(proto.output):
            names[name] = value = self._new(name)
            value.maker = operation
            value.copies(*(outputs[position] for outputs in results if position < len(outputs)))
            operation.outputs.append(value)

    def _body(self, operation: Operation, body: Graph, names: ChainMap[str, Value], place: str) -> list[Value]:
        """Adds the values of a node's graph; returns those that become the node's outputs."""
        op, sources = operation.proto.op_type, operation.inputs
        inner = self._entered(body, names, place)
        inputs, outputs = ([inner[name] for name in part] for part in (body.inputs, body.outputs))
        first = 1 if op == "Scan" and self._version < 9 else 0  # version 8 of Scan: the lengths of sequences
        for value, source in zip(inputs, sources[first:], strict=False):
            if source is not None:
                value.copies(source)
        if op == "Loop":  # a step's condition comes first, and is no output of the loop
            outputs = outputs[1:]
            for value, source in zip(inputs[2:], outputs, strict=False):
                value.copies(source)
        return outputs

    # Their roles

    def _assign_roles(self) -> None:
        for operation in self._operations:
            for position, value in enumerate(operation.inputs):
                if value is None:
                    continue
                if operation.rule.needs_constant(position):
                    _assign(value, Role.CONSTANT)
                role = operation.rule.role(position)
                role = role and _role(operation, position, role)
                if role:
                    _assign(value, role)


def _kind(value: Value) -> Kind:
    """Returns what a value is computed from, where the kinds of values before it are known."""
    if value.sources:
        return max(source.kind for source in value.sources)
    operation = value.maker
    if operation is None:
        return value.kind
    op, rule = operation.proto.op_type, operation.rule
    largest = max((operand.kind for operand in operation.inputs if operand is not None), default=Kind.FILE)
    if op == "Cast" and not _casts_to_float(operation):
        return min(largest, Kind.INTEGERS)
    if op in _SHAPE_READERS:
        return Kind.INTEGERS
    if any(_is_learned(operation, position) for position in range(len(operation.inputs))):
        return Kind.FEATURE
    if largest < Kind.INPUT or rule.is_arithmetic or rule.carries:
        return largest
    return Kind.FEATURE


def _casts_to_float(operation: Operation) -> bool:
    to = next(attribute for attribute in operation.proto.attribute if attribute.name == "to")
    return element_named(helper.get_attribute_value(to)) in FLOATS


def _is_learned(operation: Operation, position: int) -> bool:
    """Returns whether an input holds weights, or a table, of the file."""
    value, role = operation.inputs[position], operation.rule.role(position)
    return (
        value is not None
        and role in (Role.WEIGHT, Role.TABLE)
        and value.kind is Kind.FILE
        and any(_is_float(array) for array in _arrays(value))
        and _role(operation, position, role) is not None
    )


def _role(operation: Operation, position: int, role: Role) -> Role | None:
    """Returns what an operation uses an input for, given what the others are; None for data and constants."""
    operand, others, result = operation.inputs[position], operation.others(position), operation.outputs[0]
    if role is Role.WEIGHT:
        is_angle = others <= Kind.INTEGERS and _is_used(result, _takes_angles)
        return None if is_angle or _is_identity(operation) else role
    if role is Role.TABLE:
        return None if operation.rule.carried(position) and _is_used(result, _rotates) else role
    if role is Role.GAIN:
        return role if others is Kind.FEATURE else None
    if role is Role.OFFSET:
        return Role.TERM if others is Kind.FEATURE and not _is_divided(result) else None
    if role is not Role.TERM:
        return role
    if max(others, operand.kind if operand else Kind.FILE) < Kind.INPUT:
        return None
    products = (value for i, value in enumerate(operation.inputs) if value is not None and i != position)
    return Role.BIAS if any(map(_has_single_result, products)) else role


def _is_identity(operation: Operation) -> bool:
    """Returns whether a normalization's own scale is 1, and another follows: a normalization of groups."""
    if operation.proto.op_type != "InstanceNormalization" or operation.inputs[1] is None:
        return False
    scales = list(_arrays(operation.inputs[1]))
    normal = [operation.outputs[0]]
    normal += [user.outputs[0] for user, position in normal[0].uses if user.rule.carried(position)]
    is_scaled = any(
        user.proto.op_type == "Mul" and user.others(position) is Kind.FILE
        for value in normal
        for user, position in value.uses
    )
    return is_scaled and all(np.all(scale == 1) for scale in scales)


def _is_divided(result: Value) -> bool:
    """Returns whether a value is a dividend: what was subtracted is a mean, and what divides a standard deviation."""
    return any(user.proto.op_type == "Div" and position == 0 for user, position in result.uses)


def _has_single_result(value: Value) -> bool:
    """Returns whether a value is a product of weights with a single row or column, so that its bias is one number."""
    maker = _origin(value).maker
    if maker is None or Role.WEIGHT not in maker.rule.roles.values():
        return False
    weights = (weight for i, weight in enumerate(maker.inputs) if weight and maker.rule.role(i) is Role.WEIGHT)
    return any(1 in array.shape for weight in weights for array in _arrays(weight))


def _takes_angles(operation: Operation, position: int) -> bool:
    return operation.proto.op_type in _OF_ANGLES


def _rotates(operation: Operation, position: int) -> bool:
    """Returns whether rows of a table are fixed: angles, or factors of features as those of a rotary embedding are.

    The factors of other rows, as in the factorization of a matrix, are learned.
    """
    others = [_origin(value) for i, value in enumerate(operation.inputs) if value is not None and i != position]
    is_factor = operation.proto.op_type == "Mul" and operation.others(position) is Kind.FEATURE
    return _takes_angles(operation, position) or (is_factor and all(value.array is None for value in others))


def _origin(value: Value) -> Value:
    """Returns the value that this one is a rearrangement of."""
    while value.maker is not None and value.maker.rule.carried(0) and value.maker.inputs[0] is not None:
        value = value.maker.inputs[0]
    return value


def _is_used(value: Value, test: Callable[[Operation, int], bool]) -> bool:
    """Returns whether a value, however rearranged, is used, and only by operations that pass a test."""
    uses = list(_final_uses(value))
    return bool(uses) and all(test(*use) for use in uses)


def _final_uses(value: Value) -> Iterator[tuple[Operation, int]]:
    """Yields the uses of a value by operations that do more than pass it on."""
    waiting, visited = [value], {value}
    while waiting:
        current = waiting.pop()
        following = list(current.targets)
        for user, position in current.uses:
            if user.passes(position):
                following += user.outputs
            else:
                yield user, position
        waiting += [follower for follower in following if follower not in visited]
        visited.update(following)


def _arrays(value: Value) -> Iterator[NumpyArray]:
    """Yields the arrays of the file that a value is, however rearranged."""
    waiting, visited = [value], {value}
    while waiting:
        current = waiting.pop()
        if current.array is not None:
            yield current.array
        new = [source for source, _ in _before(current, Role.WEIGHT) if source not in visited]
        visited.update(new)
        waiting += new


def _before(value: Value, role: Role) -> list[tuple[Value, Role]]:
    """Returns the values that have a role because this one, computed from them, has it.

    Of what is computed into a weight, or joined with data, single numbers are not weights.
    """
    copied, operation = [(source, role) for source in value.sources], value.maker
    if operation is None:
        return copied
    op, rule = operation.proto.op_type, operation.rule
    operands = [(i, operand) for i, operand in enumerate(operation.inputs) if operand is not None]
    if role is Role.CONSTANT:
        return copied + [(operand, role) for _, operand in operands if op not in _SHAPE_READERS]
    is_computed = rule.is_arithmetic and value.kind is Kind.FILE
    is_joined = value.kind is not Kind.FILE
    passed = Role.TERM if role in (Role.WEIGHT, Role.BIAS) and (is_computed or is_joined) else role
    return copied + [(operand, passed) for i, operand in operands if is_computed or rule.carried(i)]


def _assign(value: Value, role: Role) -> None:
    """Gives a role to a value, and to those that it is computed from."""
    waiting = [(value, role)]
    while waiting:
        current, own = waiting.pop()
        if own not in current.roles:
            current.roles.add(own)
            waiting += _before(current, own)


# The decision


def is_trainable(value: Value) -> bool:
    """Returns whether an array can be a parameter: it is of floats that only the running program looks at."""
    return value.array is not None and _is_float(value.array) and not {Role.CONSTANT, Role.STATISTIC} & value.roles


def is_weight(value: Value) -> bool:
    """Returns whether an array is a parameter by what uses it."""
    return is_trainable(value) and any(_accepts(role, value.array) for role in value.roles if value.array is not None)


def is_statistic(value: Value) -> bool:
    """Returns whether an array is a running mean or variance."""
    return (
        value.array is not None
        and _is_float(value.array)
        and Role.STATISTIC in value.roles
        and Role.CONSTANT not in value.roles
    )


def _is_float(array: NumpyArray) -> bool:
    return kind_of(array.dtype) == "f"


def _accepts(role: Role, array: NumpyArray) -> bool:
    """Returns whether an array with a role is a weight: numbers, masks and arrays of equal elements may not be."""
    axes = sum(extent > 1 for extent in array.shape)
    if role is Role.WEIGHT or not array.size:
        return array.size > 0
    if role is Role.BIAS:
        return array.ndim > 0 and (axes == 0 or not _is_mask(array, axes))
    return (axes == 1 if role is Role.GAIN else axes > 0) and not _is_mask(array, axes)


def _is_mask(array: NumpyArray, axes: int) -> bool:
    """Returns whether an array is a mask: elements that aren't finite, one number besides 0, or one everywhere."""
    low, high = array.min(), array.max()
    if not (np.isfinite(low) and np.isfinite(high)):
        return True
    if low == high:
        return axes > 1 and low != 0
    return array.size > 2 and 0 in (low, high) and bool(np.all((array == low) | (array == high)))
