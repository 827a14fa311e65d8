"""Groups of processes that compute together; `group` defines their operations and the order of their reductions.

`alone` is a group of one, `simulated` runs its ranks as threads of one process, and `mpi` as processes of an MPI
launcher. `membership` finds the group of the current process, or of a simulated group's thread.
"""
