"""A node: its parts are built from its configuration, started and stopped."""
