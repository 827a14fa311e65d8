"""`plan-memory`: places every buffer at an offset of an arena, for as long as it lives."""

from tensorgrad.passes.buffers.plan_memory.plan_memory_pass import PlanMemoryPass

__all__ = ["PlanMemoryPass"]
