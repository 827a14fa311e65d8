"""Tracing: tensors, pytrees of them, and the tracer that records a function's operations as a `tg` function."""
