"""A small character-level GPT that imitates Python's documentation.

Trains on the language reference that comes with Python (`pydoc_data.topics`), validates on its last tenth, and prints a
sample at the end. Its validation loss falls below that of a bigram model of the same text, which is about 2.3.

python examples/char_gpt.py --device auto
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import tensorgrad as tg


@dataclass(frozen=True)
class Sizes:
    """The sizes of the model and of its training."""

    context: int = 64
    width: int = 64
    heads: int = 4
    layers: int = 3
    batch: int = 32
    steps: int = 1000
    learning_rate: float = 3e-3


class Block(tg.nn.Module):
    """A pre-norm transformer block: attention and a feed-forward network, both residual."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.norm1, self.norm2 = tg.nn.LayerNorm(sizes.width), tg.nn.LayerNorm(sizes.width)
        self.attention = tg.nn.MultiHeadAttention(sizes.width, sizes.heads, causal=True)
        self.mlp = tg.nn.MLP(sizes.width, 4 * sizes.width, sizes.width, activation=tg.gelu)

    def __call__(self, x: tg.Tensor) -> tg.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(tg.nn.Module):
    """Maps tokens `[batch, length]` to the logits of the next ones, `[batch, length, vocabulary]`."""

    def __init__(self, vocabulary: int, sizes: Sizes) -> None:
        super().__init__()
        small = tg.initializers.normal(0.02)
        self.tokens = tg.nn.Embedding(vocabulary, sizes.width, init=small)
        self.positions = tg.nn.param((sizes.context, sizes.width), init=small)
        self.blocks = [Block(sizes) for _ in range(sizes.layers)]
        self.norm = tg.nn.LayerNorm(sizes.width)

    def __call__(self, tokens: tg.Tensor) -> tg.Tensor:
        x = self.tokens(tokens) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.tokens.attend(self.norm(x))


def loss(model: GPT, tokens: tg.Tensor, following: tg.Tensor) -> tg.Tensor:
    return tg.cross_entropy(model(tokens), following)


@dataclass(frozen=True)
class Text:
    """A tokenized text: its vocabulary, the training part, and the validation part."""

    characters: str
    training: np.ndarray
    validation: np.ndarray

    @classmethod
    def of_python(cls) -> Text:
        """Returns the language reference that comes with Python."""
        from pydoc_data.topics import topics

        text = "\n".join(topics[name] for name in sorted(topics))
        characters = "".join(sorted(set(text)))
        places = {character: place for place, character in enumerate(characters)}
        numbers = np.array([places[character] for character in text], np.int32)
        start = len(numbers) * 9 // 10
        return cls(characters, numbers[:start], numbers[start:])

    def bigram_loss(self) -> float:
        """Returns the validation loss of a bigram model with add-one smoothing."""
        size = len(self.characters)
        counts = np.ones((size, size))
        np.add.at(counts, (self.training[:-1], self.training[1:]), 1)
        chances = counts / counts.sum(axis=1, keepdims=True)
        return float(-np.log(chances[self.validation[:-1], self.validation[1:]]).mean())


def windows(numbers: np.ndarray, starts: Sequence[int] | np.ndarray, length: int) -> dict[str, np.ndarray]:
    """Returns windows of a text, and the character that follows each of theirs."""
    places = np.asarray(starts)[:, None] + np.arange(length)
    return {"tokens": numbers[places], "following": numbers[places + 1]}


def train(
    text: Text, sizes: Sizes, device: tg.DeviceName, seed: int, progress: bool = True
) -> tuple[tg.Training, tg.Report]:
    """Trains a model on randomly sampled windows; the index of a batch seeds its sample."""
    shape = tg.spec((sizes.batch, sizes.context), "i32")
    rate = sizes.learning_rate
    schedule = tg.optim.schedules.cosine(rate, sizes.steps, end=rate / 10, warmup=sizes.steps // 20)
    training = tg.compile(
        GPT(len(text.characters), sizes),
        loss=loss,
        optimizer=tg.optim.adamw(schedule, betas=(0.9, 0.99), weight_decay=0.1, decay="*.weight", clip_norm=1.0),
        inputs={"tokens": shape, "following": shape},
        device=device,
        seed=seed,
    )

    def drawn(number: int) -> dict[str, np.ndarray]:
        generator = np.random.default_rng((seed, number))
        starts = generator.integers(0, len(text.training) - sizes.context, sizes.batch)
        return windows(text.training, starts, sizes.context)

    return training, tg.fit(training, tg.data.generated(drawn), steps=sizes.steps, progress=progress)


def validation_loss(training: tg.Training, text: Text, sizes: Sizes, batches: int = 16) -> float:
    """Returns the mean loss on windows spread over the validation text."""
    starts = np.linspace(0, len(text.validation) - sizes.context - 1, batches * sizes.batch).astype(int)
    parts = starts.reshape(batches, sizes.batch)
    return training.evaluate(loss, [windows(text.validation, part, sizes.context) for part in parts])


def sample(training: tg.Training, text: Text, sizes: Sizes, prompt: str, length: int, seed: int) -> str:
    """Returns a prompt followed by `length` characters, sampled one by one."""
    shape = tg.spec((1, sizes.context), "i32")
    predict: Any = training.attach(lambda model, tokens: tg.softmax(model(tokens) / 0.8), inputs={"tokens": shape})
    generator = np.random.default_rng(seed)
    numbers = [text.characters.index(character) for character in prompt]
    for _ in range(length):
        seen = numbers[-sizes.context :]
        # Padding after the last character is not attended to.
        tokens = np.array([seen + [0] * (sizes.context - len(seen))], np.int32)
        chances = np.asarray(predict(tokens=tokens), np.float64)[0, len(seen) - 1]
        numbers.append(int(generator.choice(len(chances), p=chances / chances.sum())))
    return "".join(text.characters[number] for number in numbers)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto", choices=["auto", "wgpu", "cpu", "numpy"])
    parser.add_argument("--steps", type=int, default=Sizes.steps)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--prompt", default="The ")
    parser.add_argument("--length", type=int, default=400, help="how many characters to write")
    options = parser.parse_args(arguments)
    if options.steps < 1 or options.length < 0 or not options.prompt:
        parser.error("--steps must be at least 1, --length at least 0, and --prompt not empty")
    text, sizes = Text.of_python(), Sizes(steps=options.steps)
    unknown = sorted(set(options.prompt) - set(text.characters))
    if unknown:
        parser.error(f"--prompt has characters that the text has not: {''.join(unknown)}")
    training, _ = train(text, sizes, options.device, options.seed)
    print(f"backend: {training.device}")
    print(f"validation loss: {validation_loss(training, text, sizes):.3f} (bigrams: {text.bigram_loss():.3f})")
    print(sample(training, text, sizes, options.prompt, options.length, options.seed))


if __name__ == "__main__":
    main()
