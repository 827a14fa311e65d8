"""`schedule`: chooses how each kernel's grid maps to the target's threads, and stores that as data on the kernel."""

from tensorgrad.passes.buffers.schedule.schedule_pass import SchedulePass

__all__ = ["SchedulePass"]
