"""Devices of eager tensors: NumPy, which computes immediately, and others, which record and compile blocks."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from tensorgrad.dialects.tg.base import NumpyArray, TensorOp, ints
from tensorgrad.dialects.tg.elementwise.arithmetic import AddOp
from tensorgrad.dialects.tg.shape import BroadcastOp, ReshapeOp
from tensorgrad.eager.blocks import Load, Program, RunBlock
from tensorgrad.eager.changes import AutogradDevice
from tensorgrad.eager.folding import Folded, Graph, Pass, folded, known_again, known_pass
from tensorgrad.eager.recording import (
    MOST_STRUCTURES,
    Recording,
    Structure,
    constant_of,
    is_constant,
    splat_of,
)
from tensorgrad.eager.tape import Edge, Operand, TapeNode
from tensorgrad.eager.templates import Template
from tensorgrad.eager.values import Kind, Value, kind_of, read_only, value_of
from tensorgrad.errors import ArgumentError, DeviceError, DeviceLostError, DTypeError, ProgramError, TensorgradError
from tensorgrad.runtime.outputs import OutputHandle
from tensorgrad.tracing.dtypes import SHORT, DType
from tensorgrad.tracing.grad_mode import is_grad_enabled
from tensorgrad.tracing.location import user_place
from tensorgrad.tracing.tensor import Array
from tensorgrad.tracing.tensor_device import TracedFunction

Made = TypeVar("Made")


class _Applicable(NamedTuple):
    """A function that is applied as one op; see `TracedFunction`."""

    template: Template
    allows: Callable[[Sequence[Any]], bool] | None
    rebuild: Callable[[list[Any]], Any]


_UNKNOWN: Any = object()

_log = logging.getLogger("tensorgrad")

MOST_PROGRAMS = 128
"""How many block structures a device keeps programs for, and graphs it keeps templates for."""

MOST_TEMPLATES = 4096
"""How many ops and functions a device keeps; an evicted one is treated as new when it recurs."""

MOST_QUICK = 8192
"""How many ops are cached by the identities of their properties."""

LONGEST = 1000
"""The number of ops after which a block is computed even though no value has been read."""


class EagerDevice(AutogradDevice):
    """A device that eager tensors live on.

    Args:
        name: Its name.
        lacks: The dtypes that it does not support.
    """

    def __init__(self, name: str, lacks: frozenset[DType] = frozenset()):
        self.name = name
        self._lacks = lacks
        self._templates: OrderedDict[Hashable, Template] = OrderedDict()
        self._numbers: dict[tuple[DType, float], Value] = {}
        # Keyed by the identities of properties, which the entry keeps alive: hashing attributes dominates otherwise.
        self._quick: dict[tuple[object, ...], tuple[Template, Mapping[str, Attribute]]] = {}

    def template(self, kind: type[TensorOp], operands: Sequence[Kind], properties: Mapping[str, Attribute]) -> Template:
        """Returns the template of an op on operands of these types."""
        quick = (kind, *operands, *map(id, properties.values()))
        known = self._quick.get(quick)
        if known is not None:
            return known[0]
        key = (kind, tuple(operands), *properties.items())
        result = self._templates.get(key)
        if result is None:
            result = Template.of_op(kind, operands, properties)
            if result.results[0].dtype in self._lacks:
                raise DTypeError(f"{result.name}: {self.name} has no {SHORT[result.results[0].dtype]}")
            self._keep(key, result)
        if len(self._quick) == MOST_QUICK:
            self._quick.clear()
        self._quick[quick] = result, dict(properties)
        return result

    def _keep(self, key: Hashable, template: Template) -> None:
        self._templates[key] = template
        if len(self._templates) > MOST_TEMPLATES:
            self._templates.popitem(last=False)
            self._quick.clear()

    def operand(self, x: Array) -> Operand:
        """Returns a tensor's current value, and the edge of its derivative.

        Raises:
            ArgumentError: It lives on another device.
        """
        own = x.live
        if own is None:
            return self._from_host(x.source), None
        if own.device is not self:
            raise ArgumentError(
                f"a tensor on {own.device.name} is used together with one on {self.name}; "
                f"x.to({self.name!r}) makes one there"
            )
        value: Value = own.value
        if value.version is not None and value.version.is_over:
            self.update(x)
            value = own.value
        return value, own.edge

    def computed(self, x: Array) -> NumpyArray | OutputHandle:
        """Returns the values of a tensor that lives here, wherever they are stored."""
        return self.operand(x)[0].compute()

    def _from_host(self, source: Any) -> Value:
        if not isinstance(source, np.ndarray):
            return Value(kind_of(source.shape, source.dtype), source)
        if is_constant(source):
            return constant_of(source)
        single = splat_of(source)
        return value_of(source) if single is None else self._splat(constant_of(single), source.shape)

    def _splat(self, single: Value, shape: tuple[int, ...]) -> Value:
        properties = {"shape": ints(shape), "dims": ints([])}
        return self.run(self.template(BroadcastOp, [single.kind], properties), [single], None)[0][0]

    def full(self, kind: Kind, number: float) -> Operand:
        """Returns a tensor filled with a number that seeds backward passes."""
        single = self._numbers.get((kind.dtype, number))
        if single is None:
            single = self._numbers[kind.dtype, number] = constant_of(np.array(number, kind.dtype))
        return (self._splat(single, kind.shape) if kind.shape else single), None

    def applied(self, template: Template, operands: Sequence[Operand]) -> list[Operand]:
        """Applies a template, and records it on the tape if derivatives flow through it."""
        edges = None
        if is_grad_enabled():
            edges = [edge for _, edge in operands]
            edges = None if edges.count(None) == len(edges) else edges
        results, new_edges = self.run(template, [value for value, _ in operands], edges)
        return (
            [(result, None) for result in results] if new_edges is None else list(zip(results, new_edges, strict=True))
        )

    def sum(self, x: Operand, y: Operand) -> Operand:
        """Returns the sum of two tensors of the same type."""
        return self.applied(self.template(AddOp, [x[0].kind, y[0].kind], {}), [x, y])[0]

    def copy(self, x: Operand) -> Operand:
        """Returns the same values, as a distinct value."""
        kind = x[0].kind
        return self.applied(self.template(ReshapeOp, [kind], {"shape": ints(kind.shape)}), [x])[0]

    def wrap(self, value: Value, edge: Edge | None) -> Array:
        """Returns a tensor with a value."""
        return Array.eager(value, self, edge)

    def apply(self, kind: type[TensorOp], operands: Sequence[Array], properties: Mapping[str, Attribute]) -> Array:
        """Applies an op; see `TensorDevice.apply`."""
        pairs = [self.operand(operand) for operand in operands]
        template = self.template(kind, [value.kind for value, _ in pairs], properties)
        return self.wrap(*self.applied(template, pairs)[0])

    def _function(self, function: FuncOp, key: Hashable) -> Template:
        """Returns the template of a traced function."""
        template = self._templates.get(key)
        if template is None:
            template = Template.of_function(function)
            self._keep(key, template)
        else:
            self._templates.move_to_end(key)
        return template

    def call(self, function: FuncOp, operands: Sequence[Array], key: Hashable) -> list[Array]:
        """Applies a traced function; see `TensorDevice.call`."""
        template = self._function(function, key)
        pairs = [self.operand(operand) for operand in operands]
        assert all(value.kind is kind for (value, _), kind in zip(pairs, template.operands, strict=True)), template.name
        return [self.wrap(*result) for result in self.applied(template, pairs)]

    def change(self, function: FuncOp, changed: Sequence[Array], others: Sequence[Array], key: Hashable) -> None:
        """Changes tensors by a traced function; see `TensorDevice.change`."""
        values = [self._present(x) for x in (*changed, *others)]
        results, _ = self.run(self._function(function, key), values, None)
        line = user_place()
        for x, value in zip(changed, results, strict=True):
            self.take(x, value, line)

    def _present(self, x: Array) -> Value:
        """Returns a tensor's current value, as `operand` does."""
        own = x.live
        if own is None or own.device is not self:
            return self.operand(x)[0]
        value: Value = own.value
        return self.operand(x)[0] if value.is_outdated else value

    def output(self, source: OutputHandle | NumpyArray) -> Array:
        """Returns the output of a program on this device as a tensor."""
        values = read_only(source) if isinstance(source, np.ndarray) else source
        return self.wrap(Value(kind_of(source.shape, source.dtype), values), None)

    def made(self, array: NumpyArray, what: str = "tensor") -> Array:
        """Returns a new tensor that takes over an array and its memory.

        Args:
            array: The array.
            what: The function's name in error messages.

        Raises:
            DTypeError: The device does not support its dtype.
        """
        self._check_has(array.dtype, what)
        return self.wrap(value_of(array), None)

    def moved(self, x: Array) -> Array:
        """Returns a copy of another device's tensor that propagates derivatives.

        Raises:
            DTypeError: The device does not support its dtype.
            TensorgradError: The compiler or the other device reported an error.
        """
        source = x.tensor_device
        assert isinstance(source, EagerDevice)
        self._check_has(x.dtype, "to")
        return self.wrap(*self.arrived(source.operand(x), source))

    def has(self, dtype: DType) -> bool:
        """Returns whether the device supports a dtype."""
        return dtype not in self._lacks

    def _check_has(self, dtype: DType, what: str) -> None:
        if not self.has(dtype):
            raise DTypeError(f"{what}: {self.name} has no {SHORT[dtype]}")


