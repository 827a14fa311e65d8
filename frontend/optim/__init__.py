"""Optimizers, gradient transformations and learning-rate schedules."""

from tensorgrad.optim.optimizers import *
from tensorgrad.optim.optimizers import __all__ as __all__
from tensorgrad.optim.optimizers import __getattr__ as __getattr__  # names of other libraries
