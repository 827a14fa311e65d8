"""The API's presentation: lazily loaded names, wrapped calls, and hints for names of other libraries."""
