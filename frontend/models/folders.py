"""Folders of Hugging Face's libraries: `config.json` and weights in safetensors files, read and written."""

from __future__ import annotations

import errno
import fnmatch
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

import tensorgrad as tg
from tensorgrad.errors import DTypeError, InputError, OptionError, ParameterError
from tensorgrad.models.bert import (
    BertForMaskedLM,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertModel,
)
from tensorgrad.models.distilbert import (
    DistilBertForMaskedLM,
    DistilBertForSequenceClassification,
    DistilBertModel,
)
from tensorgrad.models.gpt2 import GPT2LMHeadModel
from tensorgrad.models.llama import LlamaForCausalLM
from tensorgrad.models.pretrained import Pretrained
from tensorgrad.models.quantized_folders import SETTING, keep_packed, with_quantized
from tensorgrad.models.vit import ViTForImageClassification, ViTModel
from tensorgrad.nn.adapters import adapted
from tensorgrad.nn.module import declarations
from tensorgrad.nn.named_values import arrays_to_write
from tensorgrad.nn.pytorch import TorchTensor, torch_tensors
from tensorgrad.nn.quantization import quantized
from tensorgrad.nn.weight_files import INDEX, SINGLE, WeightFiles
from tensorgrad.runtime.errors import MALFORMED
from tensorgrad.runtime.files import write_json, write_safetensors
from tensorgrad.tracing.dtypes import SHORT, DType, as_dtype, promote
from tensorgrad.tracing.location import user_line

CONFIG, GENERATION = "config.json", "generation_config.json"

KINDS: tuple[type[Pretrained], ...] = (
    BertForMaskedLM,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertModel,
    DistilBertForMaskedLM,
    DistilBertForSequenceClassification,
    DistilBertModel,
    GPT2LMHeadModel,
    LlamaForCausalLM,
    ViTForImageClassification,
    ViTModel,
)
"""The models that a folder may hold."""

STORED: dict[DType, str] = {tg.f32: "float32", tg.bf16: "bfloat16", tg.f16: "float16"}
"""The dtypes that parameters may have, and what folders call them."""


def from_pretrained(
    folder: str | os.PathLike[str],
    architecture: str | None = None,
    num_labels: int | None = None,
    ignore: Sequence[str] = (),
    dequantize: bool = False,
    dtype: object = "f32",
) -> Pretrained:
    """Returns the model that a folder of Hugging Face's holds; it is declared, and its values are read when needed.

    `tg.compile` starts from them, and `model.initialized()` has them. Until then the folder must stay as it is. Dropout
    is as the folder says: the form that drops nothing, which transformers returns, is `tg.nn.inference(model)`.

    Args:
        folder: A folder with `config.json`, and `model.safetensors` or several files with their index.
        architecture: The name of a model for another task than that of the folder, such as
            `BertForSequenceClassification`. What it has and the folder hasn't, for that task alone, is drawn as
            initial values.
        num_labels: The number of classes, if it is another than the folder's; such an output layer is drawn anew.
        ignore: Names of settings in `config.json` to leave out, though they are unknown here.
        dequantize: Whether quantized weights (GPTQ, AWQ, bitsandbytes) are read as parameters. By default they stay
            quantized: their layers are those that `tg.nn.quantize` makes.
        dtype: The dtype of parameters, "f32", "bf16" or "f16". Weights that a folder has in bf16 take half the memory
            as "bf16", and are never copied to f32; the model computes the same, in f32. That is for a base that is
            frozen, as by `tg.nn.lora`, or that only generates: updates of less than 1/256 of a weight are lost in bf16.

    Raises:
        InputError: `config.json` is malformed, names a model or a setting that isn't supported, or lacks a setting; or
            the files lack weights, or hold others, or of another shape; or quantized weights have a layout that layers
            here don't have.
        OptionError: There is no such architecture for this type of model.
        DTypeError: `dtype` is none of these.
        OSError: A file can't be read.

    Example:
        >>> import pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> options = tg.models.LlamaOptions(
        ...     vocab_size=50, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4
        ... )
        >>> tg.models.save_pretrained(tg.models.LlamaForCausalLM(options).initialized(0), folder)
        >>> tg.models.from_pretrained(folder).initialized()([[1, 2, 3]]).shape
        (1, 3, 50)
    """
    place, kept = Path(folder), as_dtype(dtype)
    if kept not in STORED:
        known = ", ".join(SHORT[dtype] for dtype in STORED)
        raise DTypeError(f"{user_line()}: from_pretrained: parameters are of {known}, not of {SHORT[kept]}")
    if not place.exists():
        advice = "No such folder; a model of the Hugging Face Hub is downloaded to one first"
        raise FileNotFoundError(errno.ENOENT, advice, os.fspath(folder))
    config = _read_config(place / CONFIG)
    if (place / GENERATION).exists():  # which knows better what ends a text, such as a chat's turn
        config |= {name: value for name, value in _read_config(place / GENERATION).items() if name == "eos_token_id"}
    fitting = {name: kind for kind in KINDS if (name := kind.architectures().get(str(config.get("model_type"))))}
    stored = next((name for name in config.get("architectures") or () if name in fitting), None)
    if stored is None:
        raise InputError(f"{user_line()}: {place / CONFIG} {_unsupported(config)}")
    if architecture not in (None, *fitting):
        raise OptionError(f"{user_line()}: architecture must be one of {', '.join(fitting)}, got {architecture!r}")
    kind = fitting[stored if architecture is None else architecture]
    weights = tg.nn.read_weights(place, keep_bf16=kept == tg.bf16)
    how = None if SETTING in ignore else config.pop(SETTING, None)
    if how is not None:
        if kind.conv1d:
            raise InputError(f"{user_line()}: {stored} has quantized weights, which are not supported of this model")
        weights = with_quantized(weights, how)
    options = kind.options_type.read(config, ignore)
    model = kind(options if num_labels is None else replace(options, num_labels=num_labels))
    weights, optional = _named(weights, model), ()
    if architecture not in (None, stored) or num_labels not in (None, options.num_labels):
        weights, optional = _without_other_heads(weights, model), kind.head
    conv1d = [pattern for pattern in kind.conv1d if fnmatch.filter(weights, pattern)]
    tg.nn.initialize_from(model, weights, conv1d=conv1d, optional=optional)
    if not dequantize:
        keep_packed(model, weights)
    for parameter in model.parameters():
        parameter.dtype = kept
    return model


