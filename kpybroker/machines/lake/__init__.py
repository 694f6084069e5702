"""The plans of the lake: names, schemas, ranges and coverage."""
