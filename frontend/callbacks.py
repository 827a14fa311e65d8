"""What happens beside a training run: early stops, checkpoints, logs, a picture of the loss."""

from tensorgrad.surface.calls import publish
from tensorgrad.train.callbacks import *
from tensorgrad.train.callbacks import __all__ as __all__

publish(globals())
