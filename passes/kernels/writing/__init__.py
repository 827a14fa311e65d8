"""What the lowerings of kernels share: code for indices and bodies, where buffers lie, and loops and branches."""
