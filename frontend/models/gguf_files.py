"""Language models as GGUF files, which llama.cpp and its kin run.

Names, layouts and metadata are those of GGUF's specification and of llama.cpp's converter of Hugging Face's folders.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np

import tensorgrad as tg
from tensorgrad.errors import InputError, OptionError
from tensorgrad.models.folders import arrays_by_leaf
from tensorgrad.models.generation import LanguageModel
from tensorgrad.models.gguf_vocabulary import add_vocabulary
from tensorgrad.models.gpt2 import GPT2Options
from tensorgrad.models.llama_options import LlamaOptions, rotary_frequencies, rotary_scaling
from tensorgrad.nn.pytorch import TorchTensor, torch_tensors
from tensorgrad.runtime.files import replacing
from tensorgrad.tracing.location import user_line

DTYPES = {"f32": ("F32", "ALL_F32"), "f16": ("F16", "MOSTLY_F16"), "q8_0": ("Q8_0", "MOSTLY_Q8_0")}
"""GGUF's names of a tensor's type and of a file's, by dtype."""

ARCHITECTURES = {"mistral": "llama", "mixtral": "llama", "qwen2_moe": "qwen2moe", "qwen3_moe": "qwen3moe"}
"""llama.cpp's names of models that have another one there."""

INTERLEAVED = ("llama", "mistral", "mixtral")
"""The models whose rotary pairs are neighbors in llama.cpp, and the halves of a head here."""

ALWAYS_F32 = ("_norm.weight", "position_embd.weight", "rope_freqs.weight", "ffn_gate_inp.weight")
"""The ends of the names of tensors that aren't rounded, besides those of one axis."""

BLOCK = 32
"""The numbers that share a scale in Q8_0."""

EXPERT = ("gate_proj", "up_proj", "down_proj")
"""How experts' matrices are named in most models."""

LAYERS_OF_27B = 46
"""By this number of layers llama.cpp knows the Gemma 2 whose scores are scaled by its features, not by a head's."""

Settings = dict[str, Any]


def save_gguf(
    model: tg.nn.Module,
    path: str | os.PathLike[str],
    dtype: Literal["f32", "f16", "q8_0"] = "f16",
    tokenizer: str | os.PathLike[str] | None = None,
    split: str | None = None,
    values: Mapping[str, Any] | None = None,
) -> None:
    """Writes a language model as a GGUF file, which llama.cpp and what is built on it read.

    Vectors, norms, positions and the routers of experts are always f32. Where rows are no multiple of 32, f16 takes the
    place of q8_0, as in llama.cpp's converter.

    Args:
        model: A Llama, Mistral, Mixtral, Qwen, Gemma or GPT-2 of `tg.models`, without adapters (`tg.nn.merge_lora`).
        path: The file.
        dtype: How weights are stored: "f32", "f16", or "q8_0", blocks of 32 numbers of 8 bits and an f16 scale.
        tokenizer: A folder with `tokenizer.json`, of the kind that merges pairs of bytes (GPT-2, Llama 3, Qwen,
            SmolLM); by default the file has no tokenizer, and takes tokens.
        split: llama.cpp's name of how the tokenizer splits texts (`tokenizer.ggml.pre`), if it isn't known from the
            file.
        values: Arrays by path, such as `training.parameters()`; by default those of the model, which then has to be
            initialized, as `training.model()` is.

    Raises:
        ParameterError: The model is no language model, it has adapters, or it is declared, and there are no values.
        InputError: The model has a setting that llama.cpp doesn't have; the tokenizer is of another kind; or values
            are missing, unknown or of other shapes.
        OptionError: There is no such dtype, or the package gguf is missing.
        OSError: A file can't be read or written.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp(), "model.gguf")
        >>> options = tg.models.LlamaOptions(
        ...     vocab_size=50, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4
        ... )
        >>> tg.models.save_gguf(tg.models.LlamaForCausalLM(options).initialized(0), path)
        >>> path.read_bytes()[:4]
        b'GGUF'
    """
    if find_spec("gguf") is None:
        raise OptionError(f"{user_line()}: save_gguf needs the package gguf: pip install gguf")
    if dtype not in DTYPES:
        raise OptionError(f"{user_line()}: save_gguf: dtype must be one of {', '.join(DTYPES)}, got {dtype!r}")
    by_leaf = arrays_by_leaf("save_gguf", model, values, LanguageModel)
    assert isinstance(model, LanguageModel)
    options = model.options
    refused = ", ".join(_refused(options))
    if refused:
        raise InputError(f"{user_line()}: save_gguf: llama.cpp has no {options.model_type} with {refused}")
    with replacing(path) as aside:
        _write(aside, model, by_leaf, dtype, None if tokenizer is None else Path(tokenizer), split)


