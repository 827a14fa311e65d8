"""Kernel passes: lowering to each device's dialect, emission of kernel text, and assembly of the program."""