class NumpyDevice(EagerDevice):
    """NumPy: the reference, which computes each op immediately."""

    def __init__(self) -> None:
        super().__init__("numpy")

    def synchronize(self) -> None:
        """Does nothing: everything has been computed."""

    def run(
        self, template: Template, operands: Sequence[Value], edges: Sequence[Edge | None] | None
    ) -> tuple[list[Value], list[Edge | None] | None]:
        """Computes the results of an application; see `AutogradDevice.run`."""
        outputs = template.evaluate([operand.numpy() for operand in operands])
        results = [Value(kind, output) for kind, output in zip(template.results, outputs, strict=True)]
        if edges is None:
            return results, None
        derivative = template.derivative(tuple([edge is not None for edge in edges]))
        return results, TapeNode(derivative, edges, operands, results).made() if derivative.has_any else None


def _compute_alone(recording: Recording, value: Value, error: TensorgradError | None) -> None:
    """Computes a value of a block by NumPy, or sets its error."""
    value.recording = None
    if error is None:
        try:
            (source,) = Program(recording, [value], _never, compiled_at=2).run(recording)
        except TensorgradError as computing_error:
            value.error = computing_error
        else:
            value.source = source
    else:
        value.error = error


def _never(module: ModuleOp) -> RunBlock:
    raise AssertionError("a block that is computed once is interpreted")


