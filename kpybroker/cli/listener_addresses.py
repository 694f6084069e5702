"""The listeners that a broker advertises, by its configs. Pure."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from kpybroker.machines.endpoints import SECURITY_PROTOCOLS

EVERYWHERE: Final = ("", "0.0.0.0", "::")


class ListenerAddress(NamedTuple):
    """A listener as a broker advertises it."""

    broker: int
    name: str
    host: str
    port: int
    protocol: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


def listeners_of(broker: int, configs: Mapping[str, str | None], otherwise: ListenerAddress) -> list[ListenerAddress]:
    """The listeners for clients by a broker's configs; ``otherwise`` if they do not say."""
    protocols = {
        pair.rpartition(":")[0].strip().upper(): pair.rpartition(":")[2].strip().upper()
        for pair in (configs.get("listener.security.protocol.map") or "").split(",")
        if ":" in pair
    }
    controllers = {name.strip().upper() for name in (configs.get("controller.listener.names") or "").split(",")}
    found = []
    for uri in (configs.get("advertised.listeners") or configs.get("listeners") or "").split(","):
        name, _, address = uri.strip().partition("://")
        host, _, port = address.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        name = name.upper()
        protocol = protocols.get(name, name)
        if name in controllers or protocol not in SECURITY_PROTOCOLS or not port.isdecimal():
            continue
        number = int(port)
        if number == 0 or host in EVERYWHERE:
            host, number = (otherwise.host, number or otherwise.port)
        found.append(ListenerAddress(broker, name, host, number, protocol))
    return found or [otherwise]
