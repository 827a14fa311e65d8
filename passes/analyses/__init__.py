"""Analyses shared by several passes; they don't modify the IR."""
