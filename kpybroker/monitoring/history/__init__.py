"""The history of a node: samples of its counters for a day, in bounded memory and a small file."""
