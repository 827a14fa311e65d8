"""Passes on kernels: lowering to WGSL, its text, and the program made of it."""
