"""Texts that language models write: the tokens of whole texts computed anew, several at once, drawn and ended."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from written_folders import tokens

import tensorgrad as tg
from tensorgrad.errors import InputError, OptionError, ParameterError, ShapeError
from tensorgrad.runtime.sampling import Sampler

pytestmark = pytest.mark.usefixtures("kept_programs")

untyped: Any = tg

SMALL: dict[str, Any] = {"vocab_size": 50, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2}
GEMMA2 = {"model_type": "gemma2", "sliding_window": 3, "head_dim": 8, "attn_logit_softcapping": 5.0}
MIXTRAL = {"model_type": "mixtral", "num_experts": 8, "num_experts_per_tok": 2}
PROMPTS = [[1, 2, 3], [7, 8, 9, 10, 11, 12, 13, 14, 15, 16], [5]]


def gpt2() -> Any:
    options = tg.models.GPT2Options(vocab_size=50, n_positions=24, n_embd=16, n_layer=2, n_head=4)
    return tg.models.GPT2LMHeadModel(options).initialized(3)


def llama(**others: Any) -> Any:
    options = tg.models.LlamaOptions(**SMALL, num_attention_heads=4, num_key_value_heads=2, **others)
    return tg.models.LlamaForCausalLM(options).initialized(3)


def anew(model: Any, prompt: list[int], count: int) -> list[int]:
    """Returns the likeliest tokens, each from the whole text before it."""
    text = [*prompt]
    for _ in range(count):
        text.append(int(np.asarray(tg.nn.inference(model)(np.array([text])))[0, -1].argmax()))
    return text[len(prompt) :]


@pytest.mark.parametrize(
    "model, device",
    [
        pytest.param(gpt2, "cpu", marks=pytest.mark.nightly),  # the tests below have its programs
        pytest.param(llama, "wgpu", marks=pytest.mark.nightly),  # whose ops tests/numerics has there
        (lambda: llama(**GEMMA2), "numpy"),
        pytest.param(lambda: llama(**MIXTRAL), "numpy", marks=pytest.mark.nightly),  # test_experts.py has a step of it
    ],
    ids=["gpt2", "llama", "gemma2", "mixtral"],
)
def test_tokens_are_those_of_whole_texts(model: Any, device: tg.DeviceName) -> None:
    made = model()
    texts = made.generate(PROMPTS, max_new_tokens=6, device=device)
    assert [text.tolist() for text in texts] == [anew(made, prompt, 6) for prompt in PROMPTS]
    for prompt in (np.array(PROMPTS[0]), [np.int64(token) for token in PROMPTS[0]]):
        assert made.generate(prompt, max_new_tokens=6, device=device)[0].tolist() == texts[0].tolist()


def test_a_cache_is_changed_in_place() -> None:
    """Two programs are compiled, once, and the cache is the second one's state."""
    model = gpt2()
    for count in (3, 2):
        model.generate(PROMPTS, max_new_tokens=count, device="cpu")
        assert model._step("cpu").specializations == 2
    states = model._step("cpu").program.slots("state")
    assert {state.shape for name, state in states.items() if ".keys." in name} == {(3, 4, 64, 4)}


@pytest.mark.nightly
def test_on_a_device_with_gradients() -> None:
    model = gpt2()
    live = model.initialized(0, device="cpu")
    assert live.generate(PROMPTS[0], 4, device="cpu")[0].tolist() == anew(model, PROMPTS[0], 4)
    assert all(parameter.grad is None for parameter in live.parameters())


def test_texts_end() -> None:
    model = gpt2()
    first, second = (anew(model, prompt, 6) for prompt in PROMPTS[:2])
    stop = next(token for token in first if token not in second[:2])
    texts = model.generate(PROMPTS[:2], 6, stop=stop, device="numpy")
    expected = [text[: text.index(stop)] if stop in text else text for text in (first, second)]
    assert [text.tolist() for text in texts] == expected
    for same in (np.int64(stop), np.array(stop), np.array([stop]), {stop}):
        assert [text.tolist() for text in model.generate(PROMPTS[:2], 6, stop=same, device="numpy")] == expected
    steps = list(model.stream(PROMPTS[0], 6, stop=[first[1]], device="numpy"))
    assert [step.tolist() for step in steps] == [[first[0]], [-1]] if first[0] != first[1] else [[-1]]
    assert model.generate(PROMPTS, 0, device="numpy")[2].shape == (0,)


