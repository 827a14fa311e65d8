"""Compiles LLVM IR to object code for this CPU, by llvmlite.

This module also runs as a script, the worker process of parallel compilation. It imports nothing else of tensorgrad,
so that it starts quickly.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from functools import cache
from queue import SimpleQueue
from threading import Thread
from typing import IO, Any

MARK = b"tensorgrad object\n"
"""Sent by a worker once it is ready, and before every object file."""

LARGEST = 1 << 32
"""The maximum length of a text or an object file."""

FEATURES_VARIABLE = "TG_CPU_FEATURES"
"""LLVM features to compile with, or without, such as `-avx512f`: to see what the code is on CPUs that lack them."""

BF16_DOT = "@llvm.x86.avx512bf16."
"""What intrinsics begin with that add products of pairs of bf16."""

MASK_AS_NUMBER = re.compile(
    r"(?:bitcast|extractelement) <(\d+) x i1>|reduce\.\w+\.v(\d+)i1"
    r"|call .*@llvm\.masked\.gather\.v(\d+)(?!\S*\([^,]*, <\d+ x i1> splat \(i1 true\))"
    r"|call .*@llvm\.masked\.scatter\.v(\d+)(?!.*<\d+ x i1> splat \(i1 true\)\))"
)
"""What code generators make numbers of vectors of booleans for, and how many; not for a gather or a scatter of all."""

SHORT_ELEMENTS = re.compile(r"<\d+ x (?:i8|i16|half|bfloat)>")
"""Vectors of elements of which 16 take less than 512 bits."""

FOLDED_WRONGLY = "22."
"""The versions of LLVM that make such a number by an instruction of AVX, which has half of the registers of AVX-512.

They don't check where the vector is (llvm/llvm-project#191304), nor all further uses of the mask (#198197).
"""

TUNING = "+prefer-no-scatter"
"""LLVM's cost model takes AVX-512's scatters for fast, which stores with a stride use; on Zen 4 single stores are."""

OPTIMIZATION = 2
"""LLVM's optimization level: 1 compiles no faster, and 3 compiles longer without faster code on the workloads."""


@dataclass(frozen=True)
class HostCpu:
    """The host CPU, as LLVM describes it.

    Attributes:
        name: The CPU's name.
        features: The feature string.
        triple: The target triple.
        llvm: LLVM's version.
    """

    name: str
    features: str
    triple: str
    llvm: str

    @property
    def vector_bytes(self) -> int:
        """The size of a vector register."""
        if not (self.has("avx") and self.has("avx2")):  # without either, LLVM leaves out all that builds on it
            return 16
        return 64 if self.has("avx512f") else 32

    @property
    def bf16_dot(self) -> bool:
        """Whether it adds products of pairs of bf16, in vectors of any width."""
        return self.vector_bytes == 64 and self.has("avx512vl") and self.has("avx512bf16")

    def has(self, feature: str) -> bool:
        """Returns whether code may use a feature, of which the string's last mention counts."""
        features = {named[1:]: named[0] == "+" for named in self.features.split(",") if named}
        return features.get(feature, False)


@cache
def host_cpu() -> HostCpu:
    """Returns this CPU, with the features that `FEATURES_VARIABLE` adds or takes away.

    Raises:
        ImportError: llvmlite is missing.
        RuntimeError: It has no code generator for this CPU, or the variable names a feature that there isn't.
    """
    import llvmlite.binding as binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    triple = binding.get_process_triple()
    version = ".".join(map(str, binding.llvm_version_info))
    host_features = binding.get_host_cpu_features()
    changes = os.environ.get(FEATURES_VARIABLE, "").replace(" ", "")
    for change in filter(None, changes.split(",")):
        if change[0] not in "+-" or change[1:] not in host_features:
            raise RuntimeError(f"{FEATURES_VARIABLE}: {change!r} is not + or - and a feature, such as -avx512f")
    tuning = TUNING if host_features.get("avx512f") else ""
    features = ",".join(filter(None, (host_features.flatten(), tuning, changes)))
    return HostCpu(binding.get_host_cpu_name(), features, triple, version)


