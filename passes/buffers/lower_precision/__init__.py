"""`lower-precision`: chooses the values to store with fewer bits, and rewrites the kernels that read and write them."""

from tensorgrad.passes.buffers.lower_precision.lower_precision_pass import LowerPrecisionPass

__all__ = ["LowerPrecisionPass"]
