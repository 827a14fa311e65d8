"""Transformations of tiles, one idea each, which all targets share."""
