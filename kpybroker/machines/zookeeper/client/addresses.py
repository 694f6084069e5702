"""The text of ``zookeeper.connect``: ``host1:port1,host2:port2/chroot``. Pure."""

from typing import Final, NamedTuple

DEFAULT_PORT: Final = 2181


class BadConnect(ValueError):
    """A ``zookeeper.connect`` that names no servers, or no path."""


class Servers(NamedTuple):
    """The servers of an ensemble, and the path below which this cluster has its znodes."""

    addresses: tuple[tuple[str, int], ...]
    chroot: str
    """Empty for the root."""

    def __str__(self) -> str:
        return ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.addresses)


def parse(text: str) -> Servers:
    """The servers that a ``zookeeper.connect`` names. Raises BadConnect."""
    names, slash, path = text.strip().partition("/")
    chroot = f"/{path}".rstrip("/") if slash else ""
    if any(part in ("", ".", "..") for part in chroot.split("/")[1:]):
        raise BadConnect(f"zookeeper.connect: {slash + path!r} is no path of ZooKeeper")
    addresses = tuple(_address(each.strip()) for each in names.split(",") if each.strip())
    if not addresses:
        raise BadConnect("zookeeper.connect names no server; expected host1:port1,host2:port2/chroot")
    return Servers(addresses, chroot)


def _address(text: str) -> tuple[str, int]:
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        port = rest.removeprefix(":")
    elif text.count(":") > 1:
        host, port = text, ""
    else:
        host, _, port = text.partition(":")
    if not host or not (port or str(DEFAULT_PORT)).isascii() or not (port or str(DEFAULT_PORT)).isdecimal():
        raise BadConnect(f"zookeeper.connect: {text!r} is no address of a server; expected host:port")
    number = int(port or DEFAULT_PORT)
    if not 0 < number < 65536:
        raise BadConnect(f"zookeeper.connect: {text!r} has no port between 1 and 65535")
    return host, number
