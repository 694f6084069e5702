"""An operator who changes configurations of topics and brokers under load, and in the end sees the last values set.

What nobody answered may come to pass at any later moment, so of such a key nothing is known any more.
"""

from collections.abc import Sequence

from kpywire import error_codes
from kpywire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kpywire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

from .client import Client, NoAnswer

TOPIC, BROKER = 2, 4
SET, DELETE = 0, 1
OF_TOPICS = (
    ("min.insync.replicas", ("1", "2")),
    ("internal.segment.bytes", ("300", "2000", "100000")),
    ("segment.ms", ("50", "600000")),
    ("index.interval.bytes", ("0", "100", "4096")),
    ("max.message.bytes", ("500000", "2000000")),
    ("message.timestamp.type", ("CreateTime", "LogAppendTime")),
    ("compression.type", ("producer", "gzip", "uncompressed")),
    ("flush.ms", ("10", "100000")),
)
OF_BROKERS = (
    ("min.insync.replicas", ("1", "2")),
    ("message.max.bytes", ("600000", "1048588")),
    ("log.index.interval.bytes", ("10", "4096")),
    ("num.replica.fetchers", ("1", "2", "3")),
    ("num.io.threads", ("4", "8")),
    ("log.cleaner.backoff.ms", ("200", "15000")),
    ("max.connections", ("1000", "2147483647")),
    ("leader.replication.throttled.rate", ("100000", "100000000")),
    ("follower.replication.throttled.rate", ("100000", "100000000")),
)
RECKLESS = ("unclean.leader.election.enable", ("true", "false"))
OF_PASSING = (
    ("retention.ms", ("1", "-1")),
    ("retention.bytes", ("0", "2000", "-1")),
)

Key = tuple[int, str, str]
"""Type and name of a resource, and the name of a config."""


class Tuner:
    """Changes one thing after the other."""

    def __init__(self, client: Client, topics: Sequence[str], passing: str, reckless: str) -> None:
        """``passing`` and ``reckless``: topics of which records may be lost; nothing where there are none."""
        self.client = client
        self.known: dict[Key, str | None] = {}
        """The values that were last set and answered; None for the default."""
        self._unknown: set[Key] = set()
        keys = [(TOPIC, topic, *each) for topic in topics for each in OF_TOPICS]
        keys += [(TOPIC, passing, *each) for each in (*OF_TOPICS, *OF_PASSING) if passing]
        keys += [(BROKER, name, *each) for name in ("", *map(str, client.nodes)) for each in OF_BROKERS]
        keys += [(TOPIC, reckless, *RECKLESS)] * 5 if reckless else []
        self._keys = [each for each in keys if each[2] != "min.insync.replicas" or len(client.nodes) > 1]
        self._forgets = {passing}

    async def tune(self) -> None:
        """For as long as the simulation goes on."""
        client, rng = self.client, self.client.rng
        while not client.is_over:
            await client.pause(rng.choice((50, 800)))
            kind, resource, name, values = rng.choice(self._keys)
            key, value = (kind, resource, name), rng.choice((*values, None))
            config = AlterableConfig(name=name, config_operation=DELETE if value is None else SET, value=value)
            request = IncrementalAlterConfigsRequest(
                resources=[AlterConfigsResource(resource_type=kind, resource_name=resource, configs=[config])],
                validate_only=False,
            )
            try:
                answer = await client.ask(client.any_node(), request)
            except NoAnswer:
                self._forget(key)
                continue
            code = answer.responses[0].error_code
            client.world.tell(f"{resource or 'brokers'}: {name}={value}: {error_codes.name(code)}")
            if code in (error_codes.REQUEST_TIMED_OUT, error_codes.NOT_CONTROLLER, error_codes.UNKNOWN_SERVER_ERROR):
                self._forget(key)
            elif code == error_codes.NONE and key not in self._unknown and resource not in self._forgets:
                self.known[key] = value

    def _forget(self, key: Key) -> None:
        self._unknown.add(key)
        self.known.pop(key, None)

    async def look(self) -> str:
        """The config that a broker reports otherwise than it was set; nothing if all is well. Raises NoAnswer."""
        for kind, resource in sorted({(kind, resource) for kind, resource, _ in self.known}):
            wanted = {key[2]: value for key, value in self.known.items() if key[:2] == (kind, resource)}
            asked = DescribeConfigsResource(
                resource_type=kind, resource_name=resource, configuration_keys=sorted(wanted)
            )
            nodes = [int(resource)] if kind == BROKER and resource else self.client.nodes
            for node_id in nodes:
                answer = await self.client.ask(node_id, DescribeConfigsRequest(resources=[asked]))
                (result,) = answer.results
                if result.error_code:
                    return f"n{node_id} does not say how {resource} is: {error_codes.name(result.error_code)}"
                reported = {each.name: each.value for each in result.configs}
                for name, value in wanted.items():
                    if value is not None and reported.get(name) != value:
                        of = resource or "brokers"
                        return f"n{node_id} has {of} with {name}={reported.get(name)}, and {value} was set"
        return ""
