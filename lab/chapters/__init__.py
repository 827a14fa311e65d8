"""The chapters of the laboratory: marimo notebooks, each of which is also a script."""
