"""Judges programs that others wrote: PyTorch's results and gradients, beside those of the same module imported.

A program may amplify rounding without bound, and jump. So PyTorch runs it some more times with what each op computes
rounded at random, and ours has to agree as these runs do: within four times their differences, and some units of the
last place of the largest element. A program that other roundings take elsewhere is discarded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnxruntime
import torch
from elsewhere import by_xla
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NoKernelError
from torch import nn
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch_comparison import differentiated, factors, named, on_device, others_warnings, weighted
from xdsl.context import Context

import tensorgrad as tg
from tensorgrad.dialects.functions import find_function
from tensorgrad.dialects.signature import arguments_of
from tensorgrad.passes.stablehlo.tg_to_stablehlo import TgToStablehloPass
from tensorgrad.tools.parsing import parse_module
from tensorgrad.tracing import trees

DRAWS = 6
"""How many inputs are drawn for a program, until its results and gradients are finite."""

MOST_SENSITIVE = 1e-2
"""The relative change of a result by other roundings from which a program is discarded."""

ULPS = 256
"""What an otherwise stable result may be off, in units of the last place of its largest element (or of one)."""

AMPLIFIED = 4.0
"""What it may be off as a multiple of what other roundings change."""

GRADIENT = "gradient of "

FILES = ("onnx", "onnxruntime")
"""What stands for a device where a program is written as a file: we read it again, or ONNX Runtime runs it."""

TEXTS = ("stablehlo", "xla")
"""What stands for one where a program and its gradients are written as StableHLO: we read it, or XLA does."""

ROUNDINGS = 3
"""How often a program is run with other roundings."""

CONSTANTS = frozenset(("zeros", "ones", "full", "zeros_like", "ones_like"))

EXTREMES = frozenset(("amax", "amin", "max", "min"))

EXACT = frozenset(("floor", "ceil", "round", "trunc", "sign", "sgn", "clone")) | CONSTANTS | EXTREMES
"""Ops that aren't rounded otherwise: what they give is compared and counted with, extremes with what they are of."""

INSIDE = ("norm", "cumsum")
"""Parts of the names of ops whose operand is rounded otherwise too: a norm divides the rounding of its mean by what may
be small, and running sums, which PyTorch adds in f64, may be near 0."""

EMPTY = frozenset(("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"))
"""Ops whose results are still to be written."""


@dataclass
class Subject:
    """A program.

    Attributes:
        module: Its module; it may have parameters.
        inputs: The shape and dtype of each input.
        precision: The float dtype of least precision that it computes in.
        text: The program in words, to be read where it differs.
    """

    module: nn.Module
    inputs: list[tuple[tuple[int, ...], torch.dtype]]
    precision: torch.dtype
    text: str


@dataclass(frozen=True)
class Verdict:
    """What became of a program.

    Attributes:
        kind: `right`, `wrong`, `refused` by the importer, a device or ONNX Runtime, `discarded`, or `failed`, with
            another exception.
        reason: The message, or the results that differ, each with its error over its bound.
    """

    kind: str
    reason: str = ""


class Closed(nn.Module):
    """A module whose float inputs are parameters, so that it has gradients of all of them."""

    def __init__(self, module: nn.Module, inputs: list[torch.Tensor]):
        super().__init__()
        self.module = module
        self.is_float = [x.is_floating_point() for x in inputs]
        self.values = nn.ParameterList([nn.Parameter(x) for x in inputs if x.is_floating_point()])

    def forward(self, *others: Any) -> Any:
        values, rest = iter(self.values), iter(others)
        return self.module(*(next(values if is_float else rest) for is_float in self.is_float))


def judged(subject: Subject, seed: int, device: str) -> Verdict:
    """Returns what becomes of a program on a device or in one of `FILES`, from inputs that are drawn by a seed."""
    generator = torch.Generator().manual_seed(seed)
    epsilon = torch.finfo(subject.precision).eps
    with others_warnings():
        try:
            drawn = _finite(subject, generator)
            if drawn is None:
                return Verdict("discarded", "not finite")
            closed, others, expected = drawn
            reach = reach_of(_rounded_otherwise(closed, others, epsilon, generator), expected)
        except (RuntimeError, IndexError) as error:  # also of one rounding, which may leave a matrix indefinite
            return Verdict("discarded", f"PyTorch: {error}")
    run = _exported if device in FILES else _as_text if device in TEXTS else _own
    return compared(lambda: run(closed, others, expected, device), expected, reach, epsilon)


