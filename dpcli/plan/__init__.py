"""Release plans: their schema, loading from YAML with line numbers, and a first proposal for a table."""
