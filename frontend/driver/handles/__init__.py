"""What users hold: trainings, functions that are compiled when called, and loaded programs."""
