"""Graphs of PyTorch modules, for shapes as they are asked for."""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from torch.export import ExportedProgram, default_decompositions
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree

from tensorgrad.errors import InputError, OptionError
from tensorgrad.importers.torch.nodes import Origin, authors_line, is_python, op_name
from tensorgrad.importers.torch.rules import is_known
from tensorgrad.tracing.location import user_line


@dataclass(frozen=True)
class Graph:
    """A graph of functional ops, and what its inputs and outputs are.

    Attributes:
        module: The graph.
        inputs: For each placeholder its kind, and the name of the parameter or buffer.
        outputs: For each output its kind, and the name of the buffer that it is the new value of.
        constants: The values of constants, by name.
        structure: The structure of the results.
    """

    module: GraphModule
    inputs: tuple[tuple[InputKind, str | None], ...]
    outputs: tuple[tuple[OutputKind, str | None], ...]
    constants: Mapping[str, Any]
    structure: pytree.TreeSpec

    @property
    def updated(self) -> frozenset[str]:
        """The names of the buffers that a call changes."""
        return frozenset(name for kind, name in self.outputs if kind == OutputKind.BUFFER_MUTATION and name is not None)


@dataclass
class Exporter:
    """A PyTorch module, and the graphs of it that were needed so far.

    Attributes:
        module: The module, which is never changed.
        modes: Whether each of its parts was in training when it was imported.
        leaves: The example's leaves: tensors and other values, which are constants of the graphs.
        structure: The structure of the example: positional arguments and keywords.
        constants: The buffers that are constants here, by name.
    """

    module: torch.nn.Module
    modes: Mapping[torch.nn.Module, bool]
    leaves: Sequence[Any]
    structure: pytree.TreeSpec
    constants: dict[str, Any] = field(default_factory=dict, repr=False)
    _graphs: dict[Any, Graph] = field(default_factory=dict, repr=False)

    def __deepcopy__(self, memo: dict[int, Any]) -> Exporter:
        return self

    @property
    def has_inference_form(self) -> bool:
        """Whether the module may compute otherwise in `eval()` than it did when it was imported."""
        return any(self.modes.values())

    def graph(self, training: bool, shapes: Sequence[tuple[int, ...] | None]) -> Graph:
        """Returns the graph for tensors of these shapes.

        Args:
            training: Whether it is that of the module as it was; otherwise that of its inference form, `eval()`.
            shapes: The shape of each leaf that is a tensor; `None` for others.

        Raises:
            OptionError: `torch.export` refuses the module; says why.
        """
        key = (training or not self.has_inference_form, tuple(shapes))
        if key not in self._graphs:
            args, kwargs = pytree.tree_unflatten(
                [_example(leaf, shape) for leaf, shape in zip(self.leaves, shapes, strict=True)], self.structure
            )
            modes = self.modes if key[0] else dict.fromkeys(self.modes, False)
            with _in_modes(modes):
                self._graphs[key] = exported(self.module, args, kwargs)
        return self._graphs[key]

    def flattened(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """Returns the leaves of a call's arguments.

        Raises:
            InputError: They have another structure than the example's, or other values that are no tensors.
        """
        leaves, structure = pytree.tree_flatten((tuple(args), dict(kwargs)))
        if structure != self.structure:
            raise InputError(
                f"{user_line()}: the model takes arguments like the example's, {_described(self.structure)}, got "
                f"{_described(structure)}"
            )
        for leaf, example in zip(leaves, self.leaves, strict=True):
            if not isinstance(example, torch.Tensor) and leaf != example:
                raise InputError(
                    f"{user_line()}: the model was exported with {example!r}, got {leaf!r}: from_torch with that value "
                    "gives such a model"
                )
        return leaves


def exported(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Graph:
    """Exports a module for the shapes of an example, as functional ops.

    Raises:
        OptionError: `torch.export` refuses it; says why.
    """
    try:
        with _quiet():
            program = _functional(torch.export.export(module, args, kwargs, strict=False))
    except Exception as error:
        reason, line = _reason(error), authors_line(error)
        where = "" if line is None else f" ({line})"
        raise OptionError(f"from_torch: torch.export refuses {type(module).__name__}: {reason}{where}") from None
    signature = program.graph_signature
    for spec in signature.output_specs:
        if spec.kind in (OutputKind.USER_INPUT_MUTATION, OutputKind.PARAMETER_MUTATION):
            raise OptionError(
                f"from_torch: {type(module).__name__} changes its input or parameter {spec.target!r} in place"
            )
    unknown = {
        op_name(node): Origin.of(node, "").described(op_name(node))
        for node in _nodes(program)
        if not (is_python(node) or is_known(op_name(node)))
    }
    if unknown:
        raise OptionError(f"{user_line()}: from_torch: there is no rule for what is {'; '.join(unknown.values())}")
    assert program.call_spec.out_spec is not None
    return Graph(
        program.graph_module,
        tuple((spec.kind, spec.target) for spec in signature.input_specs),
        tuple((spec.kind, spec.target) for spec in signature.output_specs),
        dict(program.constants),
        program.call_spec.out_spec,
    )


def _reason(error: Exception) -> str:
    """Returns the first line of an error of `torch.export`; for results of unknown classes, what they are."""
    reason = str(error).strip().partition("\n")[0]
    unknown = re.match(r"Found <class '([\w.]+)'> in output, which is not a known type", reason)
    if unknown is None:
        return reason
    hint = "; use_cache=False leaves it out" if unknown[1].endswith("Cache") else ""
    return f"it returns a {unknown[1]}, which is no tree of tensors to PyTorch (torch.utils._pytree){hint}"


@contextmanager
def _quiet() -> Iterator[None]:
    """Keeps PyTorch from writing warnings and graphs to the terminal: errors say what there is to say."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _functional(program: ExportedProgram) -> ExportedProgram:
    """Returns a program without changes in place, of ops that the table has, as far as PyTorch can decompose others.

    PyTorch decomposes by tracing the whole program again, which takes half as long as the export: a program that
    already is so stays as it is.
    """
    for graph in program.graph_module.modules():
        if isinstance(graph, GraphModule):
            _detach_regions(graph)
    if all(is_python(node) or (is_known(op_name(node)) and _is_functional(node)) for node in _nodes(program)):
        return program
    return program.run_decompositions(_decompositions())


def _is_functional(node: Node) -> bool:
    """Returns whether a node calls an op that changes none of its arguments, by its schema; unknown ones may."""
    schema = getattr(node.target, "_schema", None)
    return schema is not None and not schema.is_mutable


@cache
def _decompositions() -> dict[Any, Callable[..., Any]]:
    """Returns PyTorch's decompositions of ops that the table doesn't have."""
    table: dict[Any, Callable[..., Any]] = dict(default_decompositions().items())
    return {op: rule for op, rule in table.items() if not is_known(str(op.overloadpacket))}


def _nodes(program: ExportedProgram) -> Iterator[Node]:
    for graph in program.graph_module.modules():
        if isinstance(graph, GraphModule):
            yield from (node for node in graph.graph.nodes if node.op == "call_function")


def _detach_regions(graph: GraphModule) -> None:
    """Detaches what regions of `torch.no_grad` compute, as decompositions dissolve them."""
    for node in list(graph.graph.nodes):
        if node.target is not torch.ops.higher_order.wrap_with_set_grad_enabled or node.args[0]:
            continue
        for result in list(node.users):
            with graph.graph.inserting_after(result):
                detached = graph.graph.call_function(torch.ops.aten.detach.default, (result,))
            detached.meta = dict(result.meta)
            result.replace_all_uses_with(detached, delete_user_cb=lambda user, own=detached: user is not own)
    graph.recompile()


def _example(leaf: Any, shape: tuple[int, ...] | None) -> Any:
    """Returns a leaf of the example in another shape; values don't matter."""
    if not isinstance(leaf, torch.Tensor) or tuple(leaf.shape) == shape:
        return leaf
    assert shape is not None
    return torch.zeros(shape, dtype=leaf.dtype)


@contextmanager
def _in_modes(modes: Mapping[torch.nn.Module, bool]) -> Iterator[None]:
    """Puts each part of a module into its mode inside the context."""
    before = {part: part.training for part in modes}
    try:
        for part, training in modes.items():
            part.training = training
        yield
    finally:
        for part, training in before.items():
            part.training = training


def _described(structure: pytree.TreeSpec) -> str:
    args, kwargs = pytree.tree_unflatten(["…"] * structure.num_leaves, structure)
    parts = [*map(str, args), *(f"{name}={value}" for name, value in kwargs.items())]
    return f"({', '.join(parts)})".replace("'…'", "…")
