"""Quantized layers as other libraries write them, code by code, from the formulas that they publish."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from tensorgrad.ops.quantization import NF4

GROUP = 8
"""The input features of a group."""


class Layer(NamedTuple):
    """What files hold for a layer, by the name behind that of the layer, and the weight that it stands for."""

    stored: Mapping[str, np.ndarray]
    weight: np.ndarray


Write = Callable[[np.random.Generator, int, int], Layer]
"""Returns a layer with random codes, given its outputs and its inputs."""


def words(codes: np.ndarray, bits: int, order: tuple[int, ...] | None = None) -> np.ndarray:
    """Packs codes along the last axis: of those of a word, number `order[i]` is shifted by `i * bits`."""
    each = 32 // bits
    packed = np.zeros((*codes.shape[:-1], -(-codes.shape[-1] // each)), np.int64)
    for place, number in enumerate(order or range(each)):
        some = codes[..., number::each].astype(np.int64)
        packed[..., : some.shape[-1]] |= some << (place * bits)
    return packed.astype(np.uint32).view(np.int32)


def integers(generator: np.random.Generator, outputs: int, inputs: int, bits: int, symmetric: bool) -> Any:
    """Returns codes `[inputs, outputs]`, and zeros and scales of each group."""
    codes = generator.integers(0, 1 << bits, (inputs, outputs))
    zeros = generator.integers(1, 1 << bits, (inputs // GROUP, outputs))
    zeros = np.full_like(zeros, 1 << (bits - 1)) if symmetric else zeros
    return codes, zeros, generator.uniform(0.5, 1, zeros.shape).astype(np.float16) / np.float16(1 << bits)


def gptq(bits: int = 4, symmetric: bool = True, version: int = 1, by_activation: bool = False) -> Write:
    """`weight[o, i] = scales[g, o] * (code - zero[g, o])`, with `g = g_idx[i]`; version 1 has zeros less 1."""

    def write(generator: np.random.Generator, outputs: int, inputs: int) -> Layer:
        codes, zeros, scales = integers(generator, outputs, inputs, bits, symmetric)
        groups = np.arange(inputs) // GROUP
        groups = generator.permutation(groups) if by_activation else groups
        stored = {
            "qweight": words(codes.T, bits).T,
            "qzeros": words(zeros - (version == 1), bits),
            "scales": scales,
            "g_idx": groups.astype(np.int32),
        }
        return Layer(stored, ((codes - zeros[groups]) * scales[groups].astype(np.float32)).T)

    return write


def awq(generator: np.random.Generator, outputs: int, inputs: int) -> Layer:
    """`weight[o, i] = scales[g, o] * (code - zero[g, o])`, with words along the outputs."""
    codes, zeros, scales = integers(generator, outputs, inputs, 4, symmetric=False)
    order, groups = (0, 2, 4, 6, 1, 3, 5, 7), np.arange(inputs) // GROUP
    stored = {"qweight": words(codes, 4, order), "qzeros": words(zeros, 4, order), "scales": scales}
    return Layer(stored, ((codes - zeros[groups]) * scales[groups].astype(np.float32)).T)


FP4 = (0, 0.0052, 2 / 3, 1, 1 / 3, 0.5, 1 / 6, 0.25, 0, -0.0052, -2 / 3, -1, -1 / 3, -0.5, -1 / 6, -0.25)


def four_bits(kind: str = "nf4", block: int = GROUP, is_nested: bool = False) -> Write:
    """`table[code] * absmax`, in blocks of the flat weight; nested scales are `table[code] * absmax + offset`."""

    def write(generator: np.random.Generator, outputs: int, inputs: int) -> Layer:
        table = np.array(NF4 if kind == "nf4" else FP4, np.float32)
        codes = generator.integers(0, 16, outputs * inputs)
        absmax = generator.uniform(0.5, 1, -(-codes.size // block)).astype(np.float32)
        state: dict[str, Any] = {"quant_type": kind, "blocksize": block, "dtype": "float16", "shape": [outputs, inputs]}
        nested: dict[str, np.ndarray] = {}
        if is_nested:
            outer_table = np.linspace(-1, 1, 256, dtype=np.float32)
            outer = generator.uniform(0.1, 0.2, -(-absmax.size // 4)).astype(np.float32)
            absmax_codes = generator.integers(0, 256, absmax.size).astype(np.uint8)
            absmax = outer_table[absmax_codes] * outer[np.arange(absmax.size) // 4] + np.float32(0.75)
            nested = {"weight.absmax": absmax_codes, "weight.nested_absmax": outer}
            nested["weight.nested_quant_map"] = outer_table
            state |= {"nested_blocksize": 4, "nested_dtype": "float32", "nested_offset": 0.75}
        stored = {
            "weight": (codes[0::2] << 4 | codes[1::2]).astype(np.uint8)[:, None],
            "weight.absmax": absmax,
            "weight.quant_map": table,
            f"weight.quant_state.bitsandbytes__{kind}": np.frombuffer(json.dumps(state).encode(), np.uint8),
            **nested,
        }
        return Layer(stored, (table[codes] * absmax[np.arange(codes.size) // block]).reshape(outputs, inputs))

    return write


def eight_bits(generator: np.random.Generator, outputs: int, inputs: int) -> Layer:
    """`weight[o, i] = code * SCB[o] / 127`."""
    codes = generator.integers(-127, 128, (outputs, inputs)).astype(np.int8)
    largest = generator.uniform(0.5, 1, outputs).astype(np.float32)
    stored = {"weight": codes, "SCB": largest, "weight_format": np.zeros((), np.uint8)}
    return Layer(stored, codes * (largest / np.float32(127))[:, None])
