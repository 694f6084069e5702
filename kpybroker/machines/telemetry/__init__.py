"""Client metrics (KIP-714): who is asked for which metrics, and what clients have pushed. Pure: no clock, no socket."""
