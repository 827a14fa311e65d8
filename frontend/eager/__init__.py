"""Eager tensors: ops recorded as they are called, compiled in blocks, and differentiated backwards from a value."""
