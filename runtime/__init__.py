"""Programs as data, and what loads and runs them: `program`, `target`, `formula`, `backend`, `webgpu`; they share
`conversion` and `errors`.

The modules `numpy_…` run the compiler's levels on the CPU and need xDSL; the others need nothing of the compiler.
"""
