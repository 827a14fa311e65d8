"""Language models in a page: the tokens of Python, drawn ones too, on a cache that is changed in place."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import browser_module
import numpy as np
import pytest
from playwright.sync_api import Browser

import tensorgrad as tg
from tensorgrad.runtime.sampling import Sampler
from tensorgrad.tools.exporting import server
from tensorgrad.tools.tg import main

pytestmark = pytest.mark.web

Evaluate: TypeAlias = Callable[..., Any]
Site: TypeAlias = tuple[Path, str]
PROMPTS = [[1, 2, 3, 4, 5, 6, 7, 8, 9], [1, 2, 3, 4, 5, 7], [9]]
LETTERS = [*"abcdefghijklmnopqrstuvwxyz ", "th"]
NAMES = {"top_k": "topK", "top_p": "topP"}
WEB = Path(__file__).resolve().parents[2] / "web"
GENERATOR = "const g = await T.TextGenerator.load('/model.tg');"


def llama(vocabulary: int = 50) -> Any:
    options = tg.models.LlamaOptions(
        vocab_size=vocabulary,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    return tg.models.LlamaForCausalLM(options).initialized(3)


def test_tokens_are_those_of_python(site: Site, evaluate: Evaluate) -> None:
    model = llama()
    tg.save_generator(model, site[0] / "model.tg", capacity=40, prompt=4)
    cases: list[dict[str, Any]] = [
        {"temperature": 0},
        {"temperature": 1, "seed": 5},
        {"temperature": 0.7, "top_k": 20, "seed": 2**40 + 7},
        {"temperature": 1, "top_p": 0.9, "seed": -3},
    ]
    given = [{NAMES.get(name, name): value for name, value in case.items()} for case in cases]
    script = """
      const texts = [];
      for (const prompt of given.prompts)
        for (const options of given.cases) texts.push(await g.generate(prompt, { ...options, maxNewTokens: 8 }));
      const [only] = texts;
      const stopped = await g.generate(given.prompts[0], { maxNewTokens: 8, stop: [only[2]] });
      return { texts, stopped, capacity: g.capacity, vocabulary: g.vocabulary };"""
    result = evaluate(GENERATOR + script, {"prompts": PROMPTS, "cases": given})
    expected = [model.generate(prompt, 8, device="numpy", **case)[0].tolist() for prompt in PROMPTS for case in cases]
    assert result["texts"] == expected
    assert result["stopped"] == expected[0][: expected[0].index(expected[0][2])]
    assert (result["capacity"], result["vocabulary"]) == (40, 50)


def test_a_text_ends_by_the_tokens_of_the_folder(site: Site, evaluate: Evaluate) -> None:
    model = llama()
    (text,) = model.generate(PROMPTS[0], 8, device="numpy")
    end = int(text[4])
    model.options = replace(model.options, others={"eos_token_id": end})
    tg.save_generator(model, site[0] / "model.tg", capacity=40, prompt=4)
    script = """
      const ended = await g.generate(given.prompt, { maxNewTokens: 8 });
      const whole = await g.generate(given.prompt, { maxNewTokens: 8, stop: [] });
      return { ended, whole, stops: g.stops };"""
    result = evaluate(GENERATOR + script, {"prompt": PROMPTS[0]})
    assert result == {"ended": text.tolist()[: text.tolist().index(end)], "whole": text.tolist(), "stops": [end]}


def test_what_is_shared_is_not_read_again_and_nothing_is_allocated(site: Site, evaluate: Evaluate) -> None:
    """A text that goes on costs a step for each new token, and no step allocates a buffer once pages are there."""
    tg.save_generator(llama(), site[0] / "model.tg", capacity=40, prompt=4)
    script = """
      const { gpu } = g.device;
      const submit = GPUQueue.prototype.submit, create = gpu.createBuffer;
      let [steps, buffers] = [0, 0];
      GPUQueue.prototype.submit = function (list) { steps++; return submit.call(this, list); };
      gpu.createBuffer = function (what) { buffers++; return create.call(this, what); };
      const counts = [];
      const prompt = [1, 2, 3, 4, 5, 6, 7, 8, 9];
      for (const text of [prompt, [...prompt, ...(await g.generate(prompt, { maxNewTokens: 6 })), 3, 2], prompt]) {
        [steps, buffers] = [0, 0];
        await g.generate(text, { maxNewTokens: 6 });
        counts.push([steps, buffers]);
      }
      GPUQueue.prototype.submit = submit;
      return counts;"""
    again, longer, back = evaluate(GENERATOR + script)
    # The last token of a prompt is read again for its logits; the fifteen before the two new ones lack one alone.
    assert [again[0], longer[0], back[0]] == [6, 3 + 5, 6]
    assert again[1] == longer[1] == back[1] == 0


def test_draws_are_those_of_python(tmp_path: Path) -> None:
    """The sampler alone, on logits among which many are equal."""
    logits = np.random.default_rng(0).normal(size=(100, 40)).round(1).astype(np.float32)
    cases: list[dict[str, Any]] = [{}, {"top_k": 5}, {"top_k": 100}, {"top_p": 0.7}, {"top_k": 7, "top_p": 0.5}]
    given = [{NAMES.get(name, name): value for name, value in case.items()} for case in cases]
    node, _ = browser_module.node_and_packages()
    bundler = WEB / "node_modules" / "esbuild" / "bin" / "esbuild"
    bundling = [str(node), str(bundler), str(WEB / "src" / "sampling.ts"), "--bundle", "--format=esm"]
    subprocess.run([*bundling, f"--outfile={tmp_path / 'sampling.mjs'}", "--log-level=warning"], check=True)
    script = f"""
      import {{ sampler }} from "./sampling.mjs";
      const drawn = {json.dumps(given)}.map((options) => {{
        const draw = sampler({{ temperature: 0.8, seed: -5, ...options }});
        return {json.dumps(logits.tolist())}.map((row) => draw(Float32Array.from(row)));
      }});
      console.log(JSON.stringify(drawn));"""
    (tmp_path / "draw.mjs").write_text(script, encoding="utf-8")
    said = subprocess.run([str(node), str(tmp_path / "draw.mjs")], capture_output=True, check=True).stdout
    for case, drawn in zip(cases, json.loads(said), strict=True):
        draw = Sampler(0.8, case.get("top_k"), case.get("top_p"), -5)
        assert drawn == [int(draw(row[None])[0]) for row in logits]


def test_mistakes_change_nothing(site: Site, evaluate: Evaluate) -> None:
    model = llama()
    tg.save_generator(model, site[0] / "model.tg", capacity=16, prompt=4)
    training = tg.compile(
        tg.nn.Linear(2, 1),
        loss=lambda model, x: tg.mean(model(x)),
        optimizer=tg.optim.sgd(0.1),
        inputs={"x": (4, 2)},
        device="numpy",
    )
    training.save(site[0] / "training.tg", target="webgpu-default")
    script = """
      const said = [];
      const attempt = async (act) => {
        try { await act(); } catch (error) { said.push(`${error.name}: ${error.message}`); }
      };
      const text = g.stream([1, 2, 3], { maxNewTokens: 4 });
      const tokens = [(await text.next()).value];
      for (const prompt of [null, [], [50], [-1], [1.5], Array(13).fill(1)])
        await attempt(() => g.stream(prompt, { maxNewTokens: 4 }));
      const ranges = [{ temperature: -1 }, { topK: 0 }, { topP: 2 }, { seed: 0.5 }, { maxNewTokens: -1 }];
      const stops = [{ stop: 50 }, { stop: [1, 1.5] }, { stop: "a" }, { stop: null }];
      const unknown = [{ temprature: 2 }, { top_k: 3 }, { length: 3 }, 5];
      for (const options of [...ranges, ...stops, ...unknown]) await attempt(() => g.stream([1], options));
      for await (const token of text) tokens.push(token);
      const first = g.stream([1, 2], { maxNewTokens: 4 });
      await first.next();
      g.stream([1, 2], { maxNewTokens: 4 });
      await attempt(() => first.next());
      await attempt(() => T.TextGenerator.load('/training.tg'));
      await attempt(() => T.Inference.load('/model.tg'));
      await attempt(() => T.Training.load('/model.tg'));
      return { said, tokens };"""
    result = evaluate(GENERATOR + script)
    assert result["tokens"] == model.generate([1, 2, 3], 4, device="numpy")[0].tolist()
    assert result["said"] == [
        "InputError: generate: a prompt is a row of one or more tokens",
        "InputError: generate: a prompt is a row of one or more tokens",
        "InputError: generate: the vocabulary has 50 tokens, there is none of number 50",
        "InputError: generate: the vocabulary has 50 tokens, there is none of number -1",
        "InputError: generate: the vocabulary has 50 tokens, there is none of number 1.5",
        "InputError: generate: a prompt of 13 tokens and 4 new ones exceed the capacity of 16",
        "InputError: generate: temperature must be a number from 0, got -1",
        "InputError: generate: topK must be an integer from 1, got 0",
        "InputError: generate: topP must be a number in (0, 1], got 2",
        "InputError: generate: seed must be an integer, got 0.5",
        "InputError: generate: maxNewTokens must be an integer from 0, got -1",
        "InputError: generate: stop must be of the vocabulary's 50 tokens, got 50",
        "InputError: generate: stop must be of the vocabulary's 50 tokens, got 1.5",
        "InputError: generate: stop must be of the vocabulary's 50 tokens, got a",
        "InputError: generate: stop must be a token or several, got null",
        "InputError: generate: no option 'temprature'; the nearest is 'temperature'",
        "InputError: generate: no option 'top_k'; the nearest is 'topK'",
        "InputError: generate: no option 'length'; the options are maxNewTokens, stop, temperature, topK, topP, seed",
        "InputError: generate: options must be an object of values by name, got 5",
        "InputError: generate: another text has begun, which this one can't go on beside",
        "ProgramError: training.tg holds a training: load it with Training.load",
        "ProgramError: model.tg holds a generator: load it with TextGenerator.load",
        "ProgramError: model.tg holds a generator: load it with TextGenerator.load",
    ]


def test_the_page_writes_text(browser: Browser, tmp_path: Path) -> None:
    model = llama(len(LETTERS))
    tg.save_generator(model, tmp_path / "model.tg", capacity=32, prompt=4)
    (tmp_path / "letters.json").write_text(json.dumps(LETTERS), encoding="utf-8")
    folder, labels = tmp_path / "page", ["--labels", str(tmp_path / "letters.json")]
    assert main(["export", "web", str(tmp_path / "model.tg"), str(folder), "--weights", "int8", *labels]) == 0
    assert json.loads((folder / "folder.json").read_text(encoding="utf-8"))["generators"] == {"model": "model.tg"}
    again = tg.load(folder / "model.tg")
    assert isinstance(again, tg.LoadedGenerator)
    prompt = [LETTERS.index("th"), LETTERS.index("e"), LETTERS.index(" ")]
    text = "".join(LETTERS[token] for token in again.generate(prompt, 6))
    with server(str(folder)) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        page = browser.new_page()
        faults: list[str] = []
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto(f"http://127.0.0.1:{serving.server_port}/")
        says = "text => document.getElementById('status').textContent.includes(text)"
        page.wait_for_function(says, arg="Ready")
        page.get_by_label("Text").fill("the ")
        page.get_by_label("New tokens").fill("6")
        page.get_by_role("button", name="Generate").click()
        page.wait_for_function(says, arg="6 tokens in")
        assert page.locator("#text-model").text_content() == f"the {text}"
        page.get_by_label("Text").fill("the END")
        page.get_by_role("button", name="Generate").click()
        page.wait_for_function(says, arg='the vocabulary has nothing for "END"')
        page.close()
        serving.shutdown()
        assert not faults
