"""Connections that say nothing."""

import gc
import resource
import time
import uuid
from contextlib import ExitStack

from benchmarks import processes
from benchmarks.figures import Figure
from benchmarks.raw import frames, many
from benchmarks.raw.asking import Address, Conversation
from benchmarks.rows.everywhere import create
from benchmarks.rows.lifecycle import start_ms
from benchmarks.rows.row import Row
from benchmarks.sides import HOST, Side

CONNECTIONS = 2000
CONNECTED_RSS = Figure("RSS", "MB", False)
CONNECTION_RSS = Figure("RSS per connection", "KB", False)
IDLE_CPU = Figure("broker CPU idle", "ms/s", False)
SETTLE_S = 3.0
IDLE_S = 2.0


class IdleConnections(Row):
    """A fresh broker, and 2 000 clients that have asked for versions and metadata and then say nothing."""

    key = "idle-connections"
    title = "2 000 idle connections"
    figures = (CONNECTED_RSS, CONNECTION_RSS, IDLE_CPU)
    warms_up = False
    expected_s = 90.0

    def play(self, side: Side) -> dict[str, float]:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 8192)), hard))
        broker = side.another(f"idle-{uuid.uuid4().hex[:8]}")
        broker.prepare()
        start_ms(broker)
        try:
            address = Address(HOST, broker.port)
            with Conversation(address) as first:
                create(first, {"idle": 6})
                greet(first)
                before = processes.rss_bytes(broker.pid)
                with ExitStack() as stack:
                    for _ in range(CONNECTIONS):
                        greet(stack.enter_context(Conversation(address)))
                    time.sleep(SETTLE_S)
                    after = processes.rss_bytes(broker.pid)
                    cpu_s = processes.cpu_seconds(broker.pid)
                    time.sleep(IDLE_S)
                    cpu_s = processes.cpu_seconds(broker.pid) - cpu_s
        finally:
            broker.kill()
            gc.collect()
        return {
            CONNECTED_RSS.name: after / 1e6,
            CONNECTION_RSS.name: (after - before) / CONNECTIONS / 1e3,
            IDLE_CPU.name: cpu_s / IDLE_S * 1000,
        }


def greet(conversation: Conversation) -> None:
    conversation.ask(frames.api_versions())
    conversation.ask(many.client_metadata())
