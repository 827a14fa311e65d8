"""`fuse`: merges kernels. `cost` decides what pays, `inline` and `merge` rewrite, and `graph` keeps it legal."""

from tensorgrad.passes.buffers.fuse.fuse_pass import FusePass

__all__ = ["FusePass"]
