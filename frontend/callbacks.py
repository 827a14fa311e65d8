"""What happens beside a training run: early stops, checkpoints, logs, a picture of the loss."""

from tensorgrad.train.callbacks import *
from tensorgrad.train.callbacks import __all__ as __all__
from tensorgrad.train.callbacks import __getattr__ as __getattr__  # names of other libraries
