"""Quantized weights in folders of Hugging Face's, as GPTQ, AWQ and bitsandbytes write them.

All of them stand for `(code - zero) * scale`, or for `table[code] * scale`, with a scale and a zero for each group of
input features of an output. What is stored for a layer, by `quant_method`:

* `gptq`: codes of 4 or 8 bits in `qweight`, packed along the inputs; `qzeros`, packed along the outputs, and less 1 but
  in version 2; `scales`; and `g_idx`, the group of each input. So do AutoGPTQ's `QuantLinear`, and GPTQModel's
  `convert_gptq_v1_to_v2_format`.
* `awq`, version `gemm`: `qweight` and `qzeros` of 4 bits, packed along the outputs, of which the order in a word is 0,
  2, 4, 6, 1, 3, 5, 7; and `scales`. So does AutoAWQ's `WQLinear_GEMM`.
* `bitsandbytes` of 4 bits: `weight`, bytes of two codes, the first one in the high bits, of outputs one after another;
  and behind that name `absmax`, the scale of each block of codes, `quant_map`, the table, and
  `quant_state.bitsandbytes__nf4`, settings as JSON. Scales that are codes themselves have a table and scales,
  `nested_quant_map` and `nested_absmax`, and a mean, which was subtracted. So does its `QuantState.as_dict`.
* `bitsandbytes` of 8 bits: `weight`, signed integers, times `SCB / 127` of each output. So does its `Linear8bitLt`.

The methods: E. Frantar et al., GPTQ, 2022; J. Lin et al., AWQ, 2023; T. Dettmers et al., QLoRA, 2023, and LLM.int8(),
2022.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from tensorgrad.errors import InputError
from tensorgrad.nn.layers import Linear
from tensorgrad.nn.module import Module, walk
from tensorgrad.nn.parameters import Buffer
from tensorgrad.nn.quantization import QUANTIZED
from tensorgrad.nn.quantized import declare_integers
from tensorgrad.nn.weight_files import Entry, WeightFiles
from tensorgrad.ops.quantization import NF4, WORD, words_of
from tensorgrad.runtime.errors import MALFORMED
from tensorgrad.tracing.location import user_line

SETTING = "quantization_config"
"""The setting of `config.json` that says how weights are quantized."""

AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
"""The outputs whose codes a word has, from its lowest bits on, in AWQ."""

Parts: TypeAlias = Mapping[str, Entry]


class QuantizedWeight(ABC):
    """A weight `[out_features, in_features]`, of which files hold codes: an entry of `WeightFiles`.

    Attributes:
        parts: What files hold.
        bits: The bits of a code.
        table: The value of each code, if they are no integers.
        shape: The extents of the weight.
        count: The number of groups.
    """

    parts: Parts
    bits: int
    table: np.ndarray | None = None
    shape: tuple[int, ...]
    count: int

    @property
    def file(self) -> Path:
        """The file of the codes."""
        return next(iter(self.parts.values())).file

    @abstractmethod
    def sizes(self) -> dict[str, int]:
        """Returns how many elements the parts have to have, but for that whose extents say all others."""

    @abstractmethod
    def codes(self) -> np.ndarray:
        """Returns the codes, `[in_features, out_features]`."""

    @abstractmethod
    def scales(self) -> np.ndarray:
        """Returns a scale for each group and output, `[groups, out_features]`."""

    def zeros(self) -> np.ndarray | None:
        """Returns the integers that stand for 0, of the shape of the scales, or None if they are 0.

        Integers are codes less the middle one.
        """
        return None

    def groups(self) -> np.ndarray:
        """Returns the group of each input feature, `[in_features]`: as many in each, one after another."""
        return np.arange(self.shape[1]) // (self.shape[1] // self.count)

    def read(self) -> np.ndarray:
        """Returns the weight in f32."""
        codes, groups = self.codes(), self.groups()
        if self.table is not None:
            values = self.table[codes]
        else:
            zeros = self.zeros()
            values = codes.astype(np.float32) - self.middle - (0 if zeros is None else zeros[groups])
        return np.ascontiguousarray((values * self.scales()[groups]).T)

    @property
    def middle(self) -> int:
        """The code of the integer 0."""
        return 1 << (self.bits - 1)

    def scheme(self) -> tuple[str, int]:
        """Returns the format of `tg.nn.quantize` that has these codes, and the input features of a group.

        Raises:
            ValueError: There is none; says why.
        """
        groups = self.groups()
        group = -(-len(groups) // self.count)
        if not np.array_equal(groups, np.arange(len(groups)) // group):
            raise ValueError("its groups are not of neighboring input features")
        if self.table is None:
            return f"int{self.bits}", group
        if not np.array_equal(self.table, np.array(NF4, np.float32)):
            raise ValueError("its table of codes is another one than NF4's")
        return "nf4", group

    def buffers(self) -> dict[str, Buffer]:
        """Returns the buffers of a `QuantizedLinear` with these codes, which are read when they are needed."""
        outputs, inputs = self.shape
        made: dict[str, Buffer] = {}

        def add(name: str, rows: int, dtype: type[np.generic], make: Callable[[], Any]) -> None:
            made[name] = Buffer((rows, outputs), np.dtype(dtype), lambda *asked: make().astype(dtype))

        add("packed", -(-inputs * self.bits // WORD), np.uint32, lambda: words_of(self.codes(), self.bits))
        add("scales", self.count, np.float32, self.scales)
        zeros = self.zeros()
        if zeros is not None and zeros.any():
            add("zeros", self.count, np.float32, lambda: self.zeros())
        return made


class _Gptq(QuantizedWeight):
    def __init__(self, parts: Parts, bits: int, less: int, group: int):
        self.parts, self.bits, self._less = parts, bits, less
        rows, outputs = parts["qweight"].shape
        self.shape = outputs, inputs = outputs, rows * WORD // bits
        self._group = group if group > 0 else inputs
        self.count = parts["scales"].shape[0] if "g_idx" in parts else -(-inputs // self._group)

    def sizes(self) -> dict[str, int]:
        outputs, inputs = self.shape
        words = -(-outputs * self.bits // WORD)
        return {"scales": self.count * outputs, "qzeros": self.count * words, "g_idx": inputs}

    def codes(self) -> np.ndarray:
        return _unpacked(self.parts["qweight"].read().T, self.bits).T

    def scales(self) -> np.ndarray:
        return self.parts["scales"].read().astype(np.float32)

    def zeros(self) -> np.ndarray:
        words = self.parts["qzeros"].read().view(np.uint32)
        ones = sum(self._less << shift for shift in range(0, WORD, self.bits))
        codes = _unpacked(words + np.uint32(ones), self.bits)[:, : self.shape[0]]
        return codes.astype(np.float32) - self.middle

    def groups(self) -> np.ndarray:
        if "g_idx" in self.parts:
            return self.parts["g_idx"].read()
        return np.arange(self.shape[1]) // self._group


class _Awq(QuantizedWeight):
    bits = 4

    def __init__(self, parts: Parts):
        self.parts = parts
        inputs, words = parts["qweight"].shape
        self.shape, self.count = (words * WORD // self.bits, inputs), parts["scales"].shape[0]

    def sizes(self) -> dict[str, int]:
        return {"scales": self.count * self.shape[0], "qzeros": self.count * self.shape[0] * self.bits // WORD}

    def _ordered(self, name: str) -> np.ndarray:
        codes = _unpacked(self.parts[name].read(), self.bits)
        return codes.reshape(len(codes), -1, len(AWQ_ORDER))[..., np.argsort(AWQ_ORDER)].reshape(codes.shape)

    def codes(self) -> np.ndarray:
        return self._ordered("qweight")

    def scales(self) -> np.ndarray:
        return self.parts["scales"].read().astype(np.float32)

    def zeros(self) -> np.ndarray:
        return self._ordered("qzeros").astype(np.float32) - self.middle


class _FourBits(QuantizedWeight):
    bits = 4

    def __init__(self, name: str, parts: Parts, kind: str):
        self.parts = parts
        state = parts[f"quant_state.bitsandbytes__{kind}"].read().tobytes()
        try:
            settings: dict[str, Any] = dict(json.loads(state))
            outputs, inputs = settings["shape"]
            self.shape, self._block = (int(outputs), int(inputs)), int(settings["blocksize"])
            if "nested_absmax" in parts:
                self._nested_block, self._offset = int(settings["nested_blocksize"]), float(settings["nested_offset"])
        except (*MALFORMED, KeyError, TypeError, ValueError) as error:
            raise InputError(f"{user_line()}: the state of {name} is not one of bitsandbytes': {error!r}") from None
        self.table = parts["quant_map"].read()
        self.count = inputs // self._block if inputs % self._block == 0 else inputs

    def sizes(self) -> dict[str, int]:
        size = math.prod(self.shape)
        return {"weight": -(-size // 2), "absmax": -(-size // self._block), "quant_map": 1 << self.bits}

    def codes(self) -> np.ndarray:
        pairs = self.parts["weight"].read().reshape(-1)
        both = np.stack([pairs >> 4, pairs & 15], 1).reshape(-1)
        return both[: math.prod(self.shape)].reshape(self.shape).T

    def _blocks(self) -> np.ndarray:
        """Returns the scale of each block."""
        absmax = self.parts["absmax"].read().reshape(-1)
        if "nested_absmax" not in self.parts:
            return absmax.astype(np.float32)
        outer = np.repeat(self.parts["nested_absmax"].read().reshape(-1), self._nested_block)[: absmax.size]
        return self.parts["nested_quant_map"].read()[absmax] * outer + np.float32(self._offset)

    def scales(self) -> np.ndarray:
        blocks = self._blocks()
        if self.count < self.shape[1]:
            return blocks.reshape(self.shape[0], -1).T
        return np.repeat(blocks, self._block)[: math.prod(self.shape)].reshape(self.shape).T

    def scheme(self) -> tuple[str, int]:
        if self.count == self.shape[1]:
            raise ValueError(f"its blocks of {self._block} reach from one output into the next")
        return super().scheme()


class _EightBits(QuantizedWeight):
    bits, count = 8, 1

    def __init__(self, parts: Parts):
        self.parts, self.shape = parts, parts["weight"].shape

    def sizes(self) -> dict[str, int]:
        return {"SCB": self.shape[0]}

    def codes(self) -> np.ndarray:
        return (self.parts["weight"].read().T.astype(np.int16) + self.middle).astype(np.uint8)

    def scales(self) -> np.ndarray:
        return (self.parts["SCB"].read() / np.float32(127)).reshape(1, -1)


def _unpacked(words: np.ndarray, bits: int) -> np.ndarray:
    """Returns the codes that words have along the last axis, those in the lowest bits first."""
    shifts = np.arange(0, WORD, bits, dtype=np.uint32)
    codes = np.ascontiguousarray(words).view(np.uint32)[..., None] >> shifts & np.uint32((1 << bits) - 1)
    return codes.astype(np.uint8).reshape(*words.shape[:-1], -1)


Read: TypeAlias = Iterator[tuple[str, QuantizedWeight]]


def _gptq(entries: Mapping[str, Entry], config: Mapping[str, Any]) -> Read:
    bits = _one_of(config, "bits", (4, 8))
    kept = _one_of(config, "checkpoint_format", ("gptq", "gptq_v2"), "gptq")
    for layer, parts in _layers(entries, ".qweight", ("qweight", "qzeros", "scales"), ("g_idx",)):
        yield layer, _Gptq(parts, bits, int(kept == "gptq"), config.get("group_size") or -1)


def _awq(entries: Mapping[str, Entry], config: Mapping[str, Any]) -> Read:
    _one_of(config, "bits", (4,))
    _one_of(config, "version", ("gemm", "GEMM"), "gemm")
    for layer, parts in _layers(entries, ".qweight", ("qweight", "qzeros", "scales")):
        yield layer, _Awq(parts)


def _bitsandbytes(entries: Mapping[str, Entry], config: Mapping[str, Any]) -> Read:
    nested = ("nested_absmax", "nested_quant_map")
    for kind in ("nf4", "fp4"):
        state = f"quant_state.bitsandbytes__{kind}"
        for name, parts in _layers(entries, f".{state}", ("absmax", "quant_map", state), nested):
            if name not in entries:
                raise InputError(f"{user_line()}: the folder has {name}.{state}, but lacks {name}")
            parts = {"weight": entries[name], **parts}
            yield name.removesuffix(".weight"), _FourBits(name, parts, kind)
    for layer, parts in _layers(entries, ".SCB", ("weight", "SCB"), ("weight_format",)):
        order = int(parts["weight_format"].read().reshape(())) if "weight_format" in parts else 0
        if order:
            raise InputError(f"{user_line()}: {layer}.weight_format is {order}; what is supported: 0, rows")
        yield layer, _EightBits(parts)


METHODS: dict[str, Callable[[Mapping[str, Entry], Mapping[str, Any]], Read]] = {
    "awq": _awq,
    "bitsandbytes": _bitsandbytes,
    "gptq": _gptq,
}
"""How weights are read, by `quant_method`: the paths of quantized layers and their weights."""


def _layers(
    entries: Mapping[str, Entry], mark: str, needed: tuple[str, ...], others: tuple[str, ...] = ()
) -> Iterator[tuple[str, dict[str, Entry]]]:
    """Yields the layers for which there is an array of a name, and their arrays.

    Raises:
        InputError: One is missing.
    """
    for name in entries:
        if name.endswith(mark):
            layer = name.removesuffix(mark)
            parts = {part: entries[f"{layer}.{part}"] for part in (*needed, *others) if f"{layer}.{part}" in entries}
            missing = [f"{layer}.{part}" for part in needed if part not in parts]
            if missing:
                raise InputError(f"{user_line()}: the folder has {name}, but lacks {', '.join(missing)}")
            yield layer, parts


def _one_of(config: Mapping[str, Any], name: str, known: tuple[Any, ...], default: Any = None) -> Any:
    value = config.get(name, default)
    if value not in known:
        raise InputError(
            f"{user_line()}: the weights are quantized by {config['quant_method']} with {name} {value!r}; what is "
            f"supported: {', '.join(map(str, known))}"
        )
    return value


def with_quantized(weights: WeightFiles, config: Any) -> WeightFiles:
    """Returns a folder's arrays with a `weight` for each quantized layer, in place of what stands for it.

    Args:
        weights: The arrays.
        config: The setting `quantization_config`.

    Raises:
        InputError: The method, or one of its settings, is not supported; or arrays are missing, or of another size.
    """
    method = config.get("quant_method") if isinstance(config, dict) else None
    if method not in METHODS:
        raise InputError(
            f"{user_line()}: the weights are quantized by {method!r}, {config!r}; what is supported: "
            f"{', '.join(METHODS)}"
        )
    layers = dict(METHODS[method](weights.entries, config))
    for layer, weight in layers.items():
        for part, size in weight.sizes().items():
            if part in weight.parts and math.prod(weight.parts[part].shape) != size:
                shape = list(weight.parts[part].shape)
                raise InputError(f"{user_line()}: {part} of {layer} is {shape}, expected {size} elements")
    used = {id(entry) for weight in layers.values() for entry in weight.parts.values()}
    others = {name: entry for name, entry in weights.entries.items() if id(entry) not in used}
    return WeightFiles({**others, **{f"{layer}.weight": weight for layer, weight in layers.items()}})


def keep_packed(model: Module, weights: WeightFiles) -> None:
    """Makes the layers of a declared model whose weights are quantized those of `tg.nn.quantize`, in place.

    Raises:
        InputError: A weight is not that of a linear layer, or its codes have another layout. Nothing is changed then.
    """
    layers = {f"{path}.weight": layer for path, layer in walk(model, lambda value: isinstance(value, Linear))}
    changes: list[Callable[[], None]] = []
    for name, entry in weights.entries.items():
        if not isinstance(entry, QuantizedWeight):
            continue
        try:
            if name not in layers:
                raise ValueError("it is not the weight of a linear layer here")
            scheme, group = entry.scheme()
        except ValueError as error:
            raise InputError(
                f"{user_line()}: {name} can't stay quantized: {error}; dequantize=True reads weights in f32"
            ) from None
        layer = layers[name]
        changes.append(partial(declare_integers, layer, QUANTIZED[type(layer)], scheme, group, entry.buffers()))
    for change in changes:
        change()
