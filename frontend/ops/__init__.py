"""Functions of tensors, by family; methods and operators are bound to them by name."""
