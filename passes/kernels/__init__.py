"""Passes on kernels: lowering to each device's dialect, its text, and the program made of it."""
