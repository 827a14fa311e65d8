"""Initializers: how `tg.compile` draws a declared parameter from its key."""

from tensorgrad.nn.initializers import *
from tensorgrad.nn.initializers import __all__ as __all__
from tensorgrad.surface.calls import publish

publish(globals())
