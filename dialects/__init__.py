"""The dialects: `tg` (tensors), `buf` (buffers), and those of kernels for each kind of device (`wgsl`, `cpu`)."""
