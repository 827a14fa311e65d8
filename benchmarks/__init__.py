"""Measurements against peers that anyone can run: `python -m benchmarks mlp`."""
