"""Passes on tensors, the `tg` dialect."""
