"""A small GPT that imitates Python's documentation, trained and sampled in a web page.

Its text is the language reference that comes with Python (`pydoc_data.topics`).

python examples/web/char_gpt/char_gpt.py && tg serve out/char_gpt
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from pydoc_data.topics import topics

import numpy as np
from safetensors.numpy import save_file

import tensorgrad as tg

HERE = Path(__file__).parent
CONTEXT, WIDTH, HEADS, LAYERS = 64, 64, 4, 2
BATCH, STEPS = 16, 600
PROMPT, SAMPLE, TEMPERATURE = "The ", 200, 0.7
"""The text that the page shows at first: how it begins, how many characters follow, and how they are sampled."""


class Block(tg.nn.Module):
    """A pre-norm transformer block: attention and a feed-forward network, both residual."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = tg.nn.LayerNorm(WIDTH), tg.nn.LayerNorm(WIDTH)
        self.attention = tg.nn.MultiHeadAttention(WIDTH, HEADS, causal=True)
        self.mlp = tg.nn.MLP(WIDTH, 4 * WIDTH, WIDTH, activation=tg.gelu)

    def __call__(self, x: tg.Tensor) -> tg.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(tg.nn.Module):
    """Maps tokens `[batch, CONTEXT]` to the logits of the next ones, `[batch, CONTEXT, vocabulary]`."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        small = tg.initializers.normal(0.02)
        self.tokens = tg.nn.Embedding(vocabulary, WIDTH, init=small)
        self.positions = tg.nn.param((CONTEXT, WIDTH), init=small)
        self.blocks = tg.nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm = tg.nn.LayerNorm(WIDTH)

    def __call__(self, tokens: tg.Tensor) -> tg.Tensor:
        return self.tokens.attend(self.norm(self.blocks(self.tokens(tokens) + self.positions)))


def loss(model: GPT, tokens: tg.Tensor, following: tg.Tensor) -> tg.Tensor:
    return tg.cross_entropy(model(tokens), following)


def written(following: tg.Inference[np.ndarray], prompt: list[int], length: int) -> np.ndarray:
    """Returns the tokens of a prompt and of what the model writes after it."""
    generator = np.random.default_rng(0)
    tokens = list(prompt)
    while len(tokens) < len(prompt) + length:
        seen = tokens[-CONTEXT:]
        padded = np.array([seen + [0] * (CONTEXT - len(seen))], np.int32)
        logits = np.asarray(following(tokens=padded), np.float64)[0, len(seen) - 1]
        weights = np.exp((logits - logits.max()) / TEMPERATURE)
        tokens.append(int(generator.choice(len(weights), p=weights / weights.sum())))
    return np.array(tokens, np.uint8)


def export(folder: Path, steps: int = STEPS, device: tg.DeviceName = "auto") -> None:
    """Pretrains the model briefly, and writes the folder of the page, which continues the training."""
    text = "\n".join(topics[name] for name in sorted(topics))
    characters = sorted(set(text))
    tokens = np.searchsorted(characters, list(text)).astype(np.int32)
    shape = tg.spec((BATCH, CONTEXT), "i32")
    training = tg.compile(
        GPT(len(characters)),
        loss=loss,
        optimizer=tg.optim.adamw(2e-3, betas=(0.9, 0.99), clip_norm=1.0),
        inputs={"tokens": shape, "following": shape},
        device=device,
    )

    def batch(number: int) -> dict[str, np.ndarray]:
        starts = np.random.default_rng(number).integers(0, len(tokens) - CONTEXT, (BATCH, 1))
        places = starts + np.arange(CONTEXT)
        return {"tokens": tokens[places], "following": tokens[places + 1]}

    tg.fit(training, tg.data.generated(batch), steps=steps)
    following = training.attach(lambda model, tokens: model(tokens), inputs={"tokens": tg.spec((1, CONTEXT), "i32")})
    for files in (HERE.parent / "common", HERE):
        shutil.copytree(files, folder, dirs_exist_ok=True)
    shutil.copyfile(HERE.parents[2] / "docs" / "gallery" / f"{HERE.name}.jpg", folder / "picture.jpg")
    codes = np.array([ord(character) for character in characters], np.uint32)
    sample = written(following, [characters.index(character) for character in PROMPT], SAMPLE)
    arrays = {"characters": codes, "tokens": tokens.astype(np.uint8), "sample": sample}
    save_file(arrays, folder / "text.safetensors")
    training.export_web(folder, functions={"following": following})


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/char_gpt"), help="the folder to write")
    parser.add_argument("--steps", type=int, default=STEPS, help="how many steps to train before")
    parser.add_argument("--device", default="auto", choices=["auto", "wgpu", "cpu", "numpy"], help="where to train")
    options = parser.parse_args(arguments)
    export(options.out, options.steps, options.device)
    print(f"{options.out} is written: `tg serve {options.out}` serves it")


if __name__ == "__main__":
    main()
