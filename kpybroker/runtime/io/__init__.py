"""The environment of a node: clock, timers, threads and files, as narrow protocols, each with a real implementation."""
