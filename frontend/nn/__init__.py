"""Neural networks: modules, and the parameters that they declare."""

from tensorgrad.nn.layers import Linear
from tensorgrad.nn.module import Module, Parameter, param

__all__ = ["Linear", "Module", "Parameter", "param"]
