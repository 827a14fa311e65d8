"""The settings of models: what `config.json` of a Hugging Face folder says, read strictly and written back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, ClassVar, Self

import tensorgrad as tg
from tensorgrad.errors import InputError, OptionError
from tensorgrad.tracing.location import user_line

WITHOUT_EFFECT = frozenset(
    (
        *("_attn_implementation", "_attn_implementation_autoset", "_name_or_path", "attn_implementation"),
        *("architectures", "begin_suppress_tokens", "bos_token_id", "cache_implementation", "chunk_size_feed_forward"),
        *("cls_token_id", "decoder_start_token_id", "dtype", "eos_token_id", "finetuning_task", "forced_bos_token_id"),
        *("forced_eos_token_id", "gradient_checkpointing", "id2label", "label2id", "mask_token_id", "model_type"),
        *("name_or_path", "output_attentions", "output_hidden_states", "pad_token_id", "prefix", "pretraining_tp"),
        *("problem_type", "return_dict", "return_dict_in_generate", "sep_token_id", "task_specific_params"),
        *("tokenizer_class", "torch_dtype", "torchscript", "transformers_version", "use_bfloat16", "use_cache"),
    )
)
"""Settings that say how others use or store a model; they don't change its results."""

FIXED = {
    "add_cross_attention": False,
    "is_decoder": False,
    "is_encoder_decoder": False,
    "pruned_heads": {},
    "tie_encoder_decoder": False,
    "use_bidirectional_attention": False,
}
"""Settings that models here support with one value."""

ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "gelu": tg.gelu,
    "gelu_fast": lambda x: tg.gelu(x, "tanh"),
    "gelu_new": lambda x: tg.gelu(x, "tanh"),
    "gelu_pytorch_tanh": lambda x: tg.gelu(x, "tanh"),
    "quick_gelu": lambda x: x * tg.sigmoid(1.702 * x),
    "relu": tg.relu,
    "sigmoid": tg.sigmoid,
    "silu": tg.silu,
    "swish": tg.silu,
    "tanh": tg.tanh,
}
"""Activation functions by the names that Hugging Face gives them."""


KINDS: dict[str, tuple[type, ...]] = {
    "Mapping": (dict,),
    "None": (type(None),),
    "bool": (bool,),
    "float": (int, float),
    "int": (int,),
    "list": (list,),
    "str": (str,),
}
"""What JSON has for the annotations of settings."""


def activation(name: str) -> Callable[[Any], Any]:
    """Returns an activation function.

    Raises:
        OptionError: There is none of that name.
    """
    if name not in ACTIVATIONS:
        raise OptionError(f"{user_line()}: there is no activation {name!r}, but {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[name]


@dataclass(frozen=True, kw_only=True)
class Options:
    """Settings of a model. Those of a family are a subclass, whose fields have their names in `config.json`.

    Attributes:
        model_type: The kind of model within the family.
        initializer_range: The standard deviation of initial weights.
        num_labels: The number of classes, for classifiers.
        others: Settings of the folder that don't change results; they are written back.
    """

    model_types: ClassVar[Mapping[str, Mapping[str, Any]]]
    """What transformers takes for settings that a folder omits, by model type; the fields' defaults otherwise."""
    without_effect: ClassVar[Sequence[str]] = ()
    """Settings besides `WITHOUT_EFFECT` that don't change the family's results."""
    fixed: ClassVar[Mapping[str, Any]] = {}
    """Settings besides `FIXED` that the family supports with one value."""

    model_type: str
    initializer_range: float = 0.02
    num_labels: int = 2
    others: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.model_type not in self.model_types:
            known = ", ".join(self.model_types)
            raise OptionError(f"{user_line()}: {type(self).__name__} are of {known}, not of {self.model_type!r}")
        own = self.settings_of(self.model_type)
        for each in fields(self):
            if each.name not in own and each.name != "others" and getattr(self, each.name) != each.default:
                raise OptionError(f"{user_line()}: a {self.model_type} has no setting {each.name}")

    @classmethod
    def translated(cls, config: Mapping[str, Any]) -> dict[str, Any]:
        """Returns a folder's settings in terms of the fields; families override it where names have changed."""
        labels = config.get("id2label") or {}
        return {**config, **({"num_labels": len(labels)} if labels else {})}

    @classmethod
    def settings_of(cls, model_type: str) -> dict[str, Field[Any]]:
        """Returns the fields that a model type has, by name."""
        return {each.name: each for each in fields(cls) if each.name != "others"}

    @classmethod
    def read(cls, config: Mapping[str, Any], ignore: Sequence[str] = ()) -> Self:
        """Returns the options that the settings of a folder stand for.

        Args:
            config: The content of `config.json`.
            ignore: Names of settings that are left out.

        Raises:
            InputError: A setting is unknown, of another type, or of a value that isn't supported; or one is missing.
        """
        model_type = str(config.get("model_type"))
        settings = cls.translated({name: value for name, value in config.items() if name not in ignore})
        own, every = cls.settings_of(model_type), {each.name: each.default for each in fields(cls)}
        harmless, single = WITHOUT_EFFECT | set(cls.without_effect), {**every, **FIXED, **cls.fixed}
        for name, value in settings.items():
            if name in own or name in harmless or value is None or (name in single and value == single[name]):
                continue
            what = f"which is supported as {single[name]!r} only" if name in single else "which is unknown here"
            raise InputError(
                f"{user_line()}: the model has the setting {name!r}, {value!r}, {what}, and may change results: "
                f"ignore=[{name!r}] reads the folder without it"
            )
        chosen = {**cls.model_types.get(model_type, {})}
        for name, setting in own.items():
            value = settings.get(name)
            if name not in settings or (value is None and "None" not in _kinds(setting)):
                continue  # null stands for the default where a setting can't be absent
            if not any(_is_of(value, kind) for kind in _kinds(setting)):
                raise InputError(f"{user_line()}: the setting {name!r} is {value!r}, expected {setting.type}")
            chosen[name] = value
        missing = [each.name for each in own.values() if each.name not in chosen and each.default is MISSING]
        if missing:
            raise InputError(f"{user_line()}: the folder's settings lack {', '.join(missing)}")
        others = {name: config[name] for name in config if name in harmless - {"model_type", "architectures"}}
        return cls(**chosen, others=others)

    def written(self) -> dict[str, Any]:
        """Returns the settings as `config.json` has them."""
        own = {name: getattr(self, name) for name in self.settings_of(self.model_type) if name != "num_labels"}
        named: dict[str, Any] = {}
        if len(self.others.get("id2label") or range(2)) != self.num_labels:
            labels = {str(number): f"LABEL_{number}" for number in range(self.num_labels)}
            named = {"id2label": labels, "label2id": {label: int(number) for number, label in labels.items()}}
        return {**self.others, **named, **own}


def _kinds(setting: Field[Any]) -> list[str]:
    return str(setting.type).split(" | ")


def _is_of(value: Any, kind: str) -> bool:
    """Returns whether a value of JSON is of a kind that fields are annotated with."""
    return isinstance(value, KINDS[kind.partition("[")[0]]) and (kind == "bool" or not isinstance(value, bool))
