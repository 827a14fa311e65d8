"""Mixtures of experts: both ways to apply them, their names in files, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from written_folders import CHOSEN, COUNT, mixtral, qwen2_moe

import tensorgrad as tg
from tensorgrad.errors import InputError, OptionError, ShapeError
from tensorgrad.models.experts import Experts

SIZES: dict[str, Any] = {
    "vocab_size": 50,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}


def options(**others: Any) -> tg.models.LlamaOptions:
    settings = {"model_type": "mixtral", "num_experts": 8, "num_experts_per_tok": 2, **others}
    return tg.models.LlamaOptions(**{**SIZES, **settings})


def applied(experts: Experts, x: Any, weights: Any, chosen: Any) -> Any:
    return experts(x, weights, chosen)


def drawn(tokens: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns tokens, and the weights and the numbers of two experts of each; all tokens use less than eight."""
    generator = np.random.default_rng(0)
    chosen = np.array([[5, 2], [2, 7], [5, 1], [7, 2], [1, 5], [2, 5]], np.int32)[:tokens]
    return generator.normal(size=(tokens, 16)).astype("f"), generator.uniform(size=(tokens, 2)).astype("f"), chosen


def test_a_few_tokens_have_the_results_and_derivatives_of_many() -> None:
    experts = Experts(options()).initialized(0)
    x, weights, chosen = drawn(6)
    whole = applied(experts, x, weights, chosen)
    parts = [
        applied(experts, x[start : start + 3], weights[start : start + 3], chosen[start : start + 3])
        for start in (0, 3)
    ]
    np.testing.assert_allclose(np.asarray(whole), np.concatenate(parts), rtol=1e-5, atol=1e-9)

    def loss(experts: Any, x: Any, weights: Any, size: int) -> Any:
        parts = [slice(start, start + size) for start in range(0, 6, size)]
        return sum(tg.sum(applied(experts, x[part], weights[part], chosen[part]) ** 2) for part in parts)

    many, few = (tg.grad(loss, argnums=(0, 1, 2))(experts, x, weights, size) for size in (6, 3))
    for name in ("gate_proj", "up_proj", "down_proj"):
        expected = np.asarray(getattr(many[0], name))
        np.testing.assert_allclose(
            np.asarray(getattr(few[0], name)), expected, rtol=1e-4, atol=1e-5 * abs(expected).max()
        )
        assert not expected[[0, 3, 4, 6]].any() and expected[[1, 2, 5, 7]].any((1, 2)).all()
    for ours, theirs in zip(few[1:], many[1:], strict=True):
        np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), rtol=1e-4, atol=1e-9)


def test_an_expert_that_overflows_is_for_its_own_tokens_alone() -> None:
    """As one may in f16: neither the results nor the derivatives of other tokens meet it."""
    start, (x, weights, chosen) = Experts(options()).initialized(0), drawn(6)
    assert 0 not in chosen
    scale = np.where(np.arange(8) == 0, np.float32(1e38), 1)[:, None, None]
    large = {name: np.asarray(getattr(start, name)) * scale for name in ("gate_proj", "up_proj")}
    experts = Experts(options()).initialized(0, values=large)
    result, expected = (np.asarray(applied(each, x, weights, chosen)) for each in (experts, start))
    np.testing.assert_array_equal(result, expected)

    def loss(x: Any, weights: Any, experts: Any) -> Any:
        return tg.sum(applied(experts, x, weights, chosen) ** 2)

    slopes = [tg.grad(loss, argnums=(0, 1))(x, weights, each) for each in (experts, start)]
    for actual, expected in zip(*slopes, strict=True):
        np.testing.assert_array_equal(np.asarray(actual), np.asarray(expected))


