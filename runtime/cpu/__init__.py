"""Runs programs as native code on this machine's CPU."""

from tensorgrad.runtime.cpu.device import CpuDevice
from tensorgrad.runtime.cpu.executable import CpuExecutable

__all__ = ["CpuDevice", "CpuExecutable"]
