"""Training batches: from arrays, texts, functions or any iterable, prefetched while the previous step runs."""

from tensorgrad.surface.calls import publish
from tensorgrad.train import data
from tensorgrad.train import text as texts
from tensorgrad.train.data import *
from tensorgrad.train.text import *

__all__: list[str] = []
__all__ += data.__all__
__all__ += texts.__all__

publish(globals())
