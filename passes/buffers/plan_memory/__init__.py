"""`plan-memory`: assigns every buffer an offset in an arena for the duration of its live range."""

from tensorgrad.passes.buffers.plan_memory.plan_memory_pass import PlanMemoryPass

__all__ = ["PlanMemoryPass"]
