"""Compiles a recipe: passes, the search for a memory limit, tuning, and the program on its device."""
