"""Judges of a compilation or a run: numerics, memory plans, races, kernels, non-finite values, reduced failures."""
