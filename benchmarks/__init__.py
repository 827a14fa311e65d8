"""Reproducible benchmarks against other libraries: `python -m benchmarks mlp`."""
