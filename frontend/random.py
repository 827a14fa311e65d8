"""Random numbers from keys: Threefry-2x32 in the layout of JAX's partitionable generator."""

from tensorgrad.ops.random import *
from tensorgrad.ops.random import __all__ as __all__
from tensorgrad.surface.calls import publish

publish(globals())
