"""The name of this machine in the network."""

import socket


def name_of_this_machine() -> str:
    """The host name for clients if no other is advertised, as in Kafka; "localhost" if it cannot be resolved."""
    name = socket.getfqdn()
    try:
        socket.getaddrinfo(name, None)
    except (OSError, UnicodeError):
        return "localhost"
    return name
