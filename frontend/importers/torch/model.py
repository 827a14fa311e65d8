"""`from_torch`: a PyTorch module as a module whose parameters are trained here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch.export.graph_signature import InputKind, OutputKind
from torch.utils import _pytree as pytree

from tensorgrad.errors import ArgumentError, OptionError
from tensorgrad.importers.parts import Part, as_input, declare, leaf_at, value_of
from tensorgrad.importers.torch.complex_pairs import Complex
from tensorgrad.importers.torch.evaluation import Evaluation, constant
from tensorgrad.importers.torch.exporting import Exporter, Graph
from tensorgrad.importers.torch.table import array_of, dtype_of
from tensorgrad.nn.parameters import Buffer, Parameter, buffer, param
from tensorgrad.tracing.location import user_line
from tensorgrad.tracing.tensor import Tensor
from tensorgrad.tracing.tracer import current_trace


class TorchModule(Part):
    """A PyTorch module as a module here: made by `tg.from_torch`.

    It has PyTorch's tree of names: `model.layers[0]` there is `getattr(model.layers, "0")` here, and the paths of
    parameters, `layers.0.weight`, are the same. Call it with arguments like the example's; tensors may have other
    shapes, for which the module is exported anew.

    Example:
        >>> import torch
        >>> tg.from_torch(torch.nn.Sequential(torch.nn.Linear(3, 2)), torch.ones(1, 3))
        TorchModule: 8 parameters
          0: Part (8)
            weight: f32[2, 3]
            bias: f32[2]
    """

    key_argument = "key"

    def __init__(self, exporter: Exporter):
        super().__init__()
        self._exporter = exporter
        module = exporter.module
        shapes = [tuple(leaf.shape) if isinstance(leaf, torch.Tensor) else None for leaf in exporter.leaves]
        updated = exporter.graph(True, shapes).updated
        leaves: dict[int, Any] = {}
        for name, parameter in module.named_parameters(remove_duplicate=False):
            if parameter.is_floating_point() or parameter.is_complex():
                self._declare(name, leaves.setdefault(id(parameter), _parameter(parameter)))
            else:
                exporter.constants[name] = constant(parameter.detach())
        persistent = module.state_dict().keys()
        for name, value in module.named_buffers(remove_duplicate=False):
            if name in updated or (value.dtype.is_floating_point and name in persistent):
                array = array_of(value)
                self._declare(name, leaves.setdefault(id(value), buffer(array.shape, array, array.dtype)))
            else:
                exporter.constants[name] = constant(value)

    @property
    def torch_complex(self) -> frozenset[str]:
        """The names of complex parameters, which are real ones here: the parts lie along a first axis."""
        parameters = self._exporter.module.named_parameters(remove_duplicate=False)
        return frozenset(name for name, parameter in parameters if parameter.is_complex())

    @property
    def torch_constants(self) -> Mapping[str, np.ndarray[Any, Any]]:
        """The arrays of PyTorch's state dict that are constants here: integers and booleans that never change."""
        exporter = self._exporter
        state = exporter.module.state_dict()
        return {name: value.cpu().numpy() for name, value in state.items() if name in exporter.constants}

    def _declare(self, name: str, leaf: Parameter | Buffer) -> None:
        """Puts a leaf at its path.

        Raises:
            OptionError: A name on the path is one that modules here have for something else.
        """
        for part in name.split("."):
            if hasattr(TorchModule, part) or part == "_exporter":
                raise OptionError(
                    f"{user_line()}: from_torch: {name!r} can't be called {part!r}: modules here use that name"
                )
        declare(self, name, leaf)

    def __call__(self, *args: Any, key: Any = None, **kwargs: Any) -> Any:
        """Runs the module.

        Args:
            *args: As in the example.
            key: A random key, for modules that draw numbers, as dropout does; not in the form of
                `tg.nn.inference(model)`.
            **kwargs: As in the example.

        Returns:
            What PyTorch's module returns, with tensors in place of PyTorch's.

        Raises:
            InputError: The arguments are unlike the example's, or a dtype differs.
            OptionError: An op is unsupported, or there is no key; the message names the module and its author's line.
            ShapeError: Shapes inside the module don't fit.
        """
        exporter = self._exporter
        leaves = exporter.flattened(args, kwargs)
        inputs = [
            _input(i, leaf, example) for i, (leaf, example) in enumerate(zip(leaves, exporter.leaves, strict=True))
        ]
        shapes = [value.shape if isinstance(value, (Tensor, Complex)) else None for value in inputs]
        graph = exporter.graph(self.training, shapes)
        path = "" if self._binding is None else self._binding.path
        results = Evaluation(path, key).run(graph.module, self._values(graph, inputs))
        return self._finished(graph, list(results))

    def _values(self, graph: Graph, inputs: list[Any]) -> list[Any]:
        """Returns the value of each of a graph's placeholders."""
        remaining = iter(inputs)
        values: list[Any] = []
        for kind, target in graph.inputs:
            name = str(target)
            if kind == InputKind.USER_INPUT:
                values.append(next(remaining))
            elif name in self._exporter.constants:
                values.append(self._exporter.constants[name])
            elif kind in (InputKind.PARAMETER, InputKind.BUFFER):
                value = value_of(leaf_at(self, name))
                values.append(Complex(value[0], value[1]) if name in self.torch_complex else value)
            else:
                value = graph.constants[name]
                values.append(constant(value) if isinstance(value, torch.Tensor) else value)
        return values

    def _finished(self, graph: Graph, results: list[Any]) -> Any:
        """Assigns new values to buffers, and returns the module's results in their structure."""
        values: list[Any] = []
        for (kind, name), value in zip(graph.outputs, results, strict=True):
            if kind == OutputKind.BUFFER_MUTATION:
                leaf = leaf_at(self, str(name))
                if current_trace() is not None or not isinstance(leaf, Buffer):
                    leaf.assign(value)
            else:
                values.append(value)
        return pytree.tree_unflatten(values, graph.structure)


