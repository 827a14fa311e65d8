"""The compiler driver: from a model and a loss to a program on a device."""
