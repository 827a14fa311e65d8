"""`schedule`: how each kernel's grid maps to threads, chosen by the target and stored as data on the kernel."""

from tensorgrad.passes.buffers.schedule.schedule_pass import SchedulePass

__all__ = ["SchedulePass"]
