"""Work on one batch that would keep the event loop for long, in a process beside it."""
