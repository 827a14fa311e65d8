"""Times single kernels: products, convolutions, row reductions, streams, scans, scatters, sorts, with their throughput.

All operands except integers stay on the device. Each run reads one element of the result, to wait for its completion.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import tensorgrad as tg
from benchmarks.harness import Contestant
from benchmarks.peers.tinygrad_peer import find_dawn
from tensorgrad.driver.compiling.compilation import compile_recipe
from tensorgrad.driver.compiling.recipe import Recipe
from tensorgrad.driver.compiling.running import Phases
from tensorgrad.driver.device import find_device
from tensorgrad.passes.tensors.simplify import SimplifyPass
from tensorgrad.runtime.backend import Executable

Arrays = dict[str, np.ndarray]
ROWS, COLUMNS = 4096, 1024
STREAM = 1 << 24
TABLE, WIDTH, TOKENS = 50_000, 64, 4096


@dataclass(frozen=True)
class Kernel:
    """A computation on arrays.

    Attributes:
        arrays: Returns the operands, by name.
        ours: The function in tensorgrad, which takes them as keyword arguments.
        torch: The function in PyTorch.
        tinygrad: The function in tinygrad; `None` if it has none.
        flops: The number of floating-point operations.
        bytes: The number of bytes that have to be read and written.
    """

    arrays: Callable[[], Arrays]
    ours: Callable[..., Any]
    torch: Callable[..., Any]
    tinygrad: Callable[..., Any] | None
    flops: int
    bytes: int


def _normal(**shapes: tuple[int, ...]) -> Arrays:
    generator = np.random.default_rng(0)
    return {name: generator.standard_normal(shape, dtype=np.float32) for name, shape in shapes.items()}


def product(m: int, n: int, k: int, is_rectified: bool = False) -> Kernel:
    """Returns a product; or its positive part, which takes as long if a sum has few terms."""

    def multiply(a: Any, b: Any) -> Any:
        return (a @ b).relu() if is_rectified else a @ b

    size, flops = 4 * (m * k + k * n + m * n), (2 * k + is_rectified) * m * n
    return Kernel(lambda: _normal(a=(m, k), b=(k, n)), multiply, multiply, multiply, flops, size)


def transposed_product(m: int, n: int, k: int) -> Kernel:
    """Returns a product with a transposed right operand, contiguous along the contracted axis."""

    def multiply(a: Any, b: Any) -> Any:
        return a @ b.T

    size = 4 * (m * k + k * n + m * n)
    return Kernel(lambda: _normal(a=(m, k), b=(n, k)), multiply, multiply, multiply, 2 * m * n * k, size)


def _masked_product(m: int, n: int, k: int) -> Kernel:
    """Returns a product whose left operand is multiplied by a mask first, as by dropout."""

    def multiply(x: Any, mask: Any, w: Any) -> Any:
        return (x * mask) @ w

    size = 4 * (2 * m * k + k * n + m * n)
    return Kernel(
        lambda: _normal(x=(m, k), mask=(m, k), w=(k, n)), multiply, multiply, multiply, (2 * n + 1) * m * k, size
    )


def _torch_gradient(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the gradient of `sum(function(x) * w)` with respect to x."""

    def gradient(x: Any, w: Any, **others: Any) -> Any:
        x = x.detach().requires_grad_()
        (function(x, **others) * w).sum().backward()
        return x.grad

    return gradient


def _tinygrad_gradient(function: Callable[..., Any]) -> Callable[..., Any]:
    def gradient(x: Any, w: Any, **others: Any) -> Any:
        return (function(x, **others) * w).sum().gradient(x)[0]

    return gradient


def _gradient(function: Callable[..., Any]) -> Callable[..., Any]:
    def gradient(x: Any, w: Any, **others: Any) -> Any:
        return tg.grad(lambda x: tg.sum(function(x, **others) * w))(x)

    return gradient


def _convolution(
    images: tuple[int, ...], weights: tuple[int, ...], stride: int, padding: int, transposed: bool = False
) -> Kernel:
    """Returns a convolution, or a transposed one: the gradient of a convolution with respect to its images."""
    batch, _, height, width = images
    positions = batch * height * width // (1 if transposed else stride * stride)
    name = "conv_transpose2d" if transposed else "conv2d"

    def ours(x: Any, w: Any) -> Any:
        function = tg.conv_transpose if transposed else tg.conv
        return function(x, w, stride=stride, padding=padding)

    def torch(x: Any, w: Any) -> Any:
        from torch.nn import functional

        return getattr(functional, name)(x, w, stride=stride, padding=padding)

    def tinygrad(x: Any, w: Any) -> Any:
        return getattr(x, name)(w, stride=stride, padding=padding)

    outputs = batch * height * width * stride * stride * weights[1] if transposed else positions * weights[0]
    size = 4 * (math.prod(images) + math.prod(weights) + outputs)
    return Kernel(lambda: _normal(x=images, w=weights), ours, torch, tinygrad, 2 * positions * math.prod(weights), size)


