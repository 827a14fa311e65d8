"""The extension `linalg` of the Array API standard: the library's own functions."""

from tensorgrad.ops.linalg import *
from tensorgrad.ops.linalg import __all__ as __all__
from tensorgrad.surface.calls import publish

publish(globals())
