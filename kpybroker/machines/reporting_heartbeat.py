"""A BrokerHeartbeat with one field more than Kafka's: the brokers that do not answer the sender.

A tagged field that a program does not know is one that it reads over (KIP-482), so Apache Kafka's controllers do not
notice it. Without such brokers the bytes are Kafka's.
"""

from __future__ import annotations

from typing import Final

from kpywire.schema import field, i16, i32, i64, message, struct, uuid  # noqa: F401

SILENCE_TAG: Final = 0x6B70_7962
"""The tag of the field. Kafka numbers its own from 0 on; this number spells kpyb."""


@struct
class SilentBroker:
    broker_id: i32  # The broker that is silent.
    silent_ms: i32  # The time since the sender heard of it.
    is_unanswered: bool  # True if the sender follows it, and its fetches are not answered.


@message(key=63, versions="0-2", flexible="0+")
class ReportingHeartbeatRequest:
    broker_id: i32  # The broker ID.
    broker_epoch: i64 = field(default=-1)  # The broker epoch.
    current_metadata_offset: i64  # The highest metadata offset which the broker has reached.
    want_fence: bool  # True if the broker wants to be fenced, false otherwise.
    want_shut_down: bool  # True if the broker wants to be shut down, false otherwise.
    offline_log_dirs: list[uuid] = field("1+", tag=0, default=[])  # Log directories that failed and went offline.
    # List of log directories that are cordoned. This is null before the broker reaches the RECOVERY state.
    cordoned_log_dirs: list[uuid] | None = field("2+", tag=1, default=None)
    # The brokers that do not answer the sender.
    silent_brokers: list[SilentBroker] = field(tag=SILENCE_TAG, default=[])
