"""Addresses in configuration: listeners, the security protocol of each, quorum voters and bootstrap servers.

Only text is read here: nothing is resolved, bound or connected. An empty host means every interface (listeners) or this
machine's name (advertised); port 0 is a free port chosen by the system.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from kpybroker.machines.config_def import ConfigError, java_string

EVERY_IPV4_INTERFACE: Final = "0.0.0.0"
SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
WITH_TLS: Final = ("SSL", "SASL_SSL")
HIGHEST_PORT: Final = 65535
_MOST_DIGITS = 12
_HOST_CHARACTERS = frozenset("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-%._:")
_VOTER_FORM = "configuration controller.quorum.voters. Each entry should be in the form `{id}@{host}:{port}`."
_SERVER_FORM = 'Each entry should be in the form "{host}:{port}"'


class Listener(NamedTuple):
    """A named address the node serves or tells clients to use."""

    name: str
    host: str
    port: int
    protocol: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


class Address(NamedTuple):
    """A host and a port to connect to."""

    host: str
    port: int


def is_host(text: str) -> bool:
    """Whether a text has only characters that a host name or an IP address can have (``Utils.validHostPattern``)."""
    return _HOST_CHARACTERS.issuperset(text)


def parse_map(name: str, text: str) -> dict[str, str]:
    """``key:value`` pairs separated by commas; the last colon of each counts, so that IPv6 addresses can be keys."""
    pairs = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, separator, value = part.rpartition(":")
        if not separator:
            raise ConfigError(f"Error parsing configuration property '{name}': '{part}' has no ':'")
        pairs[key.strip()] = value.strip()
    return pairs


def security_protocol(protocol: str, config_name: str) -> str:
    """The security protocol of that name, in any case."""
    if protocol.upper() not in SECURITY_PROTOCOLS:
        raise ConfigError(f"Invalid security protocol `{protocol}` defined in {config_name}")
    return protocol.upper()


def protocol_id(protocol: str) -> int:
    """The number of a security protocol in requests and records (``SecurityProtocol.id``)."""
    return SECURITY_PROTOCOLS.index(protocol)


def listener_name(uri: str) -> str:
    """The name before the colon of a listener, in upper case."""
    name, colon, _ = uri.partition(":")
    if not colon:
        raise ConfigError(f"Unable to parse a listener name from {uri}")
    return name.upper()


def parse_listeners(uris: Sequence[str], protocols: Mapping[str, str], *, distinct_ports: bool) -> list[Listener]:
    """The listeners of ``NAME://host:port`` texts, each with its protocol out of ``protocols``.

    Names must differ, and so must the ports of listeners that are bound (``distinct_ports``); one IPv4 and one IPv6
    address may share a port.
    """
    text = java_string(tuple(uris))
    try:
        listeners = [_parse_listener(uri, protocols) for uri in uris]
        _check_distinct(listeners, text, distinct_ports=distinct_ports)
    except ConfigError as error:
        raise ConfigError(f"Error creating broker listeners from '{text}': {error.message}") from None
    return listeners


def _parse_listener(uri: str, protocols: Mapping[str, str]) -> Listener:
    name, separator, address = uri.rpartition("://")
    host, colon, port_text = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    digits = port_text.removeprefix("-")
    if not (
        separator and colon and is_host(host) and digits.isascii() and digits.isdecimal() and len(digits) < _MOST_DIGITS
    ):
        raise ConfigError(f"Unable to parse {uri} to a broker endpoint")
    port = int(port_text)
    if not 0 <= port <= HIGHEST_PORT:
        raise ConfigError(f"Unable to parse {uri} to a broker endpoint: port {port} is not between 0 and 65535")
    name = name.upper()
    if name not in protocols:
        raise ConfigError(f"No security protocol defined for listener {name}")
    return Listener(name, host, port, protocols[name])


def _check_distinct(listeners: Sequence[Listener], text: str, *, distinct_ports: bool) -> None:
    if len({listener.name for listener in listeners}) != len(listeners):
        raise ConfigError(f"Each listener must have a different name, listeners: {text}")
    if not distinct_ports:
        return
    counts = Counter(listener.port for listener in listeners if listener.port != 0)
    for port, count in counts.items():
        versions = sorted(_ip_version(listener.host) for listener in listeners if listener.port == port)
        if count == 1 or versions == [4, 6]:
            continue
        if versions.count(0) > 1:
            raise ConfigError(f"Each listener must have a different port, listeners: {text}")
        if versions in ([4, 4], [6, 6]):
            raise ConfigError(
                "If you have two listeners on the same port then one needs to be IPv4 and the other IPv6, "
                f"listeners: {text}, port: {port}"
            )
        raise ConfigError(
            "Each listener must have a different port unless exactly one listener has an IPv4 address and the other "
            f"IPv6 address, listeners: {text}, port: {port}"
        )


def _ip_version(host: str) -> int:
    """4 or 6 for an IP address, 0 for a name."""
    import ipaddress

    try:
        return ipaddress.ip_address(host).version
    except ValueError:
        return 0


def parse_voters(entries: Sequence[str]) -> dict[int, Address]:
    """The voters of controller.quorum.voters by node id."""
    voters = {}
    for entry in entries:
        parts = entry.split("@")
        if len(parts) != 2:
            raise ConfigError(f"Invalid {_VOTER_FORM.replace('configuration', 'configuration value for')}")
        if not parts[0].removeprefix("-").isdecimal():
            raise ConfigError(f"Failed to parse voter ID as an integer from {parts[0]}")
        address = _quorum_address(parts[1])
        if address is None:
            raise ConfigError(f"Failed to parse host name from entry {entry} for the {_VOTER_FORM}")
        voters[int(parts[0])] = address
    return voters


def parse_bootstrap_servers(name: str, entries: Sequence[str]) -> list[Address]:
    """The ``host:port`` entries of a list of servers."""
    servers = []
    for entry in entries:
        address = _quorum_address(entry)
        if address is None:
            raise ConfigError(f"Failed to parse host name from {entry} for the configuration {name}. {_SERVER_FORM}")
        servers.append(address)
    return servers


def parse_address(text: str) -> Address | None:
    """The host and port of ``host:port``, brackets around an IPv6 address taken off; None for anything else."""
    host, colon, port = text.rpartition("://")[2].rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (colon and is_host(host) and port.isascii() and port.isdecimal() and len(port) < _MOST_DIGITS):
        return None
    return Address(host, int(port)) if int(port) <= HIGHEST_PORT else None


def _quorum_address(text: str) -> Address | None:
    """Like `parse_address`, with Java's ConfigError for a port that is out of range."""
    port = text.rpartition(":")[2]
    if port.isascii() and port.isdecimal() and len(port) < _MOST_DIGITS and int(port) > HIGHEST_PORT:
        raise ConfigError(f"port out of range:{int(port)}")
    return parse_address(text)
