"""`grad`: reverse-mode differentiation, as a rewrite of `tg` into `tg`."""

from tensorgrad.passes.grad.grad_pass import GradPass
from tensorgrad.passes.grad.reverse import cotangents, gradients

__all__ = ["GradPass", "cotangents", "gradients"]