def _torch(name: str, *args: Any) -> Callable[..., Any]:
    def call(x: Any) -> Any:
        from torch.nn import functional

        return getattr(functional, name)(x, *args)

    return call


def _our_norm(x: Any) -> Any:
    centred = x - tg.mean(x, axis=-1, keepdims=True)
    return centred * tg.rsqrt(tg.mean(centred * centred, axis=-1, keepdims=True) + 1e-5)


def _embedding_arrays() -> Arrays:
    tokens = np.random.default_rng(1).integers(0, TABLE, TOKENS).astype(np.int32)
    return {**_normal(x=(TABLE, WIDTH), w=(TOKENS, WIDTH)), "tokens": tokens}


def _chain(x: Any) -> Any:
    for _ in range(5):
        x = x * 1.01 + 0.5
    return x


def _stream(a: Any, b: Any, c: Any) -> Any:
    return (a + b) * c - a * 0.5


def _spectrum(n: int) -> Kernel:
    """The power of each frequency of rows of `n` numbers, 4 MiB in all."""

    def power(z: Any) -> Any:
        return z.real * z.real + z.imag * z.imag

    def torch(x: Any) -> Any:
        from torch import fft

        return power(fft.rfft(x))

    rows, size = (1 << 20) // n, 1 << 20
    flops = int(2.5 * size * math.log2(n))
    return Kernel(lambda: _normal(x=(rows, n)), lambda x: power(tg.fft.rfft(x)), torch, None, flops, 6 * size)


def _sort(*shape: int) -> Kernel:
    def torch(x: Any) -> Any:
        return x.argsort(stable=True)

    return Kernel(lambda: _normal(x=shape), tg.argsort, torch, None, 0, 8 * math.prod(shape))


def _running(name: str, axis: int) -> Kernel:
    """Running folds of 8 MiB, along rows of 4096 or along columns."""
    function = getattr(tg, name)

    def ours(x: Any) -> Any:
        result = function(x, axis)
        return result[0] if name == "cummax" else result

    def torch(x: Any) -> Any:
        import torch

        result = getattr(torch, name)(x, axis)
        return result[0] if name == "cummax" else result

    return Kernel(lambda: _normal(x=(512, 4096)), ours, torch, None, 1 << 21, 1 << 24)


def _decomposition(name: str, extent: int) -> Kernel:
    """The factors of a symmetric matrix, one after another; PyTorch leaves them to LAPACK."""

    def arrays() -> Arrays:
        x = _normal(x=(extent, extent))["x"]
        return {"x": x + x.T}

    def ours(x: Any) -> Any:
        return tg.concat([tg.reshape(part, (-1,)) for part in getattr(tg.linalg, name)(x)])

    def torch(x: Any) -> Any:
        import torch

        return torch.cat([part.flatten() for part in getattr(torch.linalg, name)(x)])

    return Kernel(arrays, ours, torch, None, 0, 4 * extent**2)


def _segment_sum(rows: int, width: int, segments: int) -> Kernel:
    """The sums of rows with equal numbers, as of the messages along the edges of a graph."""

    def arrays() -> Arrays:
        numbers = np.random.default_rng(1).integers(0, segments, rows).astype(np.int32)
        return {**_normal(x=(rows, width)), "numbers": numbers}

    def ours(x: Any, numbers: Any) -> Any:
        return tg.segment_sum(x, numbers, segments)

    def torch(x: Any, numbers: Any) -> Any:
        return x.new_zeros(segments, width).index_add_(0, numbers.long(), x)

    size = 4 * (rows * (width + 1) + segments * width)
    return Kernel(arrays, ours, torch, None, rows * width, size)


