"""What a launcher of MPI says of the process that it started, in the environment."""

from __future__ import annotations

import os
from collections.abc import Sequence

RANKS = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK")
"""In which variable launchers say which process one is: Open MPI; MPICH and what is made of it; Slurm by PMIx."""

SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
"""In which variable launchers say how many processes they started. By PMIx, processes ask."""

LOCAL_RANKS = ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")
"""In which variable launchers say which process one is of those on the same host."""


def launched_as() -> tuple[int, int]:
    """Returns this process's rank and the number of processes, as the launcher says; (0, 1) if none did."""
    return _first(RANKS, 0), _first(SIZES, 1)


def is_launched() -> bool:
    """Returns whether an MPI launcher started this process."""
    return any(variable in os.environ for variable in (*RANKS, *SIZES))


def local_rank() -> int:
    """Returns this process's place among those that the launcher started on this host, from 0."""
    return _first(LOCAL_RANKS, 0) if is_launched() else 0


def _first(names: Sequence[str], default: int) -> int:
    return next((int(os.environ[name]) for name in names if name in os.environ), default)
