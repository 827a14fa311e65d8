"""Groups of processes that compute together: `group` is what they can do, and says in which order they add.

`alone` is a group of one, `simulated` has its ranks in threads of one process, and `mpi` in processes of an MPI
launcher. `membership` finds the group that a process, or a thread of a simulated group, is in.
"""
