"""The world a node runs in: clock, timers, threads and files, as narrow protocols with a real implementation each."""
