"""Linear algebra: systems of equations, factors, eigenvalues, singular values, products and norms."""

from tensorgrad.ops.linalg import *
from tensorgrad.ops.linalg import __all__ as __all__
from tensorgrad.surface.calls import publish

publish(globals())
