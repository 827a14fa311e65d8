"""`fuse`: fewer kernels, fewer bytes. `cost` says what pays, `inline` and `merge` do it, `graph` keeps it legal."""

from tensorgrad.passes.buffers.fuse.fuse_pass import FusePass

__all__ = ["FusePass"]
