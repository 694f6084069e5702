"""The console: pages about the node and its cluster on the second port, each of them also JSON under ``/api/``."""
