"""Proves of emitted kernels, for all values, that accesses are in bounds and that invocations don't collide."""
