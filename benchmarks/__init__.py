"""Measurements against peers, each anyone can run: `python -m benchmarks mlp`."""
