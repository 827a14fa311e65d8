"""What makes two kernels the same kernel."""

from __future__ import annotations

import hashlib
from io import StringIO

from xdsl.printer import Printer

from tensorgrad.dialects.buf import KernelOp


def kernel_text(kernel: KernelOp) -> str:
    """A kernel's body and grid as text, whatever buffers it runs on: equal texts are equal kernels."""
    stream = StringIO()
    stream.write(str(kernel.extents))
    Printer(stream=stream).print_region(kernel.body)
    return stream.getvalue()


def kernel_key(kernel: KernelOp) -> str:
    """A short name for all kernels of one text."""
    return hashlib.sha256(kernel_text(kernel).encode()).hexdigest()[:32]
