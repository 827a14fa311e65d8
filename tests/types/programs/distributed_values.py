"""Functions of a group of processes, simulated by threads."""

import numpy as np

import tensorgrad as tg


def total(group: tg.distributed.Group) -> float:
    """The sum of all ranks, as every process has it."""
    summed = tg.jit(lambda x: tg.all_reduce(x), device="numpy")
    return float(summed(np.float32(group.rank)))


totals = tg.distributed.simulate(2, total)
assert totals == [1.0, 1.0]
print(tg.distributed.rank(), tg.distributed.size(), tg.distributed.is_first())
