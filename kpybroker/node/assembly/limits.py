"""The limits of a node's sockets, and of what its clients may create, from its configuration and the system's."""

from typing import Final

from kpybroker.config.authorizer_configs import AUTHORIZER, super_users
from kpybroker.config.broker import BrokerConfig
from kpybroker.machines.controller.topic_bounds import MAX_PARTITIONS, MAX_TOPICS, TopicBounds
from kpybroker.requests.server.connection_quotas import ConnectionLimits
from kpybroker.requests.server.listener import SocketLimits
from kpybroker.runtime.io.limits import descriptors_for_connections, descriptors_for_replies, open_files

DEFAULT_REQUEST_MEMORY_BYTES: Final = 512 * 1024 * 1024
DEFAULT_BACKLOG: Final = 1024
"""A single Spark job that starts fills Kafka's 50; clients that do not fit try again a second later."""
DEFAULT_SEND_BUFFER_BYTES: Final = 200 * 1024
"""With half of it, Kafka's default, there are twice as many wakes for the same records. Of a buffer of megabytes, much
is no longer in the CPU's cache when the client receives it."""

LEAST_OF_CONTROLLERS: Final = 16
"""The connections to the listeners of a controller for which there are descriptors, however few a node has."""


def socket_limits(config: BrokerConfig) -> SocketLimits:
    """The limits of sockets from the configuration. Kafka's sizes of buffers count only if they were set explicitly."""
    memory = config.queued_max_request_bytes
    files = open_files()
    connections = descriptors_for_connections(files)
    of_controllers = connections if not config.is_broker else max(LEAST_OF_CONTROLLERS, connections // 4)
    if config.is_broker and config.controller_listeners:
        connections = max(LEAST_OF_CONTROLLERS, connections - of_controllers)
    per_ip = config.max_connections_per_ip, config.max_connections_per_ip_overrides
    return SocketLimits(
        max_request_bytes=config.socket_request_max_bytes,
        queued_max_request_bytes=memory if memory > 0 else DEFAULT_REQUEST_MEMORY_BYTES,
        max_idle_ms=config.connections_max_idle_ms,
        connections=ConnectionLimits(
            min(config.max_connections, connections),
            *per_ip,
            config.inter_broker_listener_name,
            config.max_connections_of_listeners,
        ),
        controllers=ConnectionLimits(
            min(config.max_connections, of_controllers), *per_ip, "", config.max_connections_of_listeners
        ),
        controller_listeners=frozenset(listener.name for listener in config.controller_listeners),
        max_creation_rate=config.max_connection_creation_rate,
        send_buffer_bytes=config.asked("socket.send.buffer.bytes", DEFAULT_SEND_BUFFER_BYTES),
        receive_buffer_bytes=config.asked("socket.receive.buffer.bytes"),
        backlog=config.asked("socket.listen.backlog.size", DEFAULT_BACKLOG),
        max_unread_files=descriptors_for_replies(files),
    )


def mutation_windows(config: BrokerConfig) -> tuple[int, int]:
    """The windows of the quota of controller mutations: their number, and the length of one in milliseconds."""
    return config["controller.quota.window.num"], config["controller.quota.window.size.seconds"] * 1_000


def topic_bounds(config: BrokerConfig) -> TopicBounds:
    """The bounds on what a principal may create, from which super users are exempt."""
    exempt = super_users(config.originals) if config[AUTHORIZER] else frozenset()
    return TopicBounds(config[MAX_TOPICS], config[MAX_PARTITIONS], exempt)
