"""The broker's counters, and the small HTTP server that shows them: /metrics, /live, /ready."""
