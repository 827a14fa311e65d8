"""Folders of adapters as Hugging Face's PEFT writes and reads them."""

from __future__ import annotations

import fnmatch
import json
import math
import os
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tensorgrad.errors import InputError, ParameterError
from tensorgrad.nn.adapters import NAME, LowRank, adapted, adapters_of, add, linear_layers, use_lora
from tensorgrad.nn.module import Module
from tensorgrad.nn.named_values import arrays_to_write
from tensorgrad.nn.weight_files import WeightFiles, read_weights
from tensorgrad.runtime.errors import MALFORMED
from tensorgrad.runtime.files import write_json, write_safetensors
from tensorgrad.tracing.location import user_line

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"

PREFIX = "base_model.model."
"""What PEFT writes before the names of layers, under which it holds the model."""

FACTORS = {"a": "lora_A.weight", "b": "lora_B.weight", "magnitude": "lora_magnitude_vector"}
"""PEFT's names of the parameters of an adapter. Its matrices are `[out, in]`."""

UNSUPPORTED = {
    "bias": "none",
    "lora_bias": False,
    "modules_to_save": None,
    "layer_replication": None,
    "trainable_token_indices": None,
    "target_parameters": None,
    "use_qalora": False,
    "alora_invocation_tokens": None,
}
"""Settings that change what is computed or held, and the value under which they don't."""


def save_lora(
    model: Module, folder: str | os.PathLike[str], values: Mapping[str, Any] | None = None, name: str = NAME
) -> None:
    """Writes an adapter of a model as a folder that `load_lora` and PEFT read: a file of settings, and its factors.

    Layers have their paths here as names, which for models of `tg.models` are those of transformers. PEFT reads the
    folder with `PeftModel.from_pretrained(model, folder)`.

    Args:
        model: A model with adapters.
        folder: The folder, which is created if there is none.
        values: Arrays by path, such as `training.parameters()`; by default those of the model, which then has to be
            initialized, as `training.model()` is.
        name: The adapter.

    Raises:
        ParameterError: The model has no such adapter, or one with a magnitude (DoRA) in some layers alone; or it is
            declared, and there are no values.
        InputError: Values of the adapter are missing, or their shapes differ.
        OSError: A file can't be written.

    Example:
        >>> import pathlib, tempfile
        >>> folder, model = pathlib.Path(tempfile.mkdtemp()), tg.nn.MLP(64, 32, 10)
        >>> _ = tg.nn.lora(model, rank=4)
        >>> tg.nn.save_lora(model.initialized(0), folder)
        >>> sorted(path.name for path in folder.iterdir())
        ['adapter_config.json', 'adapter_model.safetensors']
    """
    layers = {path: layer.adapters[name] for path, layer in adapted(model) if name in layer.adapters}
    if not layers:
        raise ParameterError(f"{user_line()}: save_lora: the model has no adapter {name!r}: tg.nn.lora(model) adds one")
    plain = next((path for path, adapter in layers.items() if adapter.magnitude is None), None)
    scaled = next((path for path, adapter in layers.items() if adapter.magnitude is not None), None)
    if plain is not None and scaled is not None:
        raise ParameterError(
            f"{user_line()}: save_lora: {name!r} has a magnitude in {scaled}, and none in {plain}, which files can't "
            "say: pass tg.nn.lora another name= for either, and save both"
        )
    leaves = {
        f"{path}.adapters.{name}.{own}": leaf for path, adapter in layers.items() for own, leaf in _factors(adapter)
    }
    of_adapter = None if values is None else {path: value for path, value in values.items() if path in leaves}
    arrays = arrays_to_write("save_lora", leaves, of_adapter)
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    tensors = {
        f"{PREFIX}{path}.{FACTORS[own]}": np.ascontiguousarray(arrays[f"{path}.adapters.{name}.{own}"].T)
        for path, adapter in layers.items()
        for own, _ in _factors(adapter)
    }
    write_safetensors(place / WEIGHTS, tensors, {"format": "pt"})
    write_json(place / CONFIG, _settings(model, layers))


