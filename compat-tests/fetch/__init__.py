"""Reading without a group: fetches, offsets by time, assigned consumers."""
