"""Optimizers, gradient transformations and learning-rate schedules."""

from tensorgrad.optim.optimizers import *
from tensorgrad.optim.optimizers import __all__ as __all__
from tensorgrad.surface.calls import publish

publish(globals())