def _parameter(parameter: torch.nn.Parameter) -> Parameter:
    parts = torch.stack([parameter.real, parameter.imag]) if parameter.is_complex() else parameter
    array = array_of(parts)
    declared = param(array.shape, array, array.dtype)
    return declared.requires_grad_(parameter.requires_grad)


def _input(number: int, value: Any, example: Any) -> Any:
    """Returns an argument as the module takes it.

    Raises:
        InputError: It is no tensor, or one of another dtype.
    """
    if not isinstance(example, torch.Tensor):
        return value
    if isinstance(value, torch.Tensor):
        return constant(value)
    where = f"{user_line()}: tensor {number} of the call"
    if example.is_complex():
        parts = (value.real, value.imag) if isinstance(value, Complex) else (np.real(value), np.imag(value))
        return Complex(*(as_input(part, dtype_of(example.dtype.to_real()), where) for part in parts))
    return as_input(value, dtype_of(example.dtype), where)


def from_torch(module: torch.nn.Module, *example: Any, **keywords: Any) -> TorchModule:
    """Returns a PyTorch module as a module here, to train, differentiate, run and export on every device.

    The module is exported by `torch.export` for the example's shapes, and for others when it is called with them. Its
    ops become ops here, under the paths of its parts and with the lines of its author. Parameters and buffers have
    PyTorch's names and layouts, and its present values; what is shared there is shared here, and what doesn't require a
    gradient is not trained. `tg.nn.from_torch(model, state_dict)` and `tg.nn.to_torch(model, values)` convert states.

    The result computes what the module would compute as it is now: after `module.train()`, with dropout (call it with
    `key=`) and with batch statistics, which update the buffers; in the form of `tg.nn.inference(model)`, what it would
    compute after `module.eval()`. A module that is in `eval()` now has only that form.

    Integers of 64 bits become those of 32. What is bfloat16 there, in regions of `torch.autocast` too, is bf16 here:
    each op computes in f32 and rounds its result, as PyTorch's kernels do. Parameters of integers and booleans, and
    buffers of them that never change, are constants.

    Args:
        module: The module; it is not changed, and not computed with again.
        *example: Arguments for one call: tensors of PyTorch, in any structure; other values are constants.
        **keywords: Keyword arguments for it.

    Returns:
        The module.

    Raises:
        ArgumentError: `module` is not a `torch.nn.Module`.
        OptionError: `torch.export` refuses the module, such as for control flow that depends on values; or its ops or
            dtypes are unsupported: the error names the op, its module and the author's line.
        DTypeError: A 64-bit integer doesn't fit 32 bits.

    Example:
        >>> import torch
        >>> model = tg.from_torch(torch.nn.Linear(3, 2), torch.ones(1, 3))
        >>> list(model.named_parameters()), model(np.zeros((5, 3))).shape
        (['weight', 'bias'], (5, 2))
    """
    if not isinstance(module, torch.nn.Module):
        raise ArgumentError(
            f"{user_line()}: from_torch takes a torch.nn.Module and arguments for it, got {type(module).__name__}; "
            "tg.nn.from_torch(model, state_dict) takes a state"
        )
    leaves, structure = pytree.tree_flatten((example, keywords))
    modes = {part: part.training for part in module.modules()}
    return TorchModule(Exporter(module, modes, leaves, structure))
