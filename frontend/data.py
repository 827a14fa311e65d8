"""Batches to train on: from arrays, from functions or from any iterable, prepared while the step before runs."""

from tensorgrad.surface.calls import publish
from tensorgrad.train.data import *
from tensorgrad.train.data import __all__ as __all__

publish(globals())
