"""Programs as data, and what loads and runs them.

A program runs without the compiler: nothing here imports it, xDSL or a tracer.
"""
