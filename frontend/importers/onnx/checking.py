"""Checks a model against the table of ops, and reports everything unsupported in one error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import onnx
from onnx import AttributeProto, TensorProto, defs, helper, inliner

from tensorgrad.errors import OptionError
from tensorgrad.importers.onnx import rules
from tensorgrad.importers.onnx.elements import DTYPES, element_name, element_named
from tensorgrad.importers.onnx.table import Rule

RULES = rules.RULES
_ALIASES = {"ai.onnx": ""}
ELEMENT_ATTRIBUTES = ("to", "dtype", "output_datatype", "output_dtype", "softmax_precision")
"""The attributes that name an element type."""


def domain_of(node: onnx.NodeProto) -> str:
    """Returns the domain of a node, the default one as the empty name."""
    return _ALIASES.get(node.domain, node.domain)


def rule_of(node: onnx.NodeProto) -> Rule | None:
    """Returns the table's entry for a node."""
    return RULES.get((domain_of(node), node.op_type))


def label(node: onnx.NodeProto) -> str:
    """Returns a node's name for messages."""
    return f"{node.op_type} {node.name or next((name for name in node.output if name), '')!r}"


def graphs_of(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    """Returns the graphs among a node's attributes."""
    single = [attribute.g for attribute in node.attribute if attribute.type == AttributeProto.GRAPH]
    several = [
        graph for attribute in node.attribute if attribute.type == AttributeProto.GRAPHS for graph in attribute.graphs
    ]
    return [*single, *several]


def all_nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """Yields the nodes of a graph and of the graphs inside them."""
    for node in graph.node:
        yield node
        for inner in graphs_of(node):
            yield from all_nodes(inner)


def opset(model: onnx.ModelProto) -> int:
    """Returns the version of the default opset that a model imports."""
    return max((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=1)


def inlined(model: onnx.ModelProto) -> onnx.ModelProto:
    """Returns the model with functions inlined: its own, and those that define ops missing from the table."""
    if model.functions:
        model = inliner.inline_local_functions(model)
    versions = {_ALIASES.get(entry.domain, entry.domain): entry.version for entry in model.opset_import}
    for _ in range(8):  # a function's body may call functions
        missing = {
            (domain_of(node), node.op_type)
            for node in all_nodes(model.graph)
            if rule_of(node) is None and _has_body(node, versions)
        }
        if not missing:
            break
        try:
            model = inliner.inline_selected_functions(model, sorted(missing), inline_schema_functions=True)
        except RuntimeError:  # inlining fails on omitted optional inputs; the op is then unsupported
            break
    return model


def _has_body(node: onnx.NodeProto, versions: dict[str, int]) -> bool:
    domain = domain_of(node)
    try:
        schema: Any = defs.get_schema(node.op_type, versions.get(domain, 1), domain)
    except defs.SchemaError:
        return False
    return bool(schema.has_function or schema.has_context_dependent_function)


def problems(model: onnx.ModelProto) -> list[str]:
    """Returns a message for everything in a model that the table doesn't support."""
    reasons: dict[str, None] = {}
    for node in all_nodes(model.graph):
        known = rule_of(node)
        if known is None:
            reasons[
                f"{label(node)}: there is no op {node.op_type} {node.domain and f'of domain {node.domain}'}".rstrip()
            ] = None
            continue
        for attribute in node.attribute:
            reason = _attribute_problem(known, attribute)
            if reason:
                reasons[f"{label(node)}: {reason}"] = None
    for kind, values in (("input", model.graph.input), ("output", model.graph.output)):
        for value in values:
            element = element_of(value.type)
            if element is not None and element not in DTYPES:
                reasons[f"{kind} {value.name!r}: there are no tensors of {element_name(element)}"] = None
    for tensor in model.graph.initializer:
        if tensor.data_type not in DTYPES:
            reasons[f"initializer {tensor.name!r}: there are no tensors of {element_name(tensor.data_type)}"] = None
    for sparse in model.graph.sparse_initializer:
        reasons[f"initializer {sparse.values.name!r}: there are no sparse tensors"] = None
    return list(reasons)


def element_of(kind: onnx.TypeProto) -> int | None:
    """Returns the element type of a tensor, or of the elements of a sequence or optional."""
    which = kind.WhichOneof("value")
    if which == "sequence_type":
        return element_of(kind.sequence_type.elem_type)
    if which == "optional_type":
        return element_of(kind.optional_type.elem_type)
    return kind.tensor_type.elem_type if which == "tensor_type" else None


def _attribute_problem(known: Rule, attribute: onnx.AttributeProto) -> str:
    if attribute.name == "consumed_inputs":  # version 1 of many ops: which inputs may be overwritten
        return ""
    if attribute.name not in known.attributes:
        return f"attribute {attribute.name!r} is not supported"
    if attribute.type == AttributeProto.TENSOR and attribute.t.data_type not in DTYPES:
        return f"there are no tensors of {element_name(attribute.t.data_type)}"
    if attribute.name in ELEMENT_ATTRIBUTES:
        element = element_named(helper.get_attribute_value(attribute))
        if element not in DTYPES and element != TensorProto.UNDEFINED:
            return f"there are no tensors of {element_name(element)}"
    allowed = known.attributes[attribute.name]
    if allowed is None:
        return ""
    value = helper.get_attribute_value(attribute)
    text = value.decode() if isinstance(value, bytes) else str(value)
    return "" if text in allowed else f"attribute {attribute.name!r} is {text!r}, supported: {', '.join(allowed)}"


def check(model: onnx.ModelProto) -> None:
    """Raises `OptionError` listing everything in a model that is unsupported."""
    reasons = problems(model)
    if reasons:
        listed = "\n  ".join(reasons)
        raise OptionError(f"tg.onnx.load: the model asks for what is not supported:\n  {listed}")
