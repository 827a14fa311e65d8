"""`distribute`: turns the step of a whole batch into the step of one process of a group."""

from tensorgrad.passes.tensors.distribute.distribute_pass import DistributePass

__all__ = ["DistributePass"]
