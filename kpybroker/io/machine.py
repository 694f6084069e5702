"""What this machine is called by others."""

import socket


def name_of_this_machine() -> str:
    """What clients are told where nothing else is advertised, as in Kafka; "localhost" if nobody can look it up."""
    name = socket.getfqdn()
    try:
        socket.getaddrinfo(name, None)
    except (OSError, UnicodeError):
        return "localhost"
    return name
