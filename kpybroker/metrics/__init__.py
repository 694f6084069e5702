"""What the broker counts, and the small HTTP server that shows it: /metrics, /live, /ready."""
