"""Shared parts of the kernel lowerings: indices and bodies, buffer placement, loops and branches."""
