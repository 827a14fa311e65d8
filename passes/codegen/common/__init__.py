"""What all targets share: stages as straight-line code, placement of buffers, loops, sums, exact functions."""
