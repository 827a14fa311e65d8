"""`plan-memory`: which byte of which arena holds what, and when."""

from tensorgrad.passes.buffers.plan_memory.plan_memory_pass import PlanMemoryPass

__all__ = ["PlanMemoryPass"]
