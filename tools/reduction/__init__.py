"""Reduces a module on which something fails to a small one on which it still fails."""
