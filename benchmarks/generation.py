"""Compares texts that language models generate, by tokens a second, with transformers on the same CPU.

Both run with the same number of threads, `TG_NUM_THREADS`, by default one for each core.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

import tensorgrad as tg
from benchmarks.harness import Contestant, Timing, measure, report
from tests.importers.torch_zoo import library

transformers = library("transformers")

MODELS: dict[str, Callable[[], Any]] = {
    "GPT-2 124M": lambda: transformers.GPT2LMHeadModel(transformers.GPT2Config()),
    "SmolLM2-135M": lambda: transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=49152,
            hidden_size=576,
            intermediate_size=1536,
            num_hidden_layers=30,
            num_attention_heads=9,
            num_key_value_heads=3,
            rope_parameters={"rope_theta": 100_000.0, "rope_type": "default"},
            tie_word_embeddings=True,
        )
    ),
}
"""The models, with random weights."""

PROMPTS = ((512, 1, 1), (16, 1, 33), (16, 1, 1), (16, 8, 33), (16, 8, 1))
"""The tokens of each prompt, how many prompts, and how many tokens are generated."""


def ours(model: Any, prompts: np.ndarray, count: int, device: tg.DeviceName) -> Contestant:
    """Returns generations of a model; what it reports as a loss is the sum of the tokens."""
    name = f"tensorgrad {device}"
    return Contestant(name, lambda: float(np.sum(model.generate(prompts, count, stop=(), device=device))))


def theirs(model: Any, prompts: np.ndarray, count: int) -> Contestant:
    """Returns generations of a model by transformers."""
    tokens = torch.from_numpy(prompts)

    def generate() -> float:
        with torch.inference_mode():
            texts = model.generate(
                tokens,
                attention_mask=torch.ones_like(tokens),
                min_new_tokens=count,
                max_new_tokens=count,
                do_sample=False,
                pad_token_id=0,
            )
        return float(texts[:, prompts.shape[1] :].sum())

    return Contestant("transformers", generate)


def report_generation(
    device: tg.DeviceName, rounds: int, seconds: float, out: Path, clock: Callable[[], float]
) -> None:
    """Times reading prompts and generating tokens here and by transformers, and reports tokens a second."""
    torch.set_num_threads(int(os.environ.get("TG_NUM_THREADS", str(os.cpu_count() or 1))))
    table = Table(title=f"generation, {torch.get_num_threads()} threads: tokens a second")
    for column in ("", "tensorgrad", "transformers", "ratio"):
        table.add_column(column, justify="right" if table.columns else "left")
    for name, build in MODELS.items():
        torch.manual_seed(0)
        peer = build().eval()
        with tempfile.TemporaryDirectory() as folder:
            peer.save_pretrained(folder)
            model = tg.models.from_pretrained(folder).initialized()
        times: dict[tuple[int, int, int], list[Timing]] = {}
        for length, batch, count in PROMPTS:
            prompts = np.random.default_rng(0).integers(0, peer.config.vocab_size, (batch, length))
            contestants = [ours(model, prompts, count, device), theirs(peer, prompts, count)]
            timings = times[length, batch, count] = measure(contestants, rounds, seconds, clock)
            what = f"{name}, {batch} prompts of {length}, {count} tokens"
            report(what, timings, timings[0].name, out / f"generation {what}.json", "a generation")
        for (length, batch, count), timings in times.items():
            if count > 1:
                # What a longer text takes beyond its prompt and its first token.
                taken = [long.low - short.low for long, short in zip(timings, times[length, batch, 1], strict=True)]
                row, tokens = f"{name}, {batch} texts at once", batch * (count - 1)
            elif length > PROMPTS[-1][0]:
                taken, row, tokens = [timing.low for timing in timings], f"{name}, a prompt of {length}", length
            else:
                continue
            mine, other = (tokens / seconds for seconds in taken)
            table.add_row(row, f"{mine:.0f}", f"{other:.0f}", f"{mine / other:.2f}")
    Console(width=max(120, Console().width)).print(table)
