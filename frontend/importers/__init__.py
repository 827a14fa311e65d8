"""Models of other libraries as modules; clients of the public API."""
