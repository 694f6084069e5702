"""Programs that show what the broker is for; each runs by ``python -m examples.<name>``."""
