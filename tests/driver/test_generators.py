"""Files that generate text: the tokens of the model that was saved, for any prompt before or after another one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorgrad as tg
from tensorgrad.errors import InputError, OptionError, ParameterError, ProgramError, ShapeError
from tensorgrad.runtime.program import ProgramRole
from tensorgrad.runtime.sampling import Sampler
from tensorgrad.runtime.saved import CAPACITY, Host, Saved

pytestmark = pytest.mark.usefixtures("kept_programs")

untyped: Any = tg
LONG = [1, 2, 3, 4, 5, 6, 7, 8, 9]
PROMPTS = [LONG, [*LONG[:5], 7], [9], [*LONG[:5], 7, 2]]


def gpt2() -> Any:
    options = tg.models.GPT2Options(vocab_size=50, n_positions=32, n_embd=16, n_layer=1, n_head=4)
    return tg.models.GPT2LMHeadModel(options).initialized(3)


def llama() -> Any:
    options = tg.models.LlamaOptions(
        vocab_size=50,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    return tg.models.LlamaForCausalLM(options).initialized(3)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Path]]:
    """A model, and its file."""
    model, path = gpt2(), tmp_path_factory.mktemp("generator") / "model.tg"
    tg.save_generator(model, path, capacity=24, prompt=4)
    yield model, path


def loaded(path: Path) -> tg.LoadedGenerator:
    generator = tg.load(path, device="wgpu")
    assert isinstance(generator, tg.LoadedGenerator)
    return generator


def expected(model: Any, prompt: list[int], count: int, **options: Any) -> list[int]:
    (text,) = model.generate(prompt, count, device="numpy", **options)
    return text.tolist()


def test_tokens_are_those_of_the_model(saved: tuple[Any, Path]) -> None:
    model, path = saved
    generator = loaded(path)
    assert (generator.capacity, generator.vocabulary) == (24, 50)
    for prompt in PROMPTS:
        assert generator.generate(prompt, 5) == expected(model, prompt, 5)
    drawn = {"temperature": 0.9, "top_k": 30, "seed": 2**40 + 7}
    assert generator.generate(LONG, 8, **drawn) == expected(model, LONG, 8, **drawn)
    text = expected(model, LONG, 5, temperature=1.0)
    stop: Any = np.int64(text[3])
    assert generator.generate(LONG, 5, temperature=1.0, stop=stop) == text[: text.index(text[3])]


def test_a_text_ends_by_the_tokens_of_the_folder(tmp_path: Path) -> None:
    """They are in the file, and others may be given, or none."""
    model = llama()
    text = expected(model, LONG, 6)
    model.options = replace(model.options, others={"eos_token_id": [text[3], 49]})
    tg.save_generator(model, tmp_path / "model.tg", capacity=24, prompt=4)
    generator = loaded(tmp_path / "model.tg")
    assert generator.stops == model.stops == [text[3], 49]
    assert generator.generate(LONG, 6) == text[: text.index(text[3])]
    assert generator.generate(LONG, 6, stop=()) == text
    assert generator.generate(LONG, 6, stop=text[1]) == text[: text.index(text[1])]


def test_llama_token_by_token(tmp_path: Path) -> None:
    """Without a program for prompts; with keys of fewer heads, and positions that turn them."""
    model = llama()
    tg.save_generator(model, tmp_path / "model.tg", capacity=16, prompt=1)
    assert Saved.load(tmp_path / "model.tg").others is None
    assert loaded(tmp_path / "model.tg").generate(LONG, 5) == expected(model, LONG, 5)


def test_what_is_shared_is_not_read_again(saved: tuple[Any, Path]) -> None:
    generator = loaded(saved[1])
    runs = [executable.runs for executable, _ in generator._parts]
    counts = []
    for prompt in (LONG, [*LONG, *generator.generate(LONG, 3)], LONG[:4]):
        before = [run.number for run in runs]
        generator.generate(prompt, 1)
        counts.append([run.number - start for run, start in zip(runs, before, strict=True)])
    # The first text is in the cache by now, of which the last token is read again for its logits. Of the second text,
    # the three tokens were written behind it.
    assert counts == [[0, 1], [0, 3], [0, 1]]
    generator.load_parameters(generator.parameters())
    before = [run.number for run in runs]
    generator.generate(LONG, 1)
    assert [run.number - start for run, start in zip(runs, before, strict=True)] == [2, 1]


def test_a_file_has_no_cache(saved: tuple[Any, Path], tmp_path: Path) -> None:
    model, path = saved
    content = Saved.load(path)
    state = content.program.slots(ProgramRole.STATE)
    assert {slot.shape for slot in state.values()} == {(1, 4, 24, 4)} and not state.keys() & content.state.keys()
    assert content.program.name == "generate" and content.program.slots(ProgramRole.PARAMETER).keys() == (
        model.named_parameters().keys()
    )
    generator = loaded(path)
    generator.generate(LONG, 2)
    generator.save(tmp_path / "again.tg")
    assert Saved.load(tmp_path / "again.tg").state.keys() == content.state.keys()
    assert (tmp_path / "again.tg").stat().st_size == path.stat().st_size
    content.save(tmp_path / "small.tg", weights="int8")
    small = Saved.load(tmp_path / "small.tg")
    name = "transformer.wte.weight"
    assert small.state[name].dtype == np.float32
    error = np.abs(small.state[name] - content.state[name]).max()
    assert 0 < error < 0.01 * np.abs(content.state[name]).max()


def test_mistakes_change_nothing(saved: tuple[Any, Path]) -> None:
    model, path = saved
    generator = loaded(path)
    text = generator.stream(LONG, 3)
    tokens = [next(text)]
    for prompt, message in (
        ([], "one or more tokens"),
        ("text", "one or more tokens"),
        ([1.5], "one or more tokens"),
        ([50], "the vocabulary has 50 tokens, there is none of number 50"),
        ([-1], "there is none of number -1"),
        ([1] * 22, "a prompt of 22 tokens and 3 new ones exceed the capacity of 24"),
    ):
        with pytest.raises(InputError, match=message):
            generator.stream(prompt, 3)
    options: list[dict[str, Any]] = [{"temperature": -1}, {"top_k": 0}, {"top_p": 2}, {"seed": 0.5}, {"stop": "<end>"}]
    for option in [*options, {"stop": [50]}, {"max_new_tokens": -1}]:
        with pytest.raises(OptionError, match=f"generate: {next(iter(option))} must be"):
            generator.stream([1], **option)
    assert [*tokens, *text] == expected(model, LONG, 3)
    first, second = generator.stream(LONG, 3), generator.stream([4], 3)
    with pytest.raises(InputError, match="another text has begun"):
        next(first)
    assert list(second) == expected(model, [4], 3)
    with pytest.raises(ProgramError, match="'generate' is a generator: generate"):
        generator(tokens=[[1]])
    with pytest.raises(ProgramError, match="'generate' is a generator: generate"):
        generator.step(tokens=[[1]])


def test_what_is_not_saved(tmp_path: Path) -> None:
    model, path = gpt2(), tmp_path / "model.tg"
    with pytest.raises(OptionError, match="save_generator takes a language model, got Linear"):
        untyped.save_generator(tg.nn.Linear(2, 2), path)
    with pytest.raises(ParameterError, match="save_generator: the model is declared"):
        tg.save_generator(tg.models.GPT2LMHeadModel(model.options), path)
    for options, message in (
        ({"capacity": 0}, "capacity must be a positive integer"),
        ({"prompt": 1.5}, "prompt must be a positive integer"),
        ({"capacity": 33}, "a capacity of 33 tokens exceeds the model's 32 positions"),
        ({"capacity": 8, "prompt": 9}, "a capacity of 8 tokens is less than a part of a prompt of 9 tokens"),
    ):
        with pytest.raises(ShapeError, match=message):
            untyped.save_generator(model, path, **{"capacity": 24, **options})
    with pytest.raises(OptionError, match="weights must be one of f32, f16, int8, got 'f8'"):
        tg.save_generator(model, path, weights="f8")
    assert not path.exists()


def test_malformed_files(saved: tuple[Any, Path], tmp_path: Path) -> None:
    content = Saved.load(saved[1])
    assert content.host is not None and content.others is not None
    parameter = next(iter(content.program.slots(ProgramRole.PARAMETER)))
    others = {name: value for name, value in content.state.items() if name != parameter}
    host = content.host
    for change, message in (
        (replace(content, host=replace(host, settings={})), "a generator has a capacity"),
        (replace(content, host=replace(host, settings={CAPACITY: 0.0})), "a generator has a capacity"),
        (replace(content, host=replace(host, results={"list": ["logits"]})), "'generate' is no program of a gen"),
        (replace(content, program=content.others), "'read_prompt' is no program of a generator"),
        (replace(content, others=content.program), "'generate' is no program of a generator"),
        (replace(content, host=Host("function", "logits")), "a second program is for steps of micro-batches"),
        (replace(content, state=others), f"there are no values of {parameter}"),
    ):
        with pytest.raises(ProgramError, match=message):
            change.save(tmp_path / "wrong.tg")


def test_what_decides_is_of_tg_random() -> None:
    logits = np.random.default_rng(0).normal(size=(3, 40))
    draw, key = Sampler(1.0, None, None, seed=2**35 + 1), tg.random.key(2**35 + 1)
    for step in range(3):
        tokens = draw(logits)
        for row, token in enumerate(tokens):
            word = int(np.asarray(tg.random.fold_in(tg.random.fold_in(key, step), row))[0])
            sums = np.exp(logits[row]).cumsum() / np.exp(logits[row]).sum()
            assert np.append(0, sums)[token] <= word / 2**32 < sums[token]
