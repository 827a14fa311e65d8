"""Language models as exporters write them: norms, activations, masks and rotary embeddings in single ops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

BATCH, LENGTH, VOCABULARY, WIDTH, HEADS = 2, 6, 11, 16, 2
SIZE = WIDTH // HEADS

END = 2**63 - 1
"""The end of a slice to the end, as exporters write it."""


class Exporter:
    """Collects the nodes and initializers of a graph; values are their names."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.trained: list[str] = []
        self._rng = np.random.default_rng(3)

    def weight(self, name: str, *shape: int, start: float | None = None) -> str:
        """Adds a weight: random numbers, or equal ones."""
        values = self._rng.normal(size=shape) * 0.3 if start is None else np.full(shape, start)
        self.initializers.append(numpy_helper.from_array(values.astype(np.float32), name))
        self.trained.append(name)
        return name

    def array(self, name: str, values: Any) -> str:
        """Adds an initializer that isn't trained."""
        self.initializers.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def constant(self, values: Any, dtype: Any = np.float32) -> str:
        """Adds a node `Constant`."""
        return self.op("Constant", value=numpy_helper.from_array(np.asarray(values, dtype)))

    def integers(self, *values: int) -> str:
        """Adds a node `Constant` of integers on one axis."""
        return self.constant(values, np.int64)

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Adds a node; returns its output."""
        name = f"/{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [f"{name}_output_0"], name=name, **attributes))
        return f"{name}_output_0"

    def length(self) -> tuple[str, str]:
        """Returns the length of the sequences, and their positions, `[1, length]`."""
        length = self.op("Gather", self.op("Shape", "ids"), self.constant(1, np.int64))
        places = self.op("Range", self.constant(0, np.int64), length, self.constant(1, np.int64))
        return length, self.op("Unsqueeze", places, self.integers(0))

    def square(self, extent: str) -> str:
        """Returns the shape of a square matrix."""
        return self.op("Concat", *[self.op("Unsqueeze", extent, self.integers(0))] * 2, axis=0)

    def heads(self, x: str, count: int) -> str:
        """Returns `[batch, heads, length, size]`."""
        apart = self.op("Reshape", x, self.integers(0, 0, count, SIZE))
        return self.op("Transpose", apart, perm=[0, 2, 1, 3])

    def joined(self, x: str) -> str:
        """Returns `[batch, length, heads * size]`."""
        return self.op("Reshape", self.op("Transpose", x, perm=[0, 2, 1, 3]), self.integers(0, 0, WIDTH))

    def part(self, x: str, start: int, end: int) -> str:
        """Returns a slice of the last axis, with bounds computed as PyTorch's exporter does."""
        axis = self.integers(0)
        bounds = (self.op("Unsqueeze", self.constant(bound, np.int64), axis) for bound in (start, end))
        return self.op("Slice", x, *bounds, self.integers(-1), self.integers(1))

    def model(self, logits: str) -> onnx.ModelProto:
        """Returns the model: from `ids` to `logits`."""
        self.nodes.append(helper.make_node("Identity", [logits], ["logits"]))
        graph = helper.make_graph(
            self.nodes,
            "language_model",
            [helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", "length"])],
            [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", "length", VOCABULARY])],
            self.initializers,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _layer_norm(to: Exporter, x: str, name: str) -> str:
    centred = to.op("Sub", x, to.op("ReduceMean", x, axes=[-1]))
    variance = to.op("ReduceMean", to.op("Pow", centred, to.constant(2.0)), axes=[-1])
    deviation = to.op("Sqrt", to.op("Add", variance, to.constant(1e-5)))
    scaled = to.op("Mul", to.op("Div", centred, deviation), to.weight(f"{name}.weight", WIDTH, start=1.0))
    return to.op("Add", scaled, to.weight(f"{name}.bias", WIDTH, start=0.0))


def _linear(to: Exporter, x: str, name: str, inputs: int, outputs: int) -> str:
    product = to.op("MatMul", x, to.weight(f"{name}.weight", inputs, outputs))
    return to.op("Add", to.weight(f"{name}.bias", outputs, start=0.0), product)


def _gelu(to: Exporter, x: str) -> str:
    cubic = to.op("Mul", to.op("Pow", x, to.constant(3.0)), to.array(f"{x}.cubic", np.float32(0.044715)))
    inner = to.op("Mul", to.op("Add", x, cubic), to.constant([math.sqrt(2 / math.pi)]))
    half = to.op("Mul", x, to.constant(0.5))
    return to.op("Mul", half, to.op("Add", to.op("Tanh", inner), to.constant([1.0])))


def gpt2() -> tuple[onnx.ModelProto, list[str]]:
    """Returns a model like GPT-2, and the names of its weights."""
    to = Exporter()
    tokens = to.op("Gather", to.weight("wte.weight", VOCABULARY, WIDTH), "ids")
    length, places = to.length()
    x = to.op("Add", tokens, to.op("Gather", to.weight("wpe.weight", 8, WIDTH), places))
    y = _layer_norm(to, x, "h.0.ln_1")
    q, k, v = (to.heads(_linear(to, y, f"h.0.attn.{name}", WIDTH, WIDTH), HEADS) for name in ("q", "k", "v"))
    scores = to.op("MatMul", q, to.op("Transpose", k, perm=[0, 1, 3, 2]))
    scores = to.op("Div", scores, to.array("h.0.attn.scale", np.array([math.sqrt(SIZE)], np.float32)))
    mask = to.array("h.0.attn.mask", np.triu(np.full((1, 1, 8, 8), -np.inf, np.float32), 1))
    ends = to.square(length)
    scores = to.op("Add", scores, to.op("Slice", mask, to.integers(0, 0), ends, to.integers(2, 3)))
    mixed = to.joined(to.op("MatMul", to.op("Softmax", scores, axis=-1), v))
    x = to.op("Add", x, _linear(to, mixed, "h.0.attn.proj", WIDTH, WIDTH))
    y = _gelu(to, _linear(to, _layer_norm(to, x, "h.0.ln_2"), "h.0.mlp.fc", WIDTH, 2 * WIDTH))
    x = to.op("Add", x, _linear(to, y, "h.0.mlp.proj", 2 * WIDTH, WIDTH))
    x = _layer_norm(to, x, "ln_f")
    return to.model(to.op("MatMul", x, to.op("Transpose", "wte.weight", perm=[1, 0]))), to.trained


def _rms_norm(to: Exporter, x: str, name: str) -> str:
    wide = to.op("Cast", x, to=TensorProto.FLOAT)
    mean = to.op("ReduceMean", to.op("Pow", wide, to.array(f"{name}.two", np.float32(2.0))), axes=[-1])
    deviation = to.op("Sqrt", to.op("Add", mean, to.array(f"{name}.epsilon", np.array([1e-6], np.float32))))
    normal = to.op("Mul", wide, to.op("Div", to.constant(1.0), deviation))
    return to.op("Mul", to.weight(f"{name}.weight", WIDTH, start=1.0), normal)


def _rotated(to: Exporter, x: str, cos: str, sin: str) -> str:
    turned = to.op("Concat", to.op("Neg", to.part(x, SIZE // 2, END)), to.part(x, 0, SIZE // 2), axis=-1)
    return to.op("Add", to.op("Mul", x, cos), to.op("Mul", turned, sin))


def _rotary(to: Exporter, places: str, as_table: bool) -> tuple[str, str]:
    """Returns the cosines and sines of each position: rows of tables, or computed from frequencies."""
    frequencies = (10.0 ** -np.arange(0, SIZE // 2)).astype(np.float32)
    if as_table:
        angles = np.concatenate([np.outer(np.arange(8), frequencies)] * 2, -1).astype(np.float32)
        tables = to.array("rotary.cos", np.cos(angles)), to.array("rotary.sin", np.sin(angles))
        rows = [to.op("Gather", table, places) for table in tables]
    else:
        column = to.op("Unsqueeze", to.array("rotary.inv_freq", frequencies), to.integers(0, 2))
        wide = to.op("Unsqueeze", to.op("Cast", places, to=TensorProto.FLOAT), to.integers(1))
        angles = to.op("Transpose", to.op("MatMul", column, wide), perm=[0, 2, 1])
        both = to.op("Concat", angles, angles, axis=-1)
        rows = [to.op("Mul", to.op(name, both), to.constant(1.0)) for name in ("Cos", "Sin")]
    cos, sin = (to.op("Unsqueeze", row, to.integers(1)) for row in rows)
    return cos, sin


def llama(as_table: bool) -> tuple[onnx.ModelProto, list[str]]:
    """Returns a model like Llama, and the names of its weights."""
    to = Exporter()
    x = to.op("Gather", to.weight("embed_tokens.weight", VOCABULARY, WIDTH), "ids")
    length, places = to.length()
    cos, sin = _rotary(to, places, as_table)
    y = _rms_norm(to, x, "layers.0.input_layernorm")
    q, k, v = (
        to.heads(to.op("MatMul", y, to.weight(f"layers.0.self_attn.{name}_proj.weight", WIDTH, count * SIZE)), count)
        for name, count in (("q", HEADS), ("k", 1), ("v", 1))
    )
    q, k = (_rotated(to, part, cos, sin) for part in (q, k))
    k, v = (to.op("Expand", part, to.integers(1, HEADS, 1, 1)) for part in (k, v))
    scale = to.constant(SIZE**-0.25)
    k = to.op("Mul", to.op("Transpose", k, perm=[0, 1, 3, 2]), scale)
    scores = to.op("MatMul", to.op("Mul", q, scale), k)
    square = to.square(length)
    lowest = numpy_helper.from_array(np.array([np.finfo(np.float32).min], np.float32))
    mask = to.op("Trilu", to.op("ConstantOfShape", square, value=lowest), to.constant(1, np.int64), upper=1)
    shares = to.op("Softmax", to.op("Add", scores, mask), axis=-1)
    x = to.op(
        "Add", x, to.op("MatMul", to.joined(to.op("MatMul", shares, v)), to.weight("layers.0.o.weight", WIDTH, WIDTH))
    )
    y = _rms_norm(to, x, "layers.0.post_layernorm")
    gate = to.op("MatMul", y, to.weight("layers.0.mlp.gate.weight", WIDTH, 24))
    gate = to.op("Mul", gate, to.op("Sigmoid", gate))
    y = to.op("Mul", gate, to.op("MatMul", y, to.weight("layers.0.mlp.up.weight", WIDTH, 24)))
    x = to.op("Add", x, to.op("MatMul", y, to.weight("layers.0.mlp.down.weight", 24, WIDTH)))
    x = _rms_norm(to, x, "norm")
    return to.model(to.op("MatMul", x, to.weight("onnx::MatMul_99", WIDTH, VOCABULARY))), to.trained
