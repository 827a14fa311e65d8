"""Runs `tg` and `buf` by NumPy: the reference for every device, and the device where there is no other."""
