"""Callbacks of `tg.fit`: early stopping, checkpoints, logs, a plot of the loss."""

from tensorgrad.surface.calls import publish
from tensorgrad.train.callbacks import *
from tensorgrad.train.callbacks import __all__ as __all__

publish(globals())
