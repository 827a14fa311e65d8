"""`fuse`: merges kernels. `cost` models what pays, `inline` and `merge` rewrite, and `KernelGraph` checks legality."""

from tensorgrad.passes.buffers.fuse.fuse_pass import FusePass

__all__ = ["FusePass"]
