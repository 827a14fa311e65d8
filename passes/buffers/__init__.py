"""Passes on buffers, the `buf` dialect: lowering to it, fusion, schedules, memory."""
