"""Exceptions of the runtime; every exception of tensorgrad derives from `TensorgradError`."""


class TensorgradError(Exception):
    """The base of every exception of tensorgrad."""


class ProgramError(TensorgradError):
    """A program that is malformed, or of another format version."""


class FormulaError(TensorgradError, ValueError):
    """A host formula that is no whitelisted arithmetic."""


class TargetError(TensorgradError, ValueError):
    """An unknown target profile or field, or a program that a target can't run."""


class DeviceError(TensorgradError, RuntimeError):
    """What a device reports: validation, out of memory, lost."""


class NoAdapterError(DeviceError):
    """There is no adapter to run on; says what to install."""


class InputError(TensorgradError, ValueError):
    """An unknown or missing input, or one of the wrong shape or dtype; names the argument."""
