"""Registrations of brokers: ``/brokers/ids/<id>`` (Kafka's ``BrokerIdZNode``).

The broker epoch is not in the content: it is the transaction that created the znode (czxid).
"""

import re
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from kpybroker.machines.zookeeper.tree import paths
from kpybroker.machines.zookeeper.tree.contents import ZnodeFields, encode

NEWEST_VERSION: Final = 5
"""Version 5 has features (Kafka 2.7), 4 a map of listeners to protocols (0.10.2), 3 a rack, 2 several endpoints."""

_ENDPOINT: Final = re.compile(r"([^:/]+)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]{1,9})\Z")
_PLAINTEXT: Final = "PLAINTEXT"


class ZkEndpoint(NamedTuple):
    """An address of a broker on one listener. An empty host stands for every address."""

    listener: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.listener}://{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Registration:
    """The content of a broker's znode. ``protocols`` has the security protocol of each listener."""

    broker_id: int
    endpoints: tuple[ZkEndpoint, ...]
    protocols: dict[str, str]
    rack: str | None = None
    jmx_port: int = -1
    timestamp_ms: int = 0
    features: dict[str, dict[str, int]] = field(default_factory=dict)
    version: int = NEWEST_VERSION

    @property
    def path(self) -> str:
        """The path of this broker's znode."""
        return paths.broker(self.broker_id)

    def encode(self) -> bytes:
        """The content of the znode. Old readers want ``host`` and ``port``: those of the first plaintext endpoint."""
        plain = [each for each in self.endpoints if self.protocols[each.listener] == _PLAINTEXT]
        fields: dict[str, Any] = {"features": self.features} if self.version >= 5 else {}
        fields["listener_security_protocol_map"] = self.protocols
        fields["endpoints"] = [str(each) for each in self.endpoints]
        if self.rack is not None:
            fields["rack"] = self.rack
        fields["jmx_port"] = self.jmx_port
        fields["port"] = plain[0].port if plain else -1
        fields["host"] = plain[0].host if plain else None
        fields["version"] = self.version
        fields["timestamp"] = str(self.timestamp_ms)
        return encode(fields)

    @classmethod
    def decode(cls, broker_id: int, content: bytes | None) -> "Registration":
        """The registration in a znode of any version."""
        fields = ZnodeFields.decode(paths.broker(broker_id), content)
        version = fields.integer("version")
        if version < 1:
            raise fields.fault(f"its version is {version}")
        if version == 1:
            endpoints = [ZkEndpoint(_PLAINTEXT, fields.text("host"), fields.integer("port"))]
        else:
            endpoints = [_endpoint(fields, text) for text in fields.texts("endpoints")]
        protocols = {each.listener: each.listener for each in endpoints}
        if "listener_security_protocol_map" in fields:
            protocols |= fields.text_map("listener_security_protocol_map")
        return cls(
            broker_id=broker_id,
            endpoints=tuple(endpoints),
            protocols=protocols,
            rack=fields.text_or_none("rack"),
            jmx_port=fields.integer("jmx_port", -1),
            timestamp_ms=fields.integer_in_text("timestamp") if "timestamp" in fields else 0,
            features=fields.feature_ranges("features"),
            version=version,
        )


def _endpoint(fields: ZnodeFields, text: str) -> ZkEndpoint:
    parts = _ENDPOINT.match(text)
    if parts is None:
        raise fields.fault(f"{text[:100]!r} is not an endpoint")
    return ZkEndpoint(parts[1], parts[2], int(parts[3]))
