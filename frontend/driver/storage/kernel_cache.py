"""Native kernels on disk, so that an edit of one layer writes the kernels of that layer and no others."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import llvm
from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.passes import ModulePass

from tensorgrad.driver.storage.program_cache import SWITCH, cache_folder
from tensorgrad.driver.storage.program_key import environment
from tensorgrad.passes.codegen.common.lowering import KernelIdentity
from tensorgrad.passes.codegen.llvm.convert_to_llvm import ACCESS
from tensorgrad.runtime.cache import DiskCache
from tensorgrad.runtime.errors import MALFORMED
from tensorgrad.runtime.plan import Kernel, renamed
from tensorgrad.runtime.schema import Whole, read, write
from tensorgrad.runtime.texts import parsed_json

SUFFIX = ".kernel"

MOST_BYTES = 1 << 28
"""The size limit of the cache in bytes; the least recently used kernels are evicted."""

ENTRY = "kernel"
"""The name of every kernel in the cache: in a program, it is numbered among the others."""


@dataclass(frozen=True)
class CachedKernel:
    """A kernel that an earlier compilation has written.

    Attributes:
        code: Its LLVM IR, in which it is named `ENTRY`.
        scratch: The bytes of scratch memory that it needs.
        access: The access mode of each of its bindings.
    """

    code: str
    scratch: Whole
    access: tuple[str, ...]

    def kernel(self, name: str) -> Kernel:
        """Returns the kernel under a name."""
        return Kernel("llvm", name, renamed(self.code, ENTRY, name), (1, 1, 1), self.scratch)

    def declaration(self, name: str) -> llvm.FuncOp:
        """Returns an op that stands for the kernel in a module."""
        access = ArrayAttr(map(StringAttr, self.access))
        return llvm.FuncOp(name, llvm.LLVMFunctionType([]), extra_attrs={ACCESS: access})


class KernelCache:
    """The user's native kernels on disk, by identity.

    Args:
        passes: The passes that write a kernel; their options are a part of its key.
    """

    def __init__(self, passes: Sequence[ModulePass]):
        self._disk = DiskCache(cache_folder() / "kernels", SUFFIX, MOST_BYTES)
        self._writers = json.dumps([environment(), [repr(each) for each in passes]], sort_keys=True)

    @classmethod
    def from_environment(cls, passes: Sequence[ModulePass]) -> KernelCache | None:
        """Returns the user's cache, or `None` if it is disabled."""
        return None if os.environ.get(SWITCH) == "0" else cls(passes)

    def read(self, identity: KernelIdentity) -> CachedKernel | None:
        """Returns the kernel of an identity, or `None` if there is none."""
        key = self._key(identity)
        data = None if key is None else self._disk.read(key)
        if key is None or data is None:
            return None
        try:
            return read(CachedKernel, parsed_json(data.decode()))
        except MALFORMED as error:
            self._disk.drop(key, str(error))
            return None

    def write(self, identity: KernelIdentity, kernel: Kernel, access: Sequence[str]) -> None:
        """Stores a kernel under its identity."""
        key = self._key(identity)
        if key is not None:
            code = renamed(kernel.code, kernel.entry, ENTRY)
            cached = CachedKernel(code, kernel.workgroup_storage, tuple(access))
            self._disk.write(key, json.dumps(write(cached)).encode())

    def _key(self, identity: KernelIdentity) -> str | None:
        """Returns the key of an identity; `None` if its text may not tell it from others: NaNs have payloads."""
        text = repr(identity)
        return None if "nan" in text else hashlib.sha256(f"{self._writers}\n{text}".encode()).hexdigest()
