"""Random numbers of tests, which depend on the test alone and not on those that ran before it."""

from __future__ import annotations

import zlib

import numpy as np

_generators: list[tuple[int, np.random.Generator]] = []


def generator(seed: int) -> np.random.Generator:
    """Returns a generator for a module of tests, which starts anew with each test; see `start`."""
    drawn = np.random.default_rng(seed)
    _generators.append((seed, drawn))
    return drawn


def start(test: str) -> None:
    """Has all generators start where their seeds and the name of a test say."""
    name = zlib.crc32(test.encode())
    states = {seed: np.random.PCG64([seed, name]).state for seed in {seed for seed, _ in _generators}}
    for seed, drawn in _generators:
        drawn.bit_generator.state = states[seed]