def _write(
    path: Path, model: LanguageModel, by_leaf: Mapping[int, Any], dtype: str, folder: Path | None, split: str | None
) -> None:
    import gguf

    options: Any = model.options
    kind, file_type = DTYPES[dtype]
    architecture = str(ARCHITECTURES.get(options.model_type, options.model_type))
    settings = _gpt2_settings(options) if isinstance(options, GPT2Options) else _llama_settings(options)
    writer = gguf.GGUFWriter(path, architecture)
    try:
        writer.add_type(gguf.GGUFType.MODEL)
        for name, value in settings.items():
            getattr(writer, f"add_{name}")(value)
        writer.add_file_type(gguf.LlamaFileType[file_type])
        if dtype == "q8_0":
            writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
        add_vocabulary(writer, folder, options.vocab_size, split)
        keys = {name: key for key, name in gguf.MODEL_ARCH_NAMES.items()}
        names = gguf.get_tensor_name_map(keys[architecture], settings["block_count"])
        stored = [(*each, _kind(*each, kind)) for each in _tensors(model, names)]
        for name, shape, _, own in stored:
            size = gguf.quant_shape_to_byte_shape(shape, own) if own == gguf.GGMLQuantizationType.Q8_0 else shape
            item = {"F32": np.float32, "F16": np.float16, "Q8_0": np.uint8}[own.name]
            count = int(np.prod(size)) * np.dtype(item).itemsize
            writer.add_tensor_info(name, size, np.dtype(item), count, raw_dtype=own)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        for _, _, make, own in stored:  # one array at a time
            array = np.ascontiguousarray(make(by_leaf), np.float32)
            writer.write_tensor_data(gguf.quants.quantize(array, own))
    finally:
        writer.close()


def _kind(name: str, shape: tuple[int, ...], make: Any, kind: str) -> Any:
    """Returns the type of a tensor in a file of a type."""
    import gguf

    if len(shape) < 2 or name.endswith(ALWAYS_F32):
        return gguf.GGMLQuantizationType.F32
    return gguf.GGMLQuantizationType["F16" if kind == "Q8_0" and shape[-1] % BLOCK else kind]


def _tensors(model: LanguageModel, names: Any) -> Iterator[tuple[str, tuple[int, ...], Callable[[Any], np.ndarray]]]:
    """Yields the name, the shape and the maker of each tensor of a file, from arrays by leaf."""
    options: Any = model.options
    if isinstance(options, LlamaOptions) and options.rope_scaling and _rotary_kind(options) == "llama3":
        factors = rotary_frequencies(replace(options, rope_scaling=None)) / rotary_frequencies(options)
        yield "rope_freqs.weight", factors.shape, lambda by_leaf: factors
    stacks: dict[str, list[TorchTensor]] = {}
    for tensor in torch_tensors(model):
        stacks.setdefault(tensor.name if tensor.member is None else _of_all(tensor.name, options), []).append(tensor)
    for own, tensors in stacks.items():
        name, shape = names.get_name(own, (".weight", ".bias")), tensors[0].shape
        assert name is not None, own
        if tensors[0].member is not None:
            shape = (len(tensors), *shape)
        elif name.endswith("gate_inp_shexp.weight"):  # of one row, which is a vector there
            shape = shape[1:]

        def made(by_leaf: Mapping[int, Any], tensors: Sequence[TorchTensor] = tensors, shape: Any = shape) -> Any:
            arrays = [tensor.join([by_leaf[id(part)] for part in tensor.parts]) for tensor in tensors]
            stacked = arrays[0] if len(arrays) == 1 else np.stack(arrays)
            return _as_there(stacked, tensors[0].name, options).reshape(shape)

        yield name, shape, made


def _of_all(name: str, options: LlamaOptions) -> str:
    """Returns the name of the tensor that stacks a matrix of all experts, for the name of an expert's own."""
    layer, _, matrix = name.removesuffix(".weight").partition(f".{options.variant.feed_forward}.experts.")
    standard = EXPERT[options.variant.expert.index(matrix.partition(".")[2])]
    return f"{layer}.mlp.experts.{standard}.weight"


def _as_there(array: np.ndarray, name: str, options: Any) -> np.ndarray:
    """Returns an array of transformers' as llama.cpp computes with it.

    Its factor of Gemma's norms is `weight`, not `1 + weight`. In Llama it rotates features `2 i` and `2 i + 1` of a
    head; here, as in transformers, `i` and `i + features / 2` are a pair.
    """
    if isinstance(options, LlamaOptions) and options.variant.is_gemma and name.endswith("norm.weight"):
        return array + 1
    projection = name.rpartition(".")[0].rpartition(".")[2]
    if options.model_type in INTERLEAVED and projection in ("q_proj", "k_proj"):
        heads = options.num_attention_heads if projection == "q_proj" else options.num_key_value_heads
        halves = array.reshape(heads, 2, -1, *array.shape[1:])
        return halves.swapaxes(1, 2).reshape(array.shape)
    return array


