"""From scheduled kernels to a program: the choice of schedules, a folder for each target, and what targets share."""
