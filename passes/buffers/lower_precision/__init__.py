"""The pass `lower-precision`: which values are stored with fewer bits, and how kernels read and write them."""

from tensorgrad.passes.buffers.lower_precision.lower_precision_pass import LowerPrecisionPass

__all__ = ["LowerPrecisionPass"]
