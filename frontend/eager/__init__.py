"""Eager tensors: ops are recorded as they are called, compiled in blocks, and differentiated in reverse mode."""
