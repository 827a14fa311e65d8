"""The dialects: `tg` of tensors, `buf` of buffers, and those that kernels are written in for each kind of device."""
