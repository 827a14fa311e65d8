"""A transformer over a set of named slots: which of the player's creatures should fight?

A battle is a set of up to four creatures of the player, one that the opponent has sent out, and up to three in the
opponent's reserve. Each has a kind and a power. Kinds form a circle: each does double damage to the next two, and half
to the previous two. A token is the sum of embeddings of its slot's name, its kind and its power. There are no
positional embeddings, and absent creatures are masked, so the answer doesn't depend on the order of the creatures. The
answer is the slot whose power, times the factor against the creature sent out, is largest.

The most powerful creature is the right answer in two thirds of the test battles; after 1,000 steps, the model is right
in over 97%.

python examples/slots.py --device auto
"""

from __future__ import annotations

import argparse

import numpy as np

import tensorgrad as tg

NAMES = ("mine", "sent out", "kept back")
OWN, OTHERS = 4, 4
SLOTS = np.array([NAMES.index("mine")] * OWN + [NAMES.index("sent out")] + [NAMES.index("kept back")] * (OTHERS - 1))
KINDS = 7


def factors() -> np.ndarray:
    """Returns the damage factor of each kind against each other, `[KINDS, KINDS]`."""
    behind = (np.arange(KINDS) - np.arange(KINDS)[:, None]) % KINDS
    return np.select([np.isin(behind, (1, 2)), np.isin(behind, (KINDS - 1, KINDS - 2))], [2.0, 0.5], 1.0)


def battles(generator: np.random.Generator, count: int) -> dict[str, np.ndarray]:
    """Returns battles with the right answers; the player's first creature and the one sent out are always present."""
    kinds = generator.integers(0, KINDS, (count, len(SLOTS)))
    powers = generator.uniform(size=(count, len(SLOTS)))
    present = generator.uniform(size=(count, len(SLOTS))) < 0.75
    present[:, [0, OWN]] = True
    damage = powers[:, :OWN] * factors()[kinds[:, :OWN], kinds[:, OWN, None]]
    answers = np.argmax(np.where(present[:, :OWN], damage, -1), axis=1)
    return {
        "kinds": kinds.astype(np.int32),
        "powers": powers.astype(np.float32),
        "present": present,
        "answers": answers.astype(np.int32),
    }


class Block(tg.nn.Module):
    """A pre-norm transformer block: attention to present slots and a feed-forward network, both residual."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = tg.nn.RMSNorm(width), tg.nn.RMSNorm(width)
        self.attention = tg.nn.MultiHeadAttention(width, heads)
        self.mlp = tg.nn.MLP(width, 4 * width, width, activation=tg.silu)

    def __call__(self, x: tg.Tensor, present: tg.Tensor) -> tg.Tensor:
        x = x + self.attention(self.norm1(x), mask=present[:, None, None, :])
        return x + self.mlp(self.norm2(x))


class Chooser(tg.nn.Module):
    """Maps battles to logits of the player's slots, `[batch, OWN]`; absent ones are masked."""

    def __init__(self, width: int = 64, heads: int = 4, layers: int = 2) -> None:
        super().__init__()
        small = tg.initializers.normal(0.5)
        self.names = tg.nn.Embedding(len(NAMES), width, init=small)
        self.kinds = tg.nn.Embedding(KINDS, width, init=small)
        self.powers = tg.nn.Linear(1, width)
        self.blocks = [Block(width, heads) for _ in range(layers)]
        self.norm, self.out = tg.nn.RMSNorm(width), tg.nn.Linear(width, 1)

    def __call__(self, kinds: tg.Tensor, powers: tg.Tensor, present: tg.Tensor) -> tg.Tensor:
        x = self.names(SLOTS) + self.kinds(kinds) + self.powers(powers[:, :, None])
        for block in self.blocks:
            x = block(x, present)
        logits = self.out(self.norm(x))[:, :OWN, 0]
        return tg.where(present[:, :OWN], logits, -1e9)


def loss(model: Chooser, kinds: tg.Tensor, powers: tg.Tensor, present: tg.Tensor, answers: tg.Tensor) -> tg.Tensor:
    return tg.cross_entropy(model(kinds, powers, present), answers)


def right(model: Chooser, kinds: tg.Tensor, powers: tg.Tensor, present: tg.Tensor, answers: tg.Tensor) -> tg.Tensor:
    """Returns the fraction of right answers."""
    return tg.mean(tg.cast(tg.argmax(model(kinds, powers, present), axis=-1) == answers, "f32"))


def judged_by(count: int = 2000) -> dict[str, np.ndarray]:
    """Returns test battles, which are not trained on."""
    return battles(np.random.default_rng((1, 0)), count)


def strongest(batch: dict[str, np.ndarray]) -> float:
    """Returns the accuracy of always choosing the most powerful creature."""
    powers = np.where(batch["present"][:, :OWN], batch["powers"][:, :OWN], -1)
    return float(np.mean(np.argmax(powers, axis=1) == batch["answers"]))


def train(
    steps: int, device: tg.DeviceName, seed: int = 0, layers: int = 2, batch: int = 128, progress: bool = True
) -> tuple[tg.Training, tg.Report]:
    """Trains a model on random battles; the index of a batch seeds them."""
    shape = (batch, len(SLOTS))
    training = tg.compile(
        Chooser(layers=layers),
        loss=loss,
        optimizer=tg.optim.adamw(
            tg.optim.schedules.cosine(2e-3, steps, warmup=steps // 20), decay="*.weight", clip_norm=1.0
        ),
        inputs={
            "kinds": tg.spec(shape, "i32"),
            "powers": shape,
            "present": tg.spec(shape, "bool"),
            "answers": tg.spec(batch, "i32"),
        },
        device=device,
        seed=seed,
    )
    report = tg.fit(
        training,
        tg.data.generated(lambda number: battles(np.random.default_rng((0, seed, number)), batch)),
        steps=steps,
        evaluate=lambda training: {"right": training.evaluate(right, [judged_by()])},
        evaluate_every=max(1, steps // 5),
        progress=progress,
    )
    return training, report


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto", choices=["auto", "wgpu", "cpu", "numpy"])
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    if options.steps < 1:
        parser.error("--steps must be at least 1")
    training, report = train(options.steps, options.device, options.seed)
    print(f"backend: {training.device}, {training.stats().get('dispatches', 0)} dispatches a step")
    print(f"right answers: {report.evaluations[-1][1]['right']:.1%} (the most powerful: {strongest(judged_by()):.1%})")


if __name__ == "__main__":
    main()
