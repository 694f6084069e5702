"""Pure functions from the state of a node to the values that pages show and ``/api/`` answers."""
