"""What is kept on disk: compiled programs and kernels, checkpoints, exported folders."""