class RecordingDevice(EagerDevice):
    """A device that computes blocks of ops, each with a program of its own.

    Args:
        name: Its name.
        load: Compiles a block and loads it.
        compiled_at: How many times a block must occur before it is compiled; until then NumPy interprets it.
        lacks: The dtypes that it does not support.

    Attributes:
        flushes: The number of blocks it has computed.
        lock: Held by the thread that records or computes.
    """

    def __init__(self, name: str, load: Load, compiled_at: int, lacks: frozenset[DType] = frozenset()):
        super().__init__(name, lacks)
        self._load, self._compiled_at = load, compiled_at
        self.lock = threading.RLock()
        self._root = Structure()
        self._recording = Recording(self, self._root)
        self._programs: OrderedDict[Hashable, Program] = OrderedDict()
        self._functions: OrderedDict[Hashable, _Applicable | None] = OrderedDict()
        self._folded: OrderedDict[Hashable, Folded] = OrderedDict()
        self._graphs: OrderedDict[Hashable, None] = OrderedDict()
        self._longest = LONGEST
        self.flushes = 0

    @property
    def programs(self) -> Sequence[Program]:
        """The programs that it keeps."""
        return list(self._programs.values())

    def run(
        self, template: Template, operands: Sequence[Value], edges: Sequence[Edge | None] | None
    ) -> tuple[list[Value], list[Edge | None] | None]:
        """Records an application; see `AutogradDevice.run`."""
        with self.lock:
            recording = self._recording
            record = recording.record(template, operands, edges)
            if recording.structure.size >= self._longest:
                period = recording.period()
                self.flush()
                self._longest = LONGEST // period * period if 0 < period <= LONGEST else LONGEST
            return record

    def apply_traced(
        self, key: Hashable, operands: Sequence[Array], traced: Callable[[], TracedFunction | None]
    ) -> Any | None:
        """Applies a function as one op; see `TensorDevice.apply_traced`."""
        entry = self._functions.get(key, _UNKNOWN)
        if entry is _UNKNOWN:
            entry = self._functions[key] = self._applicable(traced())
            if len(self._functions) > MOST_TEMPLATES:
                self._functions.popitem(last=False)
        if entry is None or (entry.allows is not None and not entry.allows(operands)):
            return None
        values: list[Value] = []
        edges: list[Edge | None] = []
        for x in operands:
            own = x.live
            if own is None or own.device is not self or own.value.version is not None:
                value, edge = self.operand(x)
            else:
                value, edge = own.value, own.edge
            values.append(value)
            edges.append(edge)
        is_on_tape = edges.count(None) < len(edges) and is_grad_enabled()
        results, new_edges = self.run(entry.template, values, edges if is_on_tape else None)
        if new_edges is None:
            return entry.rebuild([Array.eager(result, self, None) for result in results])
        return entry.rebuild([Array.eager(result, self, edge) for result, edge in zip(results, new_edges, strict=True)])

    def _applicable(self, traced: TracedFunction | None) -> _Applicable | None:
        if traced is None:
            return None
        template = Template.of_function(traced.function)
        if any(kind.dtype in self._lacks for kind in template.results):
            return None
        return _Applicable(template, traced.allows, traced.rebuild)

    def whole_pass(self, root: TapeNode, place: int, seed: Kind) -> Pass | None:
        """Returns the backward pass from a result as one application, shared by all graphs of a structure.

        Where blocks are interpreted at first, so is the pass through a new graph, node by node: it may not recur.
        """
        recording = self._recording
        number = recording.target((root, place))
        known = None if number is None else recording.structure.passes.get(number)
        if known is not None:
            return known_again(known, recording)
        graph = Graph.behind(root, place)
        if graph is None or (self._compiled_at > 1 and self._is_new(graph.key)):
            return None
        folding = _kept(self._folded, graph.key, lambda: folded(graph, seed))
        known = None if number is None else known_pass(graph, folding, recording)
        if number is not None and known is not None:
            recording.structure.passes[number] = known
        return folding.through(graph)

    def _is_new(self, graph: Hashable) -> bool:
        """Returns whether no pass has gone through such a graph yet."""
        if graph in self._graphs:
            self._graphs.move_to_end(graph)
            return False
        self._graphs[graph] = None
        if len(self._graphs) > MOST_PROGRAMS:
            self._graphs.popitem(last=False)
        return True

    def synchronize(self) -> None:
        """Runs all recorded computations.

        Raises:
            TensorgradError: A value could not be computed.
        """
        for value in self._flushed():
            if value.error is not None:
                raise value.error

    def flush(self) -> None:
        """Computes everything recorded that is still reachable.

        An error of the compiler or the device about a value is raised when that value is read.
        """
        self._flushed()

    def _flushed(self) -> list[Value]:
        """Computes what is recorded, as `flush` does; returns the values."""
        with self.lock:
            recording = self._recording
            if self._root.total > MOST_STRUCTURES:
                self._root = Structure()
                self._programs.clear()
            self._recording = Recording(self, self._root)
            alive = recording.end()
            if not alive:
                return alive
            try:
                self._compute(recording, alive)
            except BaseException:
                self._recording = recording  # interrupted: everything is still to be computed
                raise
            self.flushes += 1
            return alive

    def _compute(self, recording: Recording, alive: Sequence[Value]) -> None:
        """Computes values; if the device fails, NumPy computes each separately, so only failing ones are lost."""
        program = self._program(recording, alive)
        try:
            results = program.run(recording)
        except TensorgradError as error:
            apart = isinstance(error, DeviceError | ProgramError) and not isinstance(error, DeviceLostError)
            apart = apart and len(alive) > 1
            if apart:
                _log.warning("a block of tensors on %s is computed by NumPy, value by value: %s", self.name, error)
            for value in alive:
                _compute_alone(recording, value, error if not apart else None)
            return
        for value, source in zip(alive, results, strict=True):
            value.recording, value.source = None, source
        program.note(recording, alive)

    def _program(self, recording: Recording, alive: Sequence[Value]) -> Program:
        key = recording.key(alive)
        return _kept(self._programs, key, lambda: Program(recording, alive, self._load, self._compiled_at))


def _kept(cache: OrderedDict[Hashable, Made], key: Hashable, make: Callable[[], Made]) -> Made:
    """Returns the cached object of a structure, creating it on a miss, and moves it to the end (LRU)."""
    result = cache.get(key)
    if result is None:
        result = cache[key] = make()
        if len(cache) > MOST_PROGRAMS:
            cache.popitem(last=False)
    cache.move_to_end(key)
    return result
