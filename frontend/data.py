"""Training batches: from arrays, functions or any iterable, prefetched while the previous step runs."""

from tensorgrad.surface.calls import publish
from tensorgrad.train.data import *
from tensorgrad.train.data import __all__ as __all__

publish(globals())