def load_lora(model: Module, folder: str | os.PathLike[str], name: str = NAME) -> list[str]:
    """Adds an adapter that PEFT or `save_lora` wrote to a model, in place, and applies it; freezes everything else.

    Args:
        model: The model, declared or initialized.
        folder: A folder with `adapter_config.json` and `adapter_model.safetensors`.
        name: The name that the adapter gets here.

    Returns:
        The paths of the adapted layers.

    Raises:
        InputError: The settings are malformed, or of another kind than LoRA and DoRA of linear layers; or the weights
            are of layers that the model doesn't have, or of other shapes.
        ParameterError: A layer has an adapter of this name. Nothing is changed then.
        OSError: A file can't be read.

    Example:
        >>> import pathlib, tempfile
        >>> folder, model = pathlib.Path(tempfile.mkdtemp()), tg.nn.MLP(64, 32, 10)
        >>> _ = tg.nn.lora(model, rank=4)
        >>> tg.nn.save_lora(model.initialized(0), folder)
        >>> tg.nn.load_lora(tg.nn.MLP(64, 32, 10), folder)
        ['layers.0', 'layers.1']
    """
    place = Path(folder)
    config = _read_settings(place / CONFIG)
    layers, weights = linear_layers(model), read_weights(place / WEIGHTS)
    factors = _by_layer(weights, place / WEIGHTS)
    made: dict[str, LowRank] = {}
    dropout = float(config.get("lora_dropout") or 0)
    for path, own in factors.items():
        layer = layers.get(path)
        if layer is None:
            raise InputError(f"{user_line()}: {place / WEIGHTS} adapts {path}, which is no linear layer of the model")
        if name in adapters_of(layer):
            raise ParameterError(
                f"{user_line()}: load_lora: {path} has an adapter {name!r} already; pass another name="
            )
        a, b = (weights[own[part]] for part in ("a", "b"))
        magnitude = weights[own["magnitude"]] if "magnitude" in own else None
        expected = ((a.shape[0], layer.in_features), (layer.out_features, a.shape[0]))
        if (a.shape, b.shape) != expected or (magnitude is not None and magnitude.shape != (layer.out_features,)):
            raise InputError(
                f"{user_line()}: {place / WEIGHTS}: the factors of {path} are {a.shape} and {b.shape}; the layer takes "
                f"{layer.in_features} numbers and returns {layer.out_features}"
            )
        rank = a.shape[0]
        alpha = _of_layer(config.get("alpha_pattern"), path, config["lora_alpha"])
        scale = alpha * math.sqrt(rank) if config.get("use_rslora") else alpha
        made[path] = LowRank(layer, rank, float(scale), magnitude, np.array(a.T), np.array(b.T), dropout)
    for path, adapter in made.items():
        add(layers[path], name, adapter)
    use_lora(model, name)
    return list(made)


def _factors(adapter: LowRank) -> list[tuple[str, Any]]:
    """Returns the parameters of an adapter by their name in it."""
    return [(own, leaf) for own in FACTORS if (leaf := getattr(adapter, own)) is not None]


def _settings(model: Module, layers: Mapping[str, LowRank]) -> dict[str, Any]:
    """Returns the settings of an adapter as PEFT reads them; what most layers share is the rule, others are named."""
    turned = getattr(model, "conv1d", ())  # GPT-2's weights are [in, out] in PyTorch too
    ranks = {path: adapter.rank for path, adapter in layers.items()}
    alphas = {path: adapter.alpha for path, adapter in layers.items()}
    dropouts = {path: adapter.dropout for path, adapter in layers.items()}  # PEFT has one for all
    rank, alpha, dropout = (Counter(each.values()).most_common(1)[0][0] for each in (ranks, alphas, dropouts))
    return {
        "peft_type": "LORA",
        "task_type": None,
        "base_model_name_or_path": None,
        "inference_mode": True,
        "r": rank,
        "lora_alpha": alpha,
        "lora_dropout": dropout,
        "rank_pattern": {_pattern(path): each for path, each in ranks.items() if each != rank},
        "alpha_pattern": {_pattern(path): each for path, each in alphas.items() if each != alpha},
        "target_modules": list(layers),
        "use_dora": any(adapter.magnitude is not None for adapter in layers.values()),
        "use_rslora": False,
        "fan_in_fan_out": any(fnmatch.fnmatchcase(f"{path}.weight", each) for path in layers for each in turned),
        **UNSUPPORTED,
    }


def _read_settings(file: Path) -> dict[str, Any]:
    """Returns the settings of a folder.

    Raises:
        InputError: They are malformed, or not supported.
    """
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
        kind, alpha = config["peft_type"], float(config["lora_alpha"])
        dropout = float(config.get("lora_dropout") or 0)
    except MALFORMED as error:
        raise InputError(f"{user_line()}: {file} holds no settings of an adapter: {error!r}") from None
    if not 0 <= dropout <= 1:
        raise InputError(f"{user_line()}: {file}: lora_dropout = {dropout} is no probability")
    if kind != "LORA" or not math.isfinite(alpha):
        raise InputError(f"{user_line()}: {file} is of type {kind!r}; LORA is supported")
    for setting, neutral in UNSUPPORTED.items():
        if config.get(setting) not in (neutral, None, False, [], {}):
            raise InputError(f"{user_line()}: {file}: {setting} = {config[setting]!r} is not supported")
    return config


def _by_layer(weights: WeightFiles, file: Path) -> dict[str, dict[str, str]]:
    """Returns the names of the weights of each layer, by what they are.

    Raises:
        InputError: A weight is no factor of a linear layer, or a layer lacks one.
    """
    layers: dict[str, dict[str, str]] = {}
    for full in weights:
        own = next((own for own, suffix in FACTORS.items() if full.endswith(f".{suffix}")), None)
        if own is None or not full.startswith(PREFIX):
            raise InputError(f"{user_line()}: {file} holds {full!r}, which is no factor of a linear layer")
        layers.setdefault(full.removeprefix(PREFIX).removesuffix(f".{FACTORS[own]}"), {})[own] = full
    for path, own in layers.items():
        if not {"a", "b"} <= set(own):
            raise InputError(f"{user_line()}: {file} lacks a factor of {path}")
    return layers


def _pattern(path: str) -> str:
    """Returns the pattern of a layer alone: without `^` it is also of those whose paths end so."""
    return f"^{re.escape(path)}"


def _of_layer(patterns: Mapping[str, float] | None, path: str, default: float) -> float:
    """Returns a setting of a layer: that of the first pattern for its name or the end of its path, else the default."""
    named = (value for key, value in (patterns or {}).items() if re.fullmatch(rf"(.*\.)?({key})", path))
    return float(next(named, default))
