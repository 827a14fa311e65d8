"""Functions of tensors, grouped by family; methods and operators are bound to them by name."""
