"""Programs in the formats of other runtimes."""