ROW_BYTES = 4 * ROWS * COLUMNS
KERNELS: dict[str, Kernel] = {
    "matmul 64": product(64, 64, 64),
    "matmul 128": product(128, 128, 128),
    "matmul 256": product(256, 256, 256),
    "matmul 512": product(512, 512, 512),
    "matmul 1024": product(1024, 1024, 1024),
    "matmul 1024 transposed": transposed_product(1024, 1024, 1024),
    "matmul 509x517x523": product(509, 517, 523),
    "matmul 1000x1000x70": product(1000, 1000, 70),
    "matmul 960x10x160": product(960, 10, 160),
    "relu of matmul 64x12544x16": product(64, 12544, 16, is_rectified=True),
    "masked matmul 2048x16x1024": _masked_product(2048, 16, 1024),
    "convolution 3x3": _convolution((32, 64, 16, 16), (64, 64, 3, 3), 1, 1),
    "convolution 4x4 by 2": _convolution((32, 64, 16, 16), (64, 64, 4, 4), 2, 1),
    "convolution 4x4 by 2 transposed": _convolution((32, 64, 8, 8), (64, 64, 4, 4), 2, 1, transposed=True),
    "convolution 2x2 by 2 transposed": _convolution((32, 64, 8, 8), (64, 64, 2, 2), 2, 0, transposed=True),
    "convolution to 3 channels, 4x4 by 2 transposed": _convolution(
        (32, 64, 16, 16), (64, 3, 4, 4), 2, 1, transposed=True
    ),
    "softmax": Kernel(
        lambda: _normal(x=(ROWS, COLUMNS)),
        lambda x: tg.softmax(x),
        _torch("softmax", -1),
        lambda x: x.softmax(),
        5 * ROWS * COLUMNS,
        2 * ROW_BYTES,
    ),
    "softmax gradient": Kernel(
        lambda: _normal(x=(ROWS, COLUMNS), w=(ROWS, COLUMNS)),
        _gradient(lambda x: tg.softmax(x)),
        _torch_gradient(_torch("softmax", -1)),
        _tinygrad_gradient(lambda x: x.softmax()),
        9 * ROWS * COLUMNS,
        3 * ROW_BYTES,
    ),
    "layer norm": Kernel(
        lambda: _normal(x=(ROWS, COLUMNS)),
        _our_norm,
        _torch("layer_norm", (COLUMNS,)),
        lambda x: x.layernorm(),
        7 * ROWS * COLUMNS,
        2 * ROW_BYTES,
    ),
    "layer norm gradient": Kernel(
        lambda: _normal(x=(ROWS, COLUMNS), w=(ROWS, COLUMNS)),
        _gradient(_our_norm),
        _torch_gradient(_torch("layer_norm", (COLUMNS,))),
        _tinygrad_gradient(lambda x: x.layernorm()),
        14 * ROWS * COLUMNS,
        3 * ROW_BYTES,
    ),
    "stream 64 MiB": Kernel(
        lambda: _normal(a=(STREAM,), b=(STREAM,), c=(STREAM,)), _stream, _stream, _stream, 4 * STREAM, 16 * STREAM
    ),
    "one operation on 64 MiB": Kernel(
        lambda: _normal(x=(STREAM,)), lambda x: x + 0.5, lambda x: x + 0.5, lambda x: x + 0.5, STREAM, 8 * STREAM
    ),
    "scaled and shifted rows of 10": Kernel(
        lambda: _normal(x=(40_000, 10), w=(10,)),
        lambda x, w: x * w + 0.5,
        lambda x, w: x * w + 0.5,
        lambda x, w: x * w + 0.5,
        2 * 40_000 * 10,
        8 * 40_000 * 10,
    ),
    "ten operations on 64 MiB": Kernel(lambda: _normal(x=(STREAM,)), _chain, _chain, _chain, 10 * STREAM, 8 * STREAM),
    "transpose 1024": Kernel(
        lambda: _normal(x=(1024, 1024)),
        lambda x: tg.transpose(x),
        lambda x: x.T.contiguous(),
        lambda x: x.transpose().contiguous(),
        0,
        8 << 20,
    ),
    "spectrum 64": _spectrum(64),
    "spectrum 1024": _spectrum(1024),
    "embedding gradient": Kernel(
        _embedding_arrays,
        _gradient(lambda x, tokens: tg.embedding(x, tokens)),
        _torch_gradient(lambda x, tokens: x[tokens.long()]),
        _tinygrad_gradient(lambda x, tokens: x[tokens]),
        TOKENS * WIDTH,
        4 * (TABLE * WIDTH + 2 * TOKENS * WIDTH),
    ),
    "segment sum, 1e5 rows of 64 in 1e4 segments": _segment_sum(100_000, 64, 10_000),
    "segment sum, 1e6 numbers in 1e3 segments": _segment_sum(1_000_000, 1, 1_000),
    "running sum": _running("cumsum", 1),
    "running sum along columns": _running("cumsum", 0),
    "running product": _running("cumprod", 1),
    "running maximum": _running("cummax", 1),
    "eigenvectors of 8x8": _decomposition("eigh", 8),
    "eigenvectors of 128x128": _decomposition("eigh", 128),
    "singular vectors of 128x128": _decomposition("svd", 128),
    "argsort 1e6": _sort(1_000_000),
    "argsort 1e3 rows of 1e3": _sort(1_000, 1_000),
}
"""The kernels by name."""


