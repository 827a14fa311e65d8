"""Random PyTorch modules by NNSmith (Liu et al., ASPLOS 2023): graphs whose shapes a solver has made consistent.

NNSmith chooses ops, attributes and shapes, and has PyTorch's function of each op. Its module branches on values and
searches for inputs; neither is needed here, so that `Graph` takes its place.
"""

from __future__ import annotations

import importlib
from typing import Any

import torch
from judging import Subject
from torch import nn

# `make nightly` installs it; the types of the tests are checked without.
op, graph_gen, materialize, functions = (
    importlib.import_module(f"nnsmith.{name}")
    for name in ("abstract.op", "graph_gen", "materialize", "materialize.torch.forward")
)

MOST_ELEMENTS, MOST_OPS = 512, 8
"""The limits of each tensor and of each program."""

DTYPES = ("f32", "f64", "i32", "i64")
"""What programs start from; their ops also give booleans."""


class Graph(nn.Module):
    """A graph of NNSmith's as a module, which calls the function of each op in turn."""

    def __init__(self, graph: Any):
        super().__init__()
        self.inputs, self.outputs = list(graph.input_var()), graph.leaf_var()
        self.steps: list[tuple[Any, list[str], list[str]]] = []
        self.layers = nn.ModuleList()
        for instruction in graph.insts:
            if isinstance(instruction.iexpr.op, op.Input):
                continue
            function = functions.forward_fn(instruction.iexpr.op)
            if isinstance(function, nn.Module):
                self.layers.append(function)
            self.steps.append((function, instruction.iexpr.args, instruction.retvals()))

    def forward(self, *inputs: Any) -> dict[str, Any]:
        values = dict(zip(self.inputs, inputs, strict=True))
        for function, arguments, results in self.steps:
            computed = function(*(values[name] for name in arguments))
            values.update(zip(results, computed if isinstance(computed, list) else [computed], strict=True))
        return {name: values[name] for name in self.outputs}


def program(seed: int) -> Subject:
    """Returns the program of a seed."""
    torch.manual_seed(seed)
    ops = materialize.Model.init("torch", backend_target="cpu").operators()
    generator = graph_gen.model_gen(
        ops, "symbolic-cinit", MOST_OPS, seed, max_elem_per_tensor=MOST_ELEMENTS, dtype_choices=DTYPES
    )
    graph = generator.make_concrete()
    types = [graph.vars[name] for name in graph.input_var()]
    floats = [type.dtype.torch() for type in graph.vars.values() if type.dtype.torch().is_floating_point]
    precision = max(floats, key=lambda dtype: torch.finfo(dtype).eps, default=torch.float64)
    shapes = "".join(
        f"{name}: {type.shape} {type.dtype}\n" for name, type in graph.vars.items()
    )  # no seed gives them again
    inputs = [(tuple(type.shape), type.dtype.torch()) for type in types]
    return Subject(Graph(graph).eval(), inputs, precision, f"{graph}{shapes}")