def machine(changes: str = "") -> Any:
    """Returns LLVM's target machine for this CPU, with features that are added or taken away."""
    import llvmlite.binding as binding

    host = host_cpu()
    features = ",".join(filter(None, (host.features, changes)))
    target = binding.Target.from_triple(host.triple)
    return target.create_target_machine(cpu=host.name, features=features, opt=OPTIMIZATION, jit=True)


def optimized(text: str, generator: Any) -> Any:
    """Parses, verifies and optimizes a module.

    Raises:
        RuntimeError: The text is malformed, or uses instructions that this CPU lacks.
    """
    import llvmlite.binding as binding

    if "\0" in text:  # where LLVM would stop reading, without an error
        raise RuntimeError("it contains a NUL character")
    if BF16_DOT in text and not host_cpu().bf16_dot:  # where LLVM would end the process
        raise RuntimeError("it uses AVX512-BF16, which this CPU lacks: compile it for this CPU")
    module = binding.parse_assembly(f'target triple = "{host_cpu().triple}"\n{text}')
    module.verify()
    options = binding.create_pipeline_tuning_options(speed_level=OPTIMIZATION)
    options.loop_vectorization = True  # emitters vectorize straight-line code; unrolling costs time
    options.slp_vectorization = options.loop_unrolling = False
    builder = binding.create_pass_builder(generator, options)
    passes = builder.getModulePassManager()
    passes.run(module, builder)
    # Nothing else frees the 100 KB of it: in llvmlite, the empty `ObjectRef._dispose` hides this one.
    binding.newpassmanagers.NewPassManager._dispose(passes)
    passes.detach()
    return module


def generator_of(module: Any, usual: Any) -> Any:
    """Returns the target machine that generates a module's code: the usual one, unless it would generate wrong code."""
    host = host_cpu()
    if not (host.llvm.startswith(FOLDED_WRONGLY) and host.has("avx512vl")):
        return usual
    text = str(module)
    lanes = [int(count) for found in MASK_AS_NUMBER.finditer(text) for count in found.groups() if count]
    has_short = SHORT_ELEMENTS.search(text) is not None
    if not any(has_short or count < 16 for count in lanes):  # AVX has no such instruction for 512 bits
        return usual
    # Each leaves out the fold's instructions: those for f32 and i32, all of AVX-512, or those for vectors of up to 256
    # bits. Without the latter, LLVM may end the process at a masked load or store.
    if BF16_DOT in text:
        return machine("-avx512dq")
    return machine("-avx512f" if "@llvm.masked." in text else "-avx512vl")


def object_of(text: str) -> bytes:
    """Compiles LLVM IR to an object file.

    Raises:
        RuntimeError: The text is malformed.
    """
    generator, module = _prepared(text)
    return generator.emit_object(module)


def assembly_of(text: str) -> str:
    """Compiles LLVM IR to assembly; see `object_of`."""
    generator, module = _prepared(text)
    return generator.emit_assembly(module)


def _prepared(text: str) -> tuple[Any, Any]:
    """Returns the target machine for a module, and the module, optimized."""
    usual = machine()
    module = optimized(text, usual)
    return generator_of(module, usual), module


# The worker process: reads texts from one pipe, and writes their object files to another.


def send(stream: IO[bytes], data: bytes) -> None:
    """Writes bytes, prefixed with their length."""
    stream.write(len(data).to_bytes(8, "little") + data)
    stream.flush()


def receive(stream: IO[bytes]) -> bytes | None:
    """Returns what `send` wrote at the other end; `None` if the stream has ended, or holds something else."""
    head = stream.read(8)
    size = int.from_bytes(head, "little")
    if len(head) < 8 or size > LARGEST:
        return None
    data = stream.read(size)
    return data if len(data) == size else None


def main() -> None:
    """Compiles texts until the input ends. Exits on one that LLVM rejects; the parent then reports the error.

    A thread reads the input, so that the parent can write a text while another is compiled, whatever pipes hold.
    """
    texts: SimpleQueue[bytes | None] = SimpleQueue()

    def read() -> None:
        while (text := receive(sys.stdin.buffer)) is not None:
            texts.put(text)
        texts.put(None)

    Thread(target=read, daemon=True).start()
    machine()
    send(sys.stdout.buffer, MARK)
    while (text := texts.get()) is not None:
        send(sys.stdout.buffer, MARK + object_of(text.decode()))


if __name__ == "__main__":
    main()
