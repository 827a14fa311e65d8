"""Elementary functions of f32, as polynomials and bit tests; `expand-math` puts them in the place of `math` ops.

The error bounds in docstrings are in units in the last place (ulp) of f32, against float64, measured on a Vulkan device
over every 4099th bit pattern and dense samples of the interesting ranges. The methods are Cephes' (S. Moshier,
single-precision library: expf, logf, sinf, tanf, tanhf, asinf, atanf, sinhf, asinhf, acoshf, atanhf, ndtrf), and for
`powf` that of fdlibm's e_powf.c (I. Taylor).

A shader compiler may reassociate sums: `(a + b) - a` becomes `b`. Where a rounding error is computed, the sum is masked
bitwise, which no compiler sees through.
"""
