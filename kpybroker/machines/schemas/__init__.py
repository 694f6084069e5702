"""The shapes of schemas, and the errors of those that cannot be used."""