def test_the_folder_says_what_ends_a_text(tmp_path: Path) -> None:
    tg.models.save_pretrained(llama(), tmp_path)
    text = anew(llama(), PROMPTS[0], 6)
    first, last = text[0], text[-1]
    assert first != last
    settings = json.loads((tmp_path / "config.json").read_text())

    def generated(folder: Path, **options: Any) -> list[int]:
        model: Any = tg.models.from_pretrained(folder).initialized()
        return model.generate(PROMPTS[0], 6, device="numpy", **options)[0].tolist()

    for eos, expected in ((None, text), (50, text), (first, []), ([50, last], text[: text.index(last)])):
        (tmp_path / "config.json").write_text(json.dumps({**settings, "eos_token_id": eos}))  # there is no token 50
        assert generated(tmp_path) == expected
    assert generated(tmp_path, stop=()) == text
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [first], "top_k": 50}))
    tg.models.save_pretrained(tg.models.from_pretrained(tmp_path).initialized(), tmp_path / "again")
    for folder in (tmp_path, tmp_path / "again"):
        assert generated(folder) == []


def test_draws() -> None:
    logits = np.log(np.array([[0.1, 0.4, 0.3, 0.2]] * 4000))
    for options, expected in (
        ({}, [0.1, 0.4, 0.3, 0.2]),
        ({"temperature": 0.5}, np.array([1, 16, 9, 4]) / 30),
        ({"top_k": 2}, [0, 4 / 7, 3 / 7, 0]),
        ({"top_p": 0.65}, [0, 4 / 7, 3 / 7, 0]),
        ({"top_p": 0.4}, [0, 1, 0, 0]),
    ):
        draw = Sampler(**{"temperature": 1.0, "top_k": None, "top_p": None, **options}, seed=0)
        shares = np.bincount(draw(logits), minlength=4) / 4000
        np.testing.assert_allclose(shares, expected, atol=0.03)
    model = gpt2()
    texts = [
        model.generate(PROMPTS[0], 6, temperature=1.0, seed=seed, device="numpy")[0].tolist() for seed in (0, 0, 1)
    ]
    assert texts[0] == texts[1] != texts[2]


def test_a_cache_by_hand() -> None:
    """Prefixes of a text in parts give the logits of the whole."""
    model = tg.nn.inference(llama())
    text = tokens()[:1]
    cache: Any = model.empty_cache(16)
    parts = []
    for part in (text[:, :3], text[:, 3:4], text[:, 4:]):
        logits, cache = model(part, cache=cache)
        parts.append(np.asarray(logits))
    np.testing.assert_allclose(np.concatenate(parts, 1), np.asarray(model(text)), rtol=1e-4, atol=1e-5)
    assert int(cache.length) == text.shape[1]
    with pytest.raises(OptionError, match="a cache has the positions and the padding"):
        model(text, position_ids=np.arange(7), cache=cache)
    with pytest.raises(ShapeError, match=r"KeyValueCache: keys \(2, 2, 7, 4\) and values"):
        model(np.concatenate([text, text]), cache=cache)


def test_mistakes() -> None:
    model = gpt2()
    with pytest.raises(ParameterError, match="generate: the model is declared and has no values"):
        tg.models.GPT2LMHeadModel(model.options).generate([1], 2)
    with pytest.raises(ShapeError, match="a prompt of 10 tokens and 15 new ones exceed the model's 24 positions"):
        model.generate(PROMPTS, 15)
    for prompt in ([], [[]], [[1.5]], [[[1]]]):
        with pytest.raises(ShapeError, match="a prompt is a row of one or more integers"):
            model.generate(prompt)
    for text in ("to be", ["to", "be"]):
        with pytest.raises(ShapeError, match=r"or more integers, got .*; a tokenizer makes them of text"):
            model.generate(text)
    for token in (50, -1, 2**40):
        with pytest.raises(InputError, match=f"the vocabulary has 50 tokens, there is none of number {token}"):
            model.generate([PROMPTS[0], [1, token]], 2)
    for stop in ("<end>", ["<end>"], [None], 3.7, [True], [1, [2]]):
        with pytest.raises(OptionError, match="generate: stop must be a token or several, which are integers, got"):
            untyped.models.GPT2LMHeadModel.generate(model, [1], 2, stop=stop)
    for stop in (50, [1, -5]):
        with pytest.raises(OptionError, match=r"stop must be of the vocabulary's 50 tokens, got (50|-5)"):
            model.generate([1], 2, stop=stop)
    for options in ({"temperature": -1}, {"top_k": 0}, {"top_p": 0}, {"top_p": 1.5}, {"max_new_tokens": -1}):
        with pytest.raises(OptionError, match=f"generate: {next(iter(options))} must be"):
            untyped.models.GPT2LMHeadModel.generate(model, [1], **{"max_new_tokens": 2, **options})


@pytest.mark.nightly
def test_the_device_is_that_of_the_parameters() -> None:
    live = gpt2().initialized(0, device="cpu")
    live.generate(PROMPTS[0], 2)
    assert list(live._binding.kept[tg.models.LanguageModel]) == ["cpu"]
