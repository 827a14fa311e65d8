"""Matrix products in register blocks, in native code: their schedules, and the code of their tasks."""