def compared(
    run: Callable[[], Mapping[str, np.ndarray]],
    expected: Mapping[str, np.ndarray],
    reach: Mapping[str, float],
    epsilon: float,
) -> Verdict:
    """Returns what becomes of a program.

    Args:
        run: Returns what we compute: some of the results, by name.
        expected: What they should be.
        reach: How far other roundings move each.
        epsilon: The machine epsilon of the float dtype of least precision.
    """
    if not all(moved <= MOST_SENSITIVE for moved in reach.values()):
        return Verdict("discarded", "it amplifies rounding")
    try:
        own = run()
    except (tg.errors.UserError, NoKernelError) as error:
        return Verdict("refused", " ".join(str(error).splitlines()[:2]))
    except Exception as error:  # whatever it is, it is what the user would see
        return Verdict("failed", f"{type(error).__name__}: {error}")
    bounds = {name: AMPLIFIED * reach[name] + ULPS * epsilon for name in expected}
    errors = {name: difference(value, expected[name]) for name, value in own.items()}
    wrong = [f"{name} {errors[name] / bounds[name]:.1f}" for name in own if not errors[name] <= bounds[name]]
    return Verdict("wrong", ", ".join(wrong)) if wrong else Verdict("right")


def _finite(
    subject: Subject, generator: torch.Generator
) -> tuple[Closed, list[torch.Tensor], dict[str, np.ndarray]] | None:
    """Returns a program with inputs from which its results and gradients are finite, with these; or `None`."""
    for draw in range(DRAWS):
        is_positive = draw >= DRAWS // 2  # as roots and logarithms need
        inputs = [sample(shape, dtype, generator, is_positive) for shape, dtype in subject.inputs]
        closed = Closed(subject.module, inputs)
        others = [x for x in inputs if not x.is_floating_point()]
        with _Extremes() as extremes:
            expected = _theirs(closed, others)
        if expected and extremes.are_moderate:
            again = _theirs(closed, others)
            is_settled = all(difference(again[name], value) <= MOST_SENSITIVE for name, value in expected.items())
            return (closed, others, expected) if is_settled else None
    return None


class _Extremes(TorchDispatchMode):
    """Notes whether any intermediate is infinite, NaN or beyond the range of 32-bit integers."""

    def __init__(self) -> None:
        super().__init__()
        self.are_moderate = True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        results = func(*args, **(kwargs or {}))
        if _name(func) in EMPTY:
            return results
        with _disable_current_modes():
            for value in pytree.tree_leaves(results):
                if isinstance(value, torch.Tensor) and value.numel() and value.dtype != torch.bool:
                    self.are_moderate &= bool((value.abs() < 2.0**31).all())
        return results


def _name(function: Any) -> str:
    """Returns the name of an op of PyTorch's, without its namespace and overload."""
    return function._schema.name.partition("::")[2]


def sample(
    shape: tuple[int, ...], dtype: torch.dtype, generator: torch.Generator, is_positive: bool = False
) -> torch.Tensor:
    """Returns a random input: small integers; floats of either sign, or between 0 and 1."""
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=generator) > 0
    if not dtype.is_floating_point:
        return torch.randint(-3 if dtype.is_signed else 0, 4, shape, generator=generator, dtype=dtype)
    values = torch.randn(shape, generator=generator, dtype=torch.float64)
    return (torch.sigmoid(values) if is_positive else values).to(dtype)


def _theirs(closed: Closed, others: list[torch.Tensor]) -> dict[str, np.ndarray]:
    """Returns what PyTorch computes: results, and gradients of all parameters; nothing where the results have none."""
    closed.zero_grad()
    results = named(closed(*others), torch.Tensor)
    losses = [
        (results[name].double() * torch.from_numpy(factor)).sum()
        for name, factor in factors(results).items()
        if results[name].requires_grad
    ]
    if losses:
        torch.stack(losses).sum().backward()
    parameters = {name: x for name, x in closed.named_parameters() if x.is_floating_point()}
    gradients = {f"{GRADIENT}{name}": _gradient(x) for name, x in parameters.items()}
    return {name: x.numpy(force=True) for name, x in (results | gradients).items()}


