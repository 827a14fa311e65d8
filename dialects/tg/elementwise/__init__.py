"""Ops that compute each element of their result from the operands' elements at the same index."""