class _Operands(tg.nn.Module):
    """Arrays as parameters, which stay on the device."""

    def __init__(self, arrays: Arrays):
        super().__init__()
        for name, array in arrays.items():
            setattr(self, name, tg.nn.param(array.shape, init=tg.initializers.zeros, dtype=array.dtype))


def compiled(
    kernel: Kernel, device: tg.DeviceName, arrays: Arrays, observed: bool = True
) -> tuple[Executable, dict[str, np.ndarray]]:
    """Returns a kernel compiled by tensorgrad, with its floats on the device, and the inputs of a step.

    Args:
        kernel: The kernel.
        device: The device.
        arrays: The operands.
        observed: Whether a step also returns one element of the result, as `result1`.
    """
    floats = {name: array for name, array in arrays.items() if array.dtype.kind == "f"}
    integers = {name: array for name, array in arrays.items() if name not in floats}

    def run(operands: _Operands, integers: Mapping[str, Any]) -> tuple[Any, ...]:
        result = kernel.ours(**{name: getattr(operands, name) for name in floats}, **integers)
        return (result, tg.reshape(result, (-1,))[0]) if observed else (result,)

    traced = tg.trace(run, _Operands(floats), integers)
    recipe = Recipe("run", traced, lambda *_: [SimplifyPass()], find_device(device))
    executable = compile_recipe(recipe, Phases()).executable
    executable.write(floats)
    return executable, {f"integers.{name}": array for name, array in integers.items()}


def ours(kernel: Kernel, device: tg.DeviceName, arrays: Arrays) -> Contestant:
    """Returns a kernel compiled by tensorgrad."""
    executable, inputs = compiled(kernel, device, arrays)

    def step() -> float:
        return float(executable.step(inputs, {})["result1"])

    statistics = executable.statistics()
    return Contestant(
        f"tensorgrad {device}", step, {name: statistics.get(name) for name in ("dispatches", "bytes_moved")}
    )


def torch_cpu(kernel: Kernel, arrays: Arrays) -> Contestant | None:
    """Returns a kernel in PyTorch on the CPU; `None` if it isn't installed."""
    try:
        import torch
    except ImportError:
        return None
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}

    def step() -> float:
        return kernel.torch(**tensors).flatten()[0].item()

    return Contestant("torch eager (CPU)", step)


def tinygrad(kernel: Kernel, arrays: Arrays) -> Contestant | None:
    """Returns a kernel in tinygrad's WebGPU backend; `None` if it isn't installed, or has no such function."""
    function = kernel.tinygrad
    if function is None or not find_dawn():
        return None
    from tinygrad.engine.jit import TinyJit
    from tinygrad.tensor import Tensor

    tensors = {name: Tensor(array).contiguous().realize() for name, array in arrays.items()}

    @TinyJit
    def run() -> tuple[Any, Any]:
        result = function(**tensors).contiguous()
        return result.realize(), result.flatten()[0].contiguous().realize()

    return Contestant("tinygrad WEBGPU", lambda: run()[1].item())


PEERS = {"torch": torch_cpu, "tinygrad": tinygrad}
"""The peers that run kernels, by the names that `--peers` accepts."""


def contestants(name: str, device: tg.DeviceName, chosen: Collection[str] = PEERS) -> list[Contestant]:
    """Returns all contestants that can run a kernel on this machine, tensorgrad first.

    Args:
        name: The kernel's name in `KERNELS`.
        device: The device for tensorgrad. tinygrad runs on an adapter, so it is only included for "wgpu" and "auto".
        chosen: The names in `PEERS` to include.
    """
    kernel = KERNELS[name]
    arrays = kernel.arrays()
    names = [peer for peer in PEERS if peer in chosen and (peer != "tinygrad" or device in ("wgpu", "auto"))]
    others = [PEERS[peer](kernel, arrays) for peer in names]
    return [ours(kernel, device, arrays), *(other for other in others if other is not None)]


def rate(kernel: Kernel, seconds: float) -> Mapping[str, float]:
    """Returns the throughput of a run in GFLOP/s and GB/s."""
    return {"GFLOP/s": kernel.flops / seconds / 1e9, "GB/s": kernel.bytes / seconds / 1e9}
