"""A training step: its options, its loss as it is traced, its recipe, and how a group of processes divides it."""