def _gradient(parameter: nn.Parameter) -> torch.Tensor:
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.clone()


def _rounded_otherwise(
    closed: Closed, others: list[torch.Tensor], epsilon: float, generator: torch.Generator
) -> Iterator[dict[str, np.ndarray]]:
    """Yields the results and gradients of runs in which everything that is computed is rounded otherwise."""
    for _ in range(ROUNDINGS):
        with _Roundings(epsilon, generator):
            yield _theirs(closed, others)


def reach_of(runs: Iterable[Mapping[str, np.ndarray]], expected: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Returns how far each result is from what is expected in the farthest of some runs; NaN if it is NaN in one."""
    differences = [[difference(run[name], value) for name, value in expected.items()] for run in runs]
    return dict(zip(expected, np.max(differences, axis=0).tolist(), strict=True))


class _Roundings(TorchDispatchMode):
    """Rounds what each op computes at random (Parker, Monte Carlo Arithmetic, 1997)."""

    def __init__(self, epsilon: float, generator: torch.Generator):
        super().__init__()
        self.epsilon, self.generator = epsilon, generator

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(name in _name(func) for name in INSIDE):
            with _disable_current_modes():
                args = (self._rounded(args[0]), *args[1:])
        results = func(*args, **(kwargs or {}))
        is_new = all(result.alias_info is None for result in func._schema.returns)
        if not is_new or _name(func) in EXACT | EMPTY:
            return results
        with _disable_current_modes():
            return pytree.tree_map(self._rounded, results)

    def _rounded(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.is_complex() and value.numel():
            parts = torch.view_as_real(value)  # of Fourier transforms, whose errors are relative to the largest element
            noise = torch.randn(parts.shape, generator=self.generator, dtype=torch.float64)
            return torch.view_as_complex((parts + self.epsilon * parts.abs().max() * noise).to(parts.dtype))
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            return value
        noise = torch.randn(value.shape, generator=self.generator, dtype=torch.float64)
        return (value * (1 + self.epsilon * noise)).to(value.dtype)


def _own(
    closed: Closed, others: list[torch.Tensor], expected: dict[str, np.ndarray], device: Any
) -> dict[str, np.ndarray]:
    """Returns what the imported module computes: op by op in NumPy, elsewhere compiled, with its derivative."""
    if device != "numpy":
        return _Step(closed, others, expected, device).run()
    model = tg.from_torch(closed, *others).initialized(device=device)
    weights = factors({name: value for name, value in expected.items() if not name.startswith(GRADIENT)})
    results = differentiated(model, others, {}, weights, device)
    own = {name: x.numpy() for name, x in results.items()}
    for name, parameter in model.named_parameters().items():
        gradient = parameter.grad
        own[f"{GRADIENT}{name}"] = np.zeros(parameter.shape) if gradient is None else gradient.numpy()
    assert own.keys() == expected.keys()
    return own


class _Step:
    """A program and the derivative of a sum of its results, compiled as one function of all arrays.

    Eager blocks wouldn't do: on the CPU, NumPy interprets those that don't recur.

    Attributes:
        arrays: The parameters and inputs.
        names: Those of the results.
        compiled: The function.
    """

    def __init__(
        self, closed: Closed, others: list[torch.Tensor], expected: dict[str, np.ndarray], device: tg.DeviceName
    ):
        model = tg.from_torch(closed, *others).initialized(device="numpy")
        leaves, rebuild = trees.flatten(model)
        parameters = {id(parameter): name for name, parameter in model.named_parameters().items()}
        places = [place for place, leaf in enumerate(leaves) if id(leaf) in parameters]
        order = [name for name in expected if not name.startswith(GRADIENT)]
        weights = factors({name: expected[name] for name in order})

        def loss(values: list[Any], inputs: list[Any]) -> Any:
            changed = dict(zip(places, values, strict=True))
            outputs = rebuild([changed.get(place, leaf) for place, leaf in enumerate(leaves)])(*inputs)
            results = named(outputs, tg.Tensor)
            return weighted(results, weights, "numpy"), [results[name] for name in order]

        def step(arrays: list[Any]) -> Any:
            values, inputs = arrays[: len(places)], arrays[len(places) :]
            (_, results), gradients = tg.value_and_grad(loss, has_aux=True)(values, inputs)
            return results, gradients

        self.arrays = [np.asarray(leaves[place]) for place in places]
        self.arrays += [on_device(x, "numpy").numpy() for x in others]
        self.names = [*order, *(f"{GRADIENT}{parameters[id(leaves[place])]}" for place in places)]
        self.compiled = tg.jit(step, device=device)

    def run(self) -> dict[str, np.ndarray]:
        """Returns the results and gradients, which have the same bits when they are computed again."""
        arrays = [tg.tensor(x, x.dtype, device="numpy") for x in self.arrays]  # arrays of f64 count as f32
        results, again = (self.by_name(self.compiled(arrays)) for _ in range(2))
        assert all(np.array_equal(again[name], value, equal_nan=True) for name, value in results.items()), "a race"
        return results

    def by_name(self, results: Any) -> dict[str, np.ndarray]:
        """Returns results by name."""
        return dict(zip(self.names, map(np.asarray, pytree.tree_leaves(results)), strict=True))


class Positional(tg.nn.Module):
    """A model whose arguments have names, as inputs of a file have, and whose results an order."""

    def __init__(self, model: Any, order: list[str]):
        super().__init__()
        self.model, self._order = model, order

    def __call__(self, **inputs: Any) -> Any:
        results = named(self.model(*inputs.values()), tg.Tensor)
        return tuple(results[name] for name in self._order)


def _exported(
    closed: Closed, others: list[torch.Tensor], expected: dict[str, np.ndarray], by: str
) -> dict[str, np.ndarray]:
    """Returns the results of the module written as an ONNX file, by ONNX Runtime or by what we read from the file."""
    order = [name for name in expected if not name.startswith(GRADIENT)]
    model = Positional(tg.from_torch(closed, *others).initialized(device="numpy"), order)
    inputs = {f"input{i}": on_device(x, "numpy").numpy() for i, x in enumerate(others)}
    with TemporaryDirectory() as folder:
        path = Path(folder) / "program.onnx"
        tg.onnx.save(model, path, {name: tg.spec(x.shape, x.dtype) for name, x in inputs.items()})
        if by == "onnxruntime":
            results = onnxruntime.InferenceSession(path).run(None, inputs)
        else:
            again = tg.onnx.load(path, float64=True).initialized(device="numpy")
            results = [x.numpy() for x in pytree.tree_leaves(again(**inputs))]
    return dict(zip(order, results, strict=True))


def _as_text(
    closed: Closed, others: list[torch.Tensor], expected: dict[str, np.ndarray], by: str
) -> dict[str, np.ndarray]:
    """Returns what the module and its derivative compute as StableHLO, by XLA or by what we read from the text."""
    step = _Step(closed, others, expected, "numpy")
    step.run()
    module = parse_module(step.compiled.module("tg"), "program")
    read = [int(slot.name.removeprefix("arrays.")) for slot in arguments_of(find_function(module, None))]
    TgToStablehloPass().apply(Context(), module)
    arrays = [step.arrays[number] for number in read]
    text = str(module)
    return step.by_name(by_xla(text)(arrays) if by == "xla" else tg.from_stablehlo(text)(*arrays))


def difference(own: np.ndarray, expected: np.ndarray) -> float:
    """Returns the largest difference, relative to the largest element or one; infinity between unlike shapes."""
    if own.shape != expected.shape or np.issubdtype(own.dtype, np.floating) != np.issubdtype(
        expected.dtype, np.floating
    ):
        return np.inf
    if not np.issubdtype(expected.dtype, np.floating):
        return 0.0 if np.array_equal(own, expected) else np.inf
    error = np.abs(own.astype(np.float64) - expected).max(initial=0)
    return float(error / max(1.0, np.abs(expected).max(initial=0)))
