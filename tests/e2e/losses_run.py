"""Trains a model of `parallel_models` in a group of processes; writes the losses and the final parameters.

Arguments: the model, and a file.
"""

from __future__ import annotations

import sys

import numpy as np
from parallel_models import trained

import tensorgrad as tg

run = trained(sys.argv[1], "cpu", tg.distributed.group())
if tg.distributed.is_first():
    np.savez(sys.argv[2], losses=run["losses"], **run["parameters"])
