"""The way of a request: connections, dispatching, guards, handlers, and the parts of the broker that they see."""
