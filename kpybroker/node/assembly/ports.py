"""The ports of a node that starts: bound before anything is written, so that a refused start leaves nothing behind.

Not here: the servers on these ports. A socket has its port from `bind` on and listens only when clients can be answered
soon; until then a client that connects is refused and tries again.
"""

import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kpybroker.config.broker import BrokerConfig
from kpybroker.hosts.quorum.recovery import StartRefused
from kpybroker.machines.endpoints import Listener, parse_address
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.monitoring.metrics.monitoring import DEFAULT_HOST, HTTP_LISTENER
from kpybroker.runtime.calls.address import is_address
from kpybroker.runtime.io.scheduler import Scheduler
from kpybroker.runtime.io.system_sockets import SYSTEM_SOCKETS, Sockets

if TYPE_CHECKING:
    from kpybroker.runtime.http.server import Protection


@contextmanager
def listening_on(listener: Listener) -> Iterator[None]:
    """Raise StartRefused in one line for anything that keeps a listener from its port."""
    try:
        yield
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise StartRefused(f"cannot listen on {listener}: {why}; --listen HOST:PORT names another address") from None


class BoundPorts:
    """A socket for each listener of a node, by the listener's name."""

    def __init__(self) -> None:
        self._sockets: dict[str, socket.socket] = {}

    def bind(self, listeners: Iterable[Listener], sockets: Sockets, receive_buffer_bytes: int) -> None:
        """Bind their ports. Raises StartRefused."""
        for listener in listeners:
            with listening_on(listener):
                self._sockets[listener.name] = sockets.bind(listener.host, listener.port, receive_buffer_bytes)

    @property
    def numbers(self) -> dict[str, int]:
        """The ports by the names of the listeners."""
        return {name: int(sock.getsockname()[1]) for name, sock in self._sockets.items()}

    def __getitem__(self, listener: Listener) -> socket.socket:
        return self._sockets[listener.name]

    def close(self) -> None:
        """Release the ports."""
        for sock in self._sockets.values():
            sock.close()


def check_free(listeners: Iterable[Listener]) -> None:
    """Raise StartRefused if one of the ports is in use at this moment."""
    for listener in listeners:
        with listening_on(listener):
            SYSTEM_SOCKETS.bind(listener.host, listener.port, -1).close()


def second_port(
    config: BrokerConfig, scheduler: Scheduler, image: Callable[[], MetadataImage | None]
) -> "Protection | None":
    """The protection of the second port, in either mode; None if there is no port. ``image`` returns the metadata, None
    before the users are known. Raises StartRefused."""
    has_users, has_keys = bool(config["kpybroker.http.users"]), bool(config["kpybroker.http.ssl.keystore.location"])
    if config.originals.get(HTTP_LISTENER) == "" and not (has_users or has_keys):
        return None
    from kpybroker.runtime.http.gate import OpenGate
    from kpybroker.runtime.http.server import Protection

    address = parse_address(config.originals.get(HTTP_LISTENER, ""))
    host = DEFAULT_HOST if address is None else address[0]
    protection = Protection(names=own_names(config, host))
    if has_users or has_keys:
        from kpybroker.node.assembly import second_port as secured  # not of a plain start
        from kpybroker.requests.server.complaints import Complaints

        protection = protection._replace(context=secured.keys_of(config))
        if has_users:
            return protection._replace(gate=secured.gate_of(config, image, Complaints(scheduler)))
    gate = OpenGate(frozenset(config["kpybroker.http.open.paths"]), is_loopback=_is_loopback(host))
    return protection._replace(gate=gate)


def own_names(config: BrokerConfig, host: str) -> frozenset[str]:
    """The names of this node in lower case: those of its listeners, ``host`` among them, that of the machine, and those
    that are configured."""
    advertised = (listener.host for listener in config.advertised_listeners)
    configured = (*config["kpybroker.http.hosts"], *config["kpybroker.console.hosts"])
    return frozenset(name.lower() for name in (host, *advertised, socket.gethostname(), *configured) if name)


def _is_loopback(host: str) -> bool:
    if host in ("localhost", DEFAULT_HOST):
        return True
    from ipaddress import ip_address

    return is_address(host) and ip_address(host.partition("%")[0]).is_loopback
