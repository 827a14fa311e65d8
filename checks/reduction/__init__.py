"""Reduces a module that makes a command fail to a small one that still does."""
