"""How the API presents itself: names that load when used, wrapped calls, hints for names of other libraries."""
