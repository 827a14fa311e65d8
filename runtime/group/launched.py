"""Reads the environment that an MPI launcher sets for the processes it starts."""

from __future__ import annotations

import os
from collections.abc import Sequence

RANKS = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK")
"""The variables with a process's rank: of Open MPI; of MPICH and its derivatives; of Slurm with PMIx."""

SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
"""The variables with the number of processes. With PMIx, processes ask for it instead."""

LOCAL_RANKS = ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")
"""The variables with a process's rank among those on the same host."""


def launched_as() -> tuple[int, int]:
    """Returns this process's rank and the number of processes, as set by the launcher; (0, 1) without a launcher."""
    return _first(RANKS, 0), _first(SIZES, 1)


def is_launched() -> bool:
    """Returns whether an MPI launcher started this process."""
    return any(variable in os.environ for variable in (*RANKS, *SIZES))


def local_rank() -> int:
    """Returns this process's rank among those that the launcher started on this host, from 0."""
    return _first(LOCAL_RANKS, 0) if is_launched() else 0


def _first(names: Sequence[str], default: int) -> int:
    return next((int(os.environ[name]) for name in names if name in os.environ), default)
