"""The cluster that a mirror has as its source, from the properties of Kafka's clients."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from kpybroker.client import client_configs
from kpybroker.client.bad_property import BadProperty
from kpybroker.client.client import Client, ClientSettings, parse_servers
from kpybroker.client.properties import seconds, settings_of

SERVERS: Final = "bootstrap.servers"


class MirrorSource(NamedTuple):
    """A cluster that is mirrored, and how to connect to it."""

    servers: str
    timeout_s: float
    settings: ClientSettings

    def client(self) -> Client:
        """A client that blocks."""
        return Client(self.servers, self.timeout_s, self.settings)


def source_of(properties: Mapping[str, str]) -> MirrorSource:
    """The source that properties describe. Raises BadProperty."""
    values = client_configs.with_defaults(
        client_configs.ADMIN, client_configs.of_file(client_configs.ADMIN, properties)
    )
    settings = settings_of(values)
    servers = properties.get(SERVERS, "")
    if not servers:
        raise BadProperty(f"there is no {SERVERS}")
    try:
        parse_servers(servers, settings.protocol)
    except ValueError as error:
        raise BadProperty(f"{SERVERS}: {error}") from None
    return MirrorSource(servers, seconds(values, "request.timeout.ms"), settings)