@pytest.mark.usefixtures("kept_programs")
def test_a_token_reads_its_own_experts_alone() -> None:
    """Their matrices are read where a product reads them: no copies of them are kept."""
    experts = Experts(options()).initialized(0)
    step = tg.jit(applied, device="cpu")
    step(experts, *drawn(1))
    matrices = 4 * 3 * 16 * 24
    assert 2 * matrices < step.stats()["bytes_moved"] < 3 * matrices


def test_a_step_of_generation_is_the_end_of_a_text() -> None:
    """Five tokens are given to all eight experts, and the last one to its own two."""
    model: Any = tg.models.LlamaForCausalLM(options(num_hidden_layers=1, num_key_value_heads=2)).initialized(3)
    text = np.array([[1, 2, 3, 4, 5, 6]], np.int32)
    _, cache = model.next_logits(text[:, :5], model.empty_cache(8))
    logits, _ = model.next_logits(text[:, 5:], cache)
    np.testing.assert_allclose(np.asarray(logits), np.asarray(model(text))[:, -1], rtol=1e-4, atol=1e-5)


def test_layers_without_experts(tmp_path: Path) -> None:
    """Every second layer has some, in steps of two, but for those that are named."""
    chosen = options(model_type="qwen3_moe", num_hidden_layers=6, decoder_sparse_step=2, mlp_only_layers=[3])
    assert [chosen.is_sparse(layer) for layer in range(6)] == [False, True, False, False, False, True]
    model = tg.models.LlamaForCausalLM(chosen).initialized(0)
    tg.models.save_pretrained(model, tmp_path)
    shapes = tg.nn.read_weights(tmp_path).shapes
    assert (
        shapes["model.layers.3.mlp.up_proj.weight"] == shapes["model.layers.5.mlp.experts.7.up_proj.weight"] == (24, 16)
    )
    again = tg.models.from_pretrained(tmp_path).initialized().state_dict()
    for path, value in model.state_dict().items():
        np.testing.assert_array_equal(again[path], value)


def test_folders_of_either_version_name_the_number_of_experts(tmp_path: Path) -> None:
    for number, folder in enumerate((mixtral(), qwen2_moe())):
        config = {
            name: value for name, value in folder.config.items() if name not in ("num_experts", "num_local_experts")
        }
        for name in ("num_experts", "num_local_experts"):
            place = type(folder)({**config, name: COUNT}, folder.weights, folder.expected).write(
                tmp_path / f"{name}{number}"
            )
            assert tg.models.from_pretrained(place).options.written() == {
                **tg.models.from_pretrained(folder.write(tmp_path / f"{number}")).options.written()
            }


def test_all_experts_have_to_be_in_a_folder(tmp_path: Path) -> None:
    folder = mixtral()
    absent = "model.layers.1.block_sparse_moe.experts.2.w3.weight"
    weights = {name: tensor for name, tensor in folder.weights.items() if name != absent}
    with pytest.raises(InputError, match=rf"missing: {absent}\. "):
        tg.models.from_pretrained(type(folder)(folder.config, weights, folder.expected).write(tmp_path))
    model = tg.models.LlamaForCausalLM(tg.models.LlamaOptions.read(folder.config))
    arrays = {name: tensor.numpy() for name, tensor in weights.items()}
    converted = tg.nn.from_torch(model, arrays, strict=False)
    assert converted.missing == ("model.layers.1.block_sparse_moe.experts.up_proj",)
    assert converted["model.layers.0.block_sparse_moe.experts.up_proj"].shape == (COUNT, 16, 24)


def test_what_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=rf"num_experts_per_tok is {CHOSEN}, but num_experts 1"):
        options(num_experts=1, num_experts_per_tok=CHOSEN)
    with pytest.raises(ShapeError, match="num_experts"):
        options(num_experts=0)
    with pytest.raises(OptionError, match="a llama has no setting num_experts"):
        options(model_type="llama")
    with pytest.raises(InputError, match=r"'router_jitter_noise', 0\.1, which is supported as 0\.0 only"):
        tg.models.from_pretrained(mixtral().write(tmp_path, router_jitter_noise=0.1))
