"""The passes, by what they rewrite: `tensors`, `buffers` and `codegen`.

`pipelines` puts them in order, `levels` says what holds between them, and `registry` finds one by its name.
"""
