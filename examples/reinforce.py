"""REINFORCE: a policy learns to balance a pole on a cart, rewarded only for how long it stays up.

The cart and pole are those of Barto, Sutton and Anderson (1983), vectorized in NumPy; an episode ends when the pole
leans by 12 degrees, when the cart leaves the track, or after 200 moves. An untrained policy lasts for about 20 moves;
after 100 updates of 32 episodes each, the mean is over 190.

python examples/reinforce.py --device auto
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np

import tensorgrad as tg

EPISODES, MOVES, DISCOUNT = 32, 200, 0.99


class CartPole:
    """Carts pushed left or right by a force of 10, each with a pole hinged to it; one move lasts 0.02 seconds."""

    def __init__(self, count: int, generator: np.random.Generator) -> None:
        self.state = generator.uniform(-0.05, 0.05, (count, 4))  # position, speed, angle, angular speed

    def move(self, right: np.ndarray) -> np.ndarray:
        """Pushes each cart; returns for each whether its pole still stands and it is on the track."""
        gravity, mass_of_cart, mass_of_pole, half_length, seconds = 9.8, 1.0, 0.1, 0.5, 0.02
        total = mass_of_cart + mass_of_pole
        _, speed, angle, turning = self.state.T
        sine, cosine = np.sin(angle), np.cos(angle)
        pushed = (np.where(right, 10.0, -10.0) + mass_of_pole * half_length * turning**2 * sine) / total
        inertia = half_length * (4 / 3 - mass_of_pole * cosine**2 / total)
        turned = (gravity * sine - cosine * pushed) / inertia
        moved = pushed - mass_of_pole * half_length * turned * cosine / total
        self.state = self.state + seconds * np.stack([speed, moved, turning, turned], axis=1)
        return (abs(self.state[:, 0]) < 2.4) & (abs(self.state[:, 2]) < np.deg2rad(12))


class Policy(tg.nn.Module):
    """Maps observations of the cart `[batch, 4]` to the logits of the two pushes `[batch, 2]`."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = tg.nn.MLP(4, 32, 2, activation=tg.tanh)

    def __call__(self, seen: tg.Tensor) -> tg.Tensor:
        return self.layers(seen)


def loss(model: Policy, seen: tg.Tensor, actions: tg.Tensor, advantages: tg.Tensor) -> tg.Tensor:
    """Returns a loss whose gradient is the policy gradient: actions with a positive advantage become more likely."""
    unlikely = tg.cross_entropy(model(seen), actions, reduction="none")
    return tg.sum(unlikely * advantages) / EPISODES


def play(logits: Callable[..., tg.Array], generator: np.random.Generator) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Plays a batch of episodes; returns the inputs of a training step, and the length of each episode."""
    carts = CartPole(EPISODES, generator)
    alive = np.ones(EPISODES, bool)
    seen = np.zeros((MOVES, EPISODES, 4), np.float32)
    actions, rewards = np.zeros((MOVES, EPISODES), np.int32), np.zeros((MOVES, EPISODES))
    for move in range(MOVES):
        seen[move] = carts.state
        left, right = np.asarray(logits(seen=seen[move])).T
        actions[move] = generator.uniform(size=EPISODES) < 1 / (1 + np.exp(left - right))
        rewards[move] = alive
        alive = alive & carts.move(actions[move])
        if not alive.any():
            break
    returns = np.zeros((MOVES + 1, EPISODES))
    for move in reversed(range(MOVES)):
        returns[move] = rewards[move] + DISCOUNT * returns[move + 1]
    played = rewards > 0
    advantages = np.where(played, returns[:-1] - returns[:-1][played].mean(), 0) / (returns[:-1][played].std() + 1e-6)
    flat = {"seen": seen.reshape(-1, 4), "actions": actions.reshape(-1), "advantages": advantages.reshape(-1)}
    return flat, rewards.sum(axis=0)


def train(updates: int, device: tg.DeviceName, seed: int = 0) -> tuple[tg.Training, list[float]]:
    """Trains a policy; returns it and the mean length of the episodes before each update."""
    count = EPISODES * MOVES
    training = tg.compile(
        Policy(),
        loss=loss,
        optimizer=tg.optim.adam(1e-2),
        inputs={"seen": (count, 4), "actions": tg.spec(count, "i32"), "advantages": count},
        device=device,
        seed=seed,
    )
    logits = training.attach(lambda model, seen: model(seen), inputs={"seen": (EPISODES, 4)})
    generator = np.random.default_rng(seed)
    lengths = []
    for update in range(1, updates + 1):
        inputs, moves = play(logits, generator)
        training.step(**inputs)
        lengths.append(float(moves.mean()))
        if update % 10 == 0:
            print(f"update {update}: the poles stood for {np.mean(lengths[-10:]):.0f} moves")
    return training, lengths


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto", choices=["auto", "wgpu", "cpu", "numpy"])
    parser.add_argument("--updates", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    if options.updates < 1:
        parser.error("--updates must be at least 1")
    training, lengths = train(options.updates, options.device, options.seed)
    print(f"backend: {training.device}")
    print(f"moves, mean of the last 10 updates: {np.mean(lengths[-10:]):.0f}")


if __name__ == "__main__":
    main()