def _read_config(file: Path) -> dict[str, Any]:
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except MALFORMED as error:
        raise InputError(f"{user_line()}: {file} is no JSON: {error}") from None
    if not isinstance(config, dict):
        raise InputError(f"{user_line()}: {file} holds no settings, but {type(config).__name__}")
    return config


def _unsupported(config: Mapping[str, Any]) -> str:
    names = ", ".join(map(str, config.get("architectures") or ())) or "a model"
    known = ", ".join(sorted({name for kind in KINDS for name in kind.architectures().values()}))
    return f"describes {names} of type {config.get('model_type')!r}; what is supported: {known}"


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _named(weights: WeightFiles, model: Pretrained) -> WeightFiles:
    """Returns a folder's weights under the names that the model has, without those that it doesn't use.

    Files of a base model omit its name, and those of a model for a task have it. Old ones call weights gamma and beta.
    """
    kind, prefix, own = type(model), f"{model.base}.", {tensor.name for tensor in torch_tensors(model)}
    has_prefix = any(name.startswith(prefix) for name in weights)

    def name_here(name: str) -> str | None:
        name = name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")
        if kind.is_base and has_prefix:
            if not name.startswith(prefix):
                return None
            name = name.removeprefix(prefix)
        elif not kind.is_base and not has_prefix and not _matches(name, kind.head):
            name = prefix + name
        return None if name not in own and _matches(name, (*kind.unused, *kind.head)) else name

    return weights.renamed(name_here)


def _without_other_heads(weights: WeightFiles, model: Pretrained) -> WeightFiles:
    """Returns weights without those of a head of other shapes."""
    own = {tensor.name: tensor.shape for tensor in torch_tensors(model)}
    shapes = weights.shapes

    def name_here(name: str) -> str | None:
        return None if _matches(name, model.head) and own.get(name) != shapes[name] else name

    return weights.renamed(name_here)


