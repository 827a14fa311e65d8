"""What passes on `buf` share: kernels taken apart, what runs before what, kinds of kernels, where buffers lie."""
