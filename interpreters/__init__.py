"""NumPy interpreters for `tg` and `buf`: the reference for every device, and the fallback device."""