def _gpt2_settings(options: GPT2Options) -> Settings:
    return {
        "block_count": options.n_layer,
        "context_length": options.n_positions,
        "embedding_length": options.n_embd,
        "feed_forward_length": options.n_inner or 4 * options.n_embd,
        "head_count": options.n_head,
        "layer_norm_eps": options.layer_norm_epsilon,
    }


def _llama_settings(options: Any) -> Settings:
    windows = [window for layer in range(options.num_hidden_layers) if (window := options.window(layer)) is not None]
    slides = options.model_type == "gemma2"  # llama.cpp's other models attend to all: right in texts within the window
    length = options.max_position_embeddings
    settings: Settings = {
        "block_count": options.num_hidden_layers,
        "context_length": length if slides else min([length, *windows]),
        "embedding_length": options.hidden_size,
        "feed_forward_length": options.intermediate_size,
        "head_count": options.num_attention_heads,
        "head_count_kv": options.num_key_value_heads,
        "key_length": options.head_dim,
        "value_length": options.head_dim,
        "rope_dimension_count": options.head_dim,
        "rope_freq_base": options.rope_theta,
        "layer_norm_rms_eps": options.rms_norm_eps,
    }
    if slides:
        settings["attn_logit_softcapping"] = options.attn_logit_softcapping
        settings["final_logit_softcapping"] = options.final_logit_softcapping
        settings["sliding_window"] = options.sliding_window
    if options.has_experts:
        settings |= {"expert_count": options.num_experts, "expert_used_count": options.num_experts_per_tok}
    if options.moe_intermediate_size:
        settings["expert_feed_forward_length"] = options.moe_intermediate_size
    if options.shared_expert_intermediate_size:
        settings["expert_shared_feed_forward_length"] = options.shared_expert_intermediate_size
    scaling = rotary_scaling(options)
    if isinstance(scaling, tg.nn.RotaryScaling) and _rotary_kind(options) == "linear":
        from gguf import RopeScalingType

        settings |= {"rope_scaling_type": RopeScalingType.LINEAR, "rope_scaling_factor": scaling.factor}
    return settings


def _rotary_kind(options: LlamaOptions) -> str:
    scaling = options.rope_scaling or {}
    return str(scaling.get("rope_type") or scaling.get("type") or "default")


def _refused(options: Any) -> Iterator[str]:
    """Yields what a model has, and llama.cpp's of its kind hasn't."""
    wanted: dict[str, tuple[Any, ...]]
    if isinstance(options, GPT2Options):
        wanted = {
            "activation_function": ("gelu_new", "gelu_pytorch_tanh"),
            "scale_attn_weights": (True,),
            "scale_attn_by_inverse_layer_idx": (False,),
        }
    else:
        gemma, layers = options.variant.is_gemma, options.num_hidden_layers
        wanted = {"hidden_act": ("gelu_pytorch_tanh",) if gemma else ("silu", "swish")}
        wanted |= {"tie_word_embeddings": (True,)} if gemma else {}
        if _rotary_kind(options) == "yarn":
            yield "rope_scaling of yarn"
        if options.has_experts and not all(map(options.is_sparse, range(layers))):
            yield "layers without experts"
        if options.model_type == "qwen2_moe":
            wanted |= {"norm_topk_prob": (False,), "qkv_bias": (True,)}
            if not options.shared_expert_intermediate_size:
                yield "no shared expert"
        if options.model_type == "qwen3_moe":
            wanted["norm_topk_prob"] = (True,)
        if options.model_type not in ("llama", "mistral"):
            wanted["attention_bias"] = (False,)
            if _rotary_kind(options) == "llama3":
                yield "rope_scaling of llama3"
        if options.model_type == "gemma2":
            pattern = [options.sliding_window if layer % 2 == 0 else None for layer in range(layers)]
            if None in (options.sliding_window, options.attn_logit_softcapping, options.final_logit_softcapping) or (
                [options.window(layer) for layer in range(layers)] != pattern
            ):
                yield "other layers that slide than every second one, or without softcapping"
            widths = options.hidden_size / options.num_attention_heads if layers == LAYERS_OF_27B else options.head_dim
            wanted["query_pre_attn_scalar"] = (widths,)
    for name, allowed in wanted.items():
        if (value := getattr(options, name)) not in allowed:
            yield f"{name} = {value!r}"
