"""Training batches: from arrays, texts, functions or any iterable, prefetched while the previous step runs."""

from tensorgrad.surface.calls import publish
from tensorgrad.train.data import Ahead, Batches, Generated, Seekable, batches, generated, prefetch
from tensorgrad.train.text import Text, text

__all__ = ["Ahead", "Batches", "Generated", "Seekable", "Text", "batches", "generated", "prefetch", "text"]

publish(globals())
