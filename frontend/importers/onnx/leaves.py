"""Constants, ranges and windows."""

from __future__ import annotations

import math

import numpy as np
from onnx import TensorProto, helper

import tensorgrad as tg
from tensorgrad.importers.onnx.elements import NumpyArray, constant_of
from tensorgrad.importers.onnx.table import OnnxNode, rule
from tensorgrad.tracing.tensor import Tensor


@rule("Constant", "value value_float value_floats value_int value_ints")
def _constant(node: OnnxNode) -> NumpyArray:
    return constant_of(node.attributes)


@rule("ConstantOfShape", "value", constants=(0,))
def _constant_of_shape(node: OnnxNode) -> Tensor:
    value = np.asarray(node.attribute("value", np.zeros(1, np.float32)))
    return tg.broadcast_to(node.as_tensor(value.reshape(())), node.integers(0))


@rule("Range", "stash_type", constants=(0, 1, 2))
def _range(node: OnnxNode) -> NumpyArray:
    start, limit, delta = (node.constant(i).reshape(-1)[0] for i in range(3))
    if start.dtype.kind in "iu":
        count = len(range(int(start), int(limit), int(delta)))
    else:
        count = max(math.ceil((float(limit) - float(start)) / float(delta)), 0)
    return (start + np.arange(count) * delta).astype(start.dtype)


def _window(node: OnnxNode, coefficients: tuple[float, float, float]) -> Tensor:
    size = int(node.scalar(0))
    steps = size if node.attribute("periodic", 1) else size - 1
    angle = 2 * np.pi * np.arange(size) / steps
    a, b, c = coefficients
    values = a - b * np.cos(angle) + c * np.cos(2 * angle)
    return tg.cast(node.as_tensor(values.astype(np.float32)), node.dtype(node.attribute("output_datatype", 1)))


@rule("HannWindow", "output_datatype periodic", constants=(0,))
def _hann_window(node: OnnxNode) -> Tensor:
    return _window(node, (0.5, 0.5, 0.0))


@rule("HammingWindow", "output_datatype periodic", constants=(0,))
def _hamming_window(node: OnnxNode) -> Tensor:
    return _window(node, (25 / 46, 21 / 46, 0.0))


@rule("BlackmanWindow", "output_datatype periodic", constants=(0,))
def _blackman_window(node: OnnxNode) -> Tensor:
    return _window(node, (0.42, 0.5, 0.08))


@rule("MelWeightMatrix", "output_datatype", constants=(0, 1, 2, 3, 4))
def _mel_weight_matrix(node: OnnxNode) -> NumpyArray:
    bands, length, rate, low, high = (node.scalar(i) for i in range(5))
    bins = length // 2 + 1
    mel = [2595.0 * math.log10(1.0 + edge / 700.0) for edge in (low, high)]
    edges = np.linspace(mel[0], mel[1], bands + 2)
    step = (mel[1] - mel[0]) / (bands + 2)
    edges = mel[0] + np.arange(bands + 2) * step
    places = np.floor((length + 1) * (700.0 * (10 ** (edges / 2595.0) - 1.0)) / rate).astype(np.int64)
    result = np.zeros((bins, bands))
    for band in range(bands):
        left, centre, right = places[band : band + 3]
        if centre == left:
            result[centre, band] = 1
        for at in range(left, centre + 1):
            if centre != left:
                result[at, band] = (at - left) / (centre - left)
        for at in range(centre, right):
            if right != centre:
                result[at, band] = (right - at) / (right - centre)
    dtype = helper.tensor_dtype_to_np_dtype(node.attribute("output_datatype", TensorProto.FLOAT))
    return result.astype(dtype)
