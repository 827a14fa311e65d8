"""Folders of models: several files, names with and without a prefix, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from written_folders import FOLDERS, bert, gpt2, llama, tokens

import tensorgrad as tg
from tensorgrad.errors import InputError, OptionError, ParameterError, ShapeError


def small() -> tg.models.LlamaForCausalLM:
    return tg.models.LlamaForCausalLM(
        tg.models.LlamaOptions(
            vocab_size=20, hidden_size=8, intermediate_size=12, num_hidden_layers=1, num_attention_heads=2
        )
    )


def test_weights_are_divided_among_files(tmp_path: Path) -> None:
    model = small().initialized(0)
    tg.models.save_pretrained(model, tmp_path, max_shard_bytes=1000)
    files = sorted(path.name for path in tmp_path.iterdir())
    count = len(files) - 2
    assert count > 2
    assert files == [
        "config.json",
        *(f"model-{number:05}-of-{count:05}.safetensors" for number in range(1, count + 1)),
        "model.safetensors.index.json",
    ]
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    assert index["metadata"]["total_size"] == 4 * sum(value.size for value in model.state_dict().values())
    again = tg.models.from_pretrained(tmp_path).initialized().state_dict()
    for path, value in model.state_dict().items():
        np.testing.assert_array_equal(again[path], value)
    tg.models.save_pretrained(model, tmp_path)
    assert (tmp_path / "model.safetensors").exists() and not (tmp_path / "model.safetensors.index.json").exists()
    tg.models.from_pretrained(tmp_path)


def test_a_folder_can_be_written_where_it_was_read(tmp_path: Path) -> None:
    model = tg.models.from_pretrained(llama().write(tmp_path))
    values = {path: value + 1 for path, value in model.initialized().state_dict().items()}
    tg.models.save_pretrained(model, tmp_path, values)
    with pytest.raises(InputError, match="has changed since it was read"):
        model.initialized()
    np.testing.assert_array_equal(
        tg.models.from_pretrained(tmp_path).initialized().state_dict()["lm_head.weight"], values["lm_head.weight"]
    )


def test_a_base_model_is_read_from_a_model_for_a_task_and_back(tmp_path: Path) -> None:
    base = tg.models.from_pretrained(bert().write(tmp_path / "masked"), architecture="BertModel").initialized()
    tg.models.save_pretrained(base, tmp_path / "base")
    config = json.loads((tmp_path / "base" / "config.json").read_text())
    assert config["architectures"] == ["BertModel"]
    model = tg.models.from_pretrained(tmp_path / "base", architecture="BertForTokenClassification").initialized(0)
    features, _ = tg.nn.inference(base)(tokens())
    inner, _ = tg.nn.inference(model.bert)(tokens())
    np.testing.assert_array_equal(np.asarray(inner), np.asarray(features))


def test_a_tied_output_layer_in_a_file_is_left_out(tmp_path: Path) -> None:
    model = tg.models.from_pretrained(llama(tie_word_embeddings=True).write(tmp_path))
    assert isinstance(model, tg.models.LlamaForCausalLM) and model.lm_head is None
    assert "lm_head.weight" not in model.named_parameters()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"compression": {"bits": 4}}, r"the setting 'compression', \{'bits': 4\}, which is unknown here"),
        ({"sliding_window": 5}, "the setting 'sliding_window', 5, which is supported as None only"),
        ({"is_decoder": True}, "the setting 'is_decoder', True, which is supported as False only"),
        (
            {"rope_scaling": {"rope_type": "longrope", "factor": 2.0}},
            r"rope_scaling \{'rope_type': 'longrope', .* the types are",
        ),
        ({"rope_scaling": {"rope_type": "linear", "factor": 2.0, "odd": 1}}, "'odd': 1} is not supported"),
        ({"rope_scaling": {"rope_type": "linear"}}, "is not supported"),
        ({"hidden_size": "16"}, "the setting 'hidden_size' is '16', expected int"),
        ({"tie_word_embeddings": 1}, "the setting 'tie_word_embeddings' is 1, expected bool"),
        ({"num_hidden_layers": True}, "the setting 'num_hidden_layers' is True, expected int"),
        ({"rope_scaling": [2.0]}, "the setting 'rope_scaling' is .* expected Mapping"),
        ({"model_type": "mamba"}, "describes LlamaForCausalLM of type 'mamba'; what is supported: BertForMaskedLM, "),
        ({"architectures": ["LlamaForQuestionAnswering"]}, "describes LlamaForQuestionAnswering of type 'llama'"),
        ({"architectures": None}, "describes a model of type 'llama'"),
    ],
)
def test_settings_that_are_not_supported(settings: dict[str, Any], message: str, tmp_path: Path) -> None:
    place = llama().write(tmp_path, **settings)
    with pytest.raises(InputError, match=rf"test_folders\.py:\d+: .*{message}"):
        tg.models.from_pretrained(place)


def test_a_setting_can_be_left_out(tmp_path: Path) -> None:
    place = llama().write(tmp_path, quantization_config={"bits": 4})
    model = tg.models.from_pretrained(place, ignore=["quantization_config"])
    assert "quantization_config" not in model.options.written()


def test_other_models_settings_of_which_nothing_follows_are_accepted(tmp_path: Path) -> None:
    place = llama().write(tmp_path, sliding_window=None, use_sliding_window=False, is_decoder=False, use_cache=False)
    options = tg.models.from_pretrained(place).options
    assert options.others["use_cache"] is False and "sliding_window" not in options.written()


def test_a_folder_that_is_missing() -> None:
    with pytest.raises(FileNotFoundError, match=r"No such folder; .* is downloaded to one first: 'owner/name'"):
        tg.models.from_pretrained("owner/name")


def test_what_a_folder_lacks(tmp_path: Path) -> None:
    folder = llama()
    with pytest.raises(OSError, match=r"config\.json"):
        tg.models.from_pretrained(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(InputError, match=r"config\.json is no JSON"):
        tg.models.from_pretrained(tmp_path)
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(InputError, match=r"config\.json holds no settings, but list"):
        tg.models.from_pretrained(tmp_path)
    config = {name: value for name, value in folder.config.items() if name != "hidden_size"}
    type(folder)(config, folder.weights, folder.expected).write(tmp_path)
    with pytest.raises(InputError, match="the folder's settings lack hidden_size"):
        tg.models.from_pretrained(tmp_path)
    weights = {name: tensor for name, tensor in folder.weights.items() if "k_proj" not in name}
    weights["model.extra"] = weights["model.norm.weight"].clone()
    type(folder)(folder.config, weights, folder.expected).write(tmp_path)
    missing = r"missing: model\.layers\.0\.self_attn\.k_proj\.weight, .* unexpected: model\.extra"
    with pytest.raises(InputError, match=missing):
        tg.models.from_pretrained(tmp_path)
    folder.write(tmp_path, hidden_size=32)
    with pytest.raises(InputError, match=r"of another shape: model\.embed_tokens\.weight is \[50, 16\], expected"):
        tg.models.from_pretrained(tmp_path)


def test_a_new_head_excuses_nothing_else(tmp_path: Path) -> None:
    folder = bert()
    weights = {name: tensor for name, tensor in folder.weights.items() if "key.weight" not in name}
    place = type(folder)(folder.config, weights, folder.expected).write(tmp_path)
    with pytest.raises(InputError, match=r"missing: bert\.encoder\.layer\.0\.attention\.self\.key\.weight"):
        tg.models.from_pretrained(place, architecture="BertForSequenceClassification")
    with pytest.raises(OptionError, match=r"architecture must be one of BertForMaskedLM, .*, got 'GPT2LMHeadModel'"):
        tg.models.from_pretrained(place, architecture="GPT2LMHeadModel")


def test_what_can_t_be_written(tmp_path: Path) -> None:
    place = tmp_path / "new"
    with pytest.raises(ParameterError, match="the model is declared and has no values"):
        tg.models.save_pretrained(small(), place)
    with pytest.raises(ParameterError, match=r"expected a model of tg\.models, got Linear"):
        tg.models.save_pretrained(tg.nn.Linear(3, 2).initialized(0), place)
    values = small().initialized(0).state_dict()
    with pytest.raises(InputError, match="lm_head"):
        tg.models.save_pretrained(small(), place, {path: v for path, v in values.items() if "lm_head" not in path})
    with pytest.raises(InputError, match="shape"):
        tg.models.save_pretrained(small(), place, {**values, "lm_head.weight": np.zeros((3, 3), np.float32)})
    assert not place.exists()


def test_options_that_are_wrong() -> None:
    with pytest.raises(OptionError, match="a llama has no setting sliding_window"):
        replace(small().options, sliding_window=5)
    with pytest.raises(OptionError, match="a qwen2 has no setting mlp_bias"):
        replace(small().options, model_type="qwen2", mlp_bias=True)
    with pytest.raises(ShapeError, match="num_attention_heads"):
        replace(small().options, num_attention_heads=0)
    with pytest.raises(OptionError, match=r"LlamaOptions are of llama, mistral, .*, not of 'gpt2'"):
        tg.models.LlamaOptions(
            model_type="gpt2",
            vocab_size=2,
            hidden_size=2,
            intermediate_size=2,
            num_hidden_layers=1,
            num_attention_heads=1,
        )
    with pytest.raises(OptionError, match="there is no activation 'softmax', but gelu"):
        tg.models.GPT2LMHeadModel(tg.models.GPT2Options(activation_function="softmax", n_embd=8, n_head=2, n_layer=1))


def test_weights_are_not_read_before_they_are_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[str] = []
    original = tg.nn.read_weights(gpt2().write(tmp_path)).__class__.__getitem__
    monkeypatch.setattr(
        "tensorgrad.nn.weight_files.WeightFiles.__getitem__",
        lambda files, name: (reads.append(name), original(files, name))[1],
    )
    model = tg.models.from_pretrained(tmp_path)
    assert reads == []
    model.initialized()
    assert len(reads) == len(set(reads)) == len(model.named_parameters())


@pytest.mark.parametrize("name", FOLDERS)
def test_written_settings_read_the_same(name: str, tmp_path: Path) -> None:
    options = tg.models.from_pretrained(FOLDERS[name]().write(tmp_path)).options
    assert type(options).read(options.written()) == options
