"""What lowerings of kernels share: indices and bodies as code, where buffers lie, loops and branches around."""