def save_pretrained(
    model: tg.nn.Module,
    folder: str | os.PathLike[str],
    values: Mapping[str, Any] | None = None,
    max_shard_bytes: int = 2**31,
) -> None:
    """Writes a model as a folder that `from_pretrained` and transformers read.

    Args:
        model: A model of `tg.models`.
        folder: The folder, which is created if there is none.
        values: Arrays by path, such as `training.parameters()` or `training.state_dict()`; by default those of the
            model, which then has to be initialized, as `training.model()` is.
        max_shard_bytes: The size of a file above which the weights are divided among several.

    Raises:
        ParameterError: The model is none of `tg.models`, it has adapters or quantized layers, or it is declared, and
            there are no values.
        InputError: Names of values are missing or unknown, or shapes differ.
        OSError: A file can't be written.

    Example:
        >>> import pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> options = tg.models.LlamaOptions(
        ...     vocab_size=50, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4
        ... )
        >>> tg.models.save_pretrained(tg.models.LlamaForCausalLM(options).initialized(0), folder)
        >>> sorted(path.name for path in folder.iterdir())
        ['config.json', 'model.safetensors']
    """
    by_leaf = arrays_by_leaf("save_pretrained", model, values)
    assert isinstance(model, Pretrained)
    tensors = torch_tensors(model)
    names = [tensor.name for tensor in tensors]
    turned = {name for pattern in model.conv1d for name in fnmatch.filter(names, pattern)}
    tensors = torch_tensors(model, turned=turned)
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    shards = list(_shards(tensors, max_shard_bytes))
    files = [SINGLE] if len(shards) == 1 else [_shard_name(number, len(shards)) for number in range(len(shards))]
    for file, shard in zip(files, shards, strict=True):
        joined = {tensor.name: tensor.join([by_leaf[id(part)] for part in tensor.parts]) for tensor in shard}
        write_safetensors(place / file, joined, {"format": "pt"})
    if len(shards) > 1:
        places = {tensor.name: file for file, shard in zip(files, shards, strict=True) for tensor in shard}
        size = sum(map(_bytes, tensors))
        write_json(place / INDEX, {"metadata": {"total_size": size}, "weight_map": places})
    for old in {place / SINGLE, place / INDEX, *place.glob("model-*-of-*.safetensors")}:
        if old.name not in files and (old.name != INDEX or len(shards) == 1):
            old.unlink(missing_ok=True)  # of an earlier model
    write_json(place / CONFIG, _written_config(model))


def arrays_by_leaf(
    what: str, model: tg.nn.Module, values: Mapping[str, Any] | None, kind: type[Pretrained] = Pretrained
) -> dict[int, Any]:
    """Returns the array of each parameter of a model that is to be written, by identity.

    Args:
        what: The function that writes it.
        model: The model.
        values: Arrays by path, if they are not the model's own.
        kind: What the model has to be.

    Raises:
        ParameterError: The model is of another kind, it has adapters or quantized layers, or it is declared, and there
            are no values.
        InputError: Names of values are missing or unknown, or shapes differ.
    """
    if not isinstance(model, kind):
        expected = "model" if kind is Pretrained else "language model"
        raise ParameterError(f"{user_line()}: {what}: expected a {expected} of tg.models, got {type(model).__name__}")
    if next(adapted(model), None) is not None:
        raise ParameterError(
            f"{user_line()}: {what}: the model has adapters: tg.nn.merge_lora(model) is one without, and "
            "tg.nn.save_lora writes them alone"
        )
    if next(quantized(model), None) is not None:
        raise ParameterError(
            f"{user_line()}: {what}: the model has packed integers, which other programs don't read: "
            "tg.nn.dequantize(model) is one without, and training.save_checkpoint writes them"
        )
    leaves = declarations(model)
    own = None if values is None else {path: value for path, value in values.items() if "/" not in path}
    arrays = arrays_to_write(what, leaves, own)
    return {id(leaf): arrays[path] for path, leaf in leaves.items()}


def _written_config(model: Pretrained) -> dict[str, Any]:
    """Returns the settings of a model as transformers reads them; their dtype is the widest of a parameter."""
    settings = {name: value for name, value in model.options.written().items() if name != "torch_dtype"}
    kept = STORED[reduce(promote, (parameter.dtype for parameter in model.parameters()))]
    return {**settings, "architectures": [model.architectures()[model.options.model_type]], "dtype": kept}


def _bytes(tensor: TorchTensor) -> int:
    return math.prod(tensor.shape) * tensor.parts[0].dtype.itemsize


def _shards(tensors: Sequence[TorchTensor], limit: int) -> Iterator[list[TorchTensor]]:
    """Yields tensors in groups of at most so many bytes; a larger tensor is a group of its own."""
    shard: list[TorchTensor] = []
    for tensor in tensors:
        if shard and sum(map(_bytes, shard)) + _bytes(tensor) > limit:
            yield shard
            shard = []
        shard.append(tensor)
    yield shard


def _shard_name(number: int, count: int) -> str:
    return f"model-{number + 1:05}-of-{count:05}.safetensors"
