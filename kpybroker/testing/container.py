"""A class like testcontainers' ``KafkaContainer``, so that a test suite can switch by changing one import.

It is not a container, but a `Broker` in a thread of this process. Settings that only decide how a container runs are
accepted and have no effect. Features that need a container (networks, mounted files, commands run inside) are refused
in one line.
"""

from collections.abc import Mapping
from types import TracebackType
from typing import Any, NoReturn

from kpybroker.config.environment import from_environment
from kpybroker.testing.broker import Broker

DEFAULT_IMAGE = "confluentinc/cp-kafka:7.6.0"
STARTED = b"[KafkaServer id=1] started\n[KafkaRaftServer nodeId=1] Kafka Server started\n"
_OF_THE_CONTAINER = (
    *("listener", "advertised.", "controller.", "inter.broker.", "zookeeper.", "process.roles", "node.id", "broker.id"),
    "log.dir",
)
"""Configs that say where a broker in a container is reached; this one is reached elsewhere."""


class NeedsContainer(Exception):
    """The test asks for a feature that only a real container has."""


class KafkaContainer:
    """``with KafkaContainer() as kafka: kafka.get_bootstrap_server()``. ``broker`` is the broker that runs."""

    def __init__(
        self,
        image: str = DEFAULT_IMAGE,
        port: int = 9093,
        wait_strategy_check_string: str = "",
        listener_name: str = "PLAINTEXT",
        security_protocol: str = "PLAINTEXT",
        **kwargs: Any,
    ) -> None:
        """Accepts the arguments of testcontainers' class. Of ``kwargs`` it uses the environment in ``env``."""
        if security_protocol != "PLAINTEXT":
            raise NeedsContainer(f"security protocol {security_protocol}: this broker speaks PLAINTEXT")
        self.image = image
        self.port = port
        self.env: dict[str, str] = {}
        self.ports: dict[int, int | None] = {port: None}
        self.broker: Broker | None = None
        del wait_strategy_check_string, listener_name
        self.with_envs(**(kwargs.get("env") or {}))

    # How it is to be started

    def with_kraft(self) -> "KafkaContainer":
        """Accepted: the broker always uses KRaft."""
        return self

    def with_cluster_id(self, cluster_id: str) -> "KafkaContainer":
        """Accepted; the broker gives itself an id."""
        del cluster_id
        return self

    def with_env(self, key: str, value: Any) -> "KafkaContainer":
        """``KAFKA_...`` variables are configs, by the rule of Kafka's images; others have no effect."""
        self.env[key] = str(value)
        return self

    def with_envs(self, **variables: Any) -> "KafkaContainer":
        """Set several variables at once."""
        for key, value in variables.items():
            self.with_env(key, value)
        return self

    def with_exposed_ports(self, *ports: int | str) -> "KafkaContainer":
        """Accepted: all of them lead to the one listener."""
        self.ports.update({int(str(port).partition("/")[0]): None for port in ports})
        return self

    def with_bind_ports(self, container: int | str, host: int | None = None) -> "KafkaContainer":
        """Serve on this port of the machine instead of a free one."""
        self.ports[int(str(container).partition("/")[0])] = host
        return self

    def with_name(self, name: str) -> "KafkaContainer":
        """Accepted."""
        del name
        return self

    def with_kwargs(self, **kwargs: Any) -> "KafkaContainer":
        """Accepted."""
        del kwargs
        return self

    def with_command(self, command: Any) -> "KafkaContainer":
        """Accepted: there is one command, which starts the broker."""
        del command
        return self

    def waiting_for(self, strategy: Any) -> "KafkaContainer":
        """Accepted: when `start` returns, clients are served."""
        del strategy
        return self

    def maybe_emulate_amd64(self) -> "KafkaContainer":
        """Accepted."""
        return self

    def with_network(self, network: Any) -> NoReturn:
        """Refused: other containers cannot reach it by a name."""
        raise NeedsContainer(f"with_network({network}): this broker is in no network of containers")

    def with_network_aliases(self, *aliases: str) -> NoReturn:
        """Refused, like `with_network`."""
        raise NeedsContainer(f"with_network_aliases{aliases}: this broker is in no network of containers")

    def with_volume_mapping(self, host: Any, container: Any, mode: str = "ro") -> NoReturn:
        """Refused: there is nothing to mount into."""
        raise NeedsContainer(f"with_volume_mapping({host}, {container}, {mode}): use Broker(directory=...)")

    def exec(self, command: Any) -> NoReturn:
        """Refused: there are no tools inside; ``broker`` has methods for the same purposes."""
        raise NeedsContainer(f"exec({command}): use .broker.create_topic(...) and its like, or Kafka's tools outside")

    # Life

    def start(self, timeout: int = 30) -> "KafkaContainer":
        """Start the broker. Clients are served when this returns."""
        del timeout
        wanted = next((host for host in self.ports.values() if host), 0)
        self.broker = Broker(self._config(), port=wanted).start()
        return self

    def stop(self, force: bool = True, delete_volume: bool = True) -> None:  # noqa: FBT001, FBT002
        """Stop the broker, and delete all its data."""
        del force, delete_volume
        broker, self.broker = self.broker, None
        if broker is not None:
            broker.stop()

    def __enter__(self) -> "KafkaContainer":
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _config(self) -> Mapping[str, object]:
        configs = from_environment(self.env)
        return {name: value for name, value in configs.items() if not name.startswith(_OF_THE_CONTAINER)}

    # Where it is

    def get_bootstrap_server(self) -> str:
        """``host:port``, for any client."""
        return f"{self.get_container_host_ip()}:{self.get_exposed_port(self.port)}"

    def get_container_host_ip(self) -> str:
        """The address of this machine."""
        return "127.0.0.1"

    def get_exposed_port(self, port: int) -> int:
        """The listener's port on this machine, whichever of the exposed ones is asked for."""
        if self.broker is None:
            raise NeedsContainer("start it first")
        if int(port) not in self.ports:
            raise NeedsContainer(f"port {port} is not exposed, only {', '.join(map(str, self.ports))}")
        return self.broker.port

    def get_logs(self) -> tuple[bytes, bytes]:
        """The log lines that test suites wait for."""
        return (STARTED if self.broker is not None else b"", b"")

    def get_wrapped_container(self) -> NoReturn:
        """Refused: there is no container."""
        raise NeedsContainer("get_wrapped_container(): there is no container; .broker is what runs")
