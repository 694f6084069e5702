"""The client side of a round, each client a process of its own that prints one JSON object or text to parse."""
