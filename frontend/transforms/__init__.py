"""Transformations of functions: derivatives, vmap, custom derivatives, loops and branches, recomputation."""
