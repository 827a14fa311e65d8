"""`grad`: reverse-mode differentiation as a rewrite from `tg` to `tg`, and forward mode derived from it."""

from tensorgrad.passes.tensors.grad.forward import tangents
from tensorgrad.passes.tensors.grad.grad_pass import GradPass
from tensorgrad.passes.tensors.grad.reverse import cotangents, differentiated, gradients

__all__ = ["GradPass", "cotangents", "differentiated", "gradients", "tangents"]
