"""The compilation report: source, IR of every level, passes, kernels, data flow and memory, as a page and as text."""

from tensorgrad.report.compilation_report import CompilationReport

__all__ = ["CompilationReport"]
