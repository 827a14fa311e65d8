"""Runs `tg` and `buf` in NumPy: the reference for every device, and the device where there is no other."""
