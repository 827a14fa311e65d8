"""Tracing: tensors, trees of them, and the tracer that records what a function does as a `tg` function."""
