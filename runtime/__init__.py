"""Programs as data, and the backends that load and run them.

A program runs without the compiler: nothing here imports it, xDSL or a tracer.
"""
