"""From LLVM IR to object code of this CPU, by llvmlite.

This module is a program too, for a process that compiles beside others. It imports nothing of ours, so that it starts
quickly.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

MARK = b"tensorgrad objects\n"
"""What a file of object files begins with."""

OPTIMIZATION = 2
"""LLVM's level: 1 compiles as long and 3 longer, and code of 3 was not faster on the workloads."""


@dataclass(frozen=True)
class HostCpu:
    """What LLVM says of this CPU.

    Attributes:
        name: Its kind.
        features: What it has besides.
        triple: Architecture, maker, system.
        llvm: LLVM's version.
    """

    name: str
    features: str
    triple: str
    llvm: str

    @property
    def vector_bytes(self) -> int:
        """The size of a vector register."""
        features = self.features.split(",")
        return 64 if "+avx512f" in features else 32 if "+avx2" in features else 16


@cache
def host_cpu() -> HostCpu:
    """Returns this CPU.

    Raises:
        ImportError: llvmlite is missing.
        RuntimeError: It has no code generator for this CPU.
    """
    import llvmlite.binding as binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    triple = binding.get_process_triple()
    version = ".".join(map(str, binding.llvm_version_info))
    features = binding.get_host_cpu_features().flatten()
    return HostCpu(binding.get_host_cpu_name(), features, triple, version)


def machine() -> Any:
    """Returns LLVM's code generator for this CPU."""
    import llvmlite.binding as binding

    host = host_cpu()
    target = binding.Target.from_triple(host.triple)
    return target.create_target_machine(cpu=host.name, features=host.features, opt=OPTIMIZATION, jit=True)


def optimized(text: str, generator: Any) -> Any:
    """Returns a module, verified and optimized.

    Raises:
        RuntimeError: The text is malformed.
    """
    import llvmlite.binding as binding

    module = binding.parse_assembly(f'target triple = "{host_cpu().triple}"\n{text}')
    module.verify()
    options = binding.create_pipeline_tuning_options(speed_level=OPTIMIZATION)
    options.loop_vectorization = True  # straight code is in vectors where it gains, and unrolling costs time
    options.slp_vectorization = options.loop_unrolling = False
    builder = binding.create_pass_builder(generator, options)
    builder.getModulePassManager().run(module, builder)
    return module


def object_of(text: str) -> bytes:
    """Returns the object file of LLVM IR.

    Raises:
        RuntimeError: The text is malformed.
    """
    generator = machine()
    return generator.emit_object(optimized(text, generator))


def packed(objects: Sequence[bytes]) -> bytes:
    """Returns object files as one: a mark, then each behind its length."""
    return MARK + b"".join(len(one).to_bytes(8, "little") + one for one in objects)


def unpacked(data: bytes) -> list[bytes] | None:
    """Returns the object files of what `packed` made; `None` of anything else."""
    found: list[bytes] = []
    at = len(MARK)
    if data[:at] != MARK:
        return None
    while at < len(data):
        size = int.from_bytes(data[at : at + 8], "little")
        found.append(data[at + 8 : at + 8 + size])
        at += 8 + size
    return found if at == len(data) else None


def main(source: str, target: str) -> None:
    """Compiles the texts of a JSON file, and writes their object files as one."""
    texts = json.loads(Path(source).read_text(encoding="utf-8"))
    Path(target).write_bytes(packed([object_of(text) for text in texts]))


if __name__ == "__main__":
    main(*sys.argv[1:])
