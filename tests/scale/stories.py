"""The stories of a large cluster, in the order in which they are played. Each leaves the cluster whole.

A figure of CPU time is that of all controllers; one that names the reader is that of a broker.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .cluster import RACKS, READER, Cluster
from .meter import BROKERS

IDLE_MS = 10_000
PAUSE_MS = 10_000
TOP_CAUSES = 8
BURST_TOPICS = "burst"

Figures = dict[str, Any]


@contextmanager
def measured(cluster: Cluster) -> Iterator[Figures]:
    """Measure what happens inside."""
    meter, figures = cluster.meter, Figures()
    meter.reset()
    end, applied_ns = cluster.log_end, cluster.applied_ns
    bytes_in, bytes_out = (each.total() for each in (cluster.controllers.bytes_in, cluster.controllers.bytes_out))
    frames, began_ms = cluster.controllers.frames.total(), cluster.scheduler.now_ms()
    yield figures
    longest = max((each for each in meter.longest_ns if each != BROKERS), key=meter.longest_ns.__getitem__)
    figures |= {
        "virtual_ms": cluster.scheduler.now_ms() - began_ms,
        "cpu_ms": meter.controllers_ns / 1e6,
        "records": cluster.log_end - end,
        "requests": cluster.controllers.frames.total() - frames,
        "bytes_in": cluster.controllers.bytes_in.total() - bytes_in,
        "bytes_out": cluster.controllers.bytes_out.total() - bytes_out,
        "reader_cpu_ms": (cluster.applied_ns - applied_ns) / 1e6,
        "longest_step_ms": meter.longest_ns[longest] / 1e6,
        "longest_step_is": longest,
        "causes_ms": {
            cause: spent_ns / 1e6 for cause, spent_ns in meter.cpu_ns.most_common(TOP_CAUSES + 1) if cause != BROKERS
        },
    }


def registered_at_once(cluster: Cluster) -> None:
    """All brokers register at once."""
    cluster.start_brokers()


def topics_by_script(cluster: Cluster, partitions: int, per_topic: int) -> None:
    """A script creates all topics, a request of 1 000 partitions after the other."""
    cluster.create_topics(partitions, per_topic)
    cluster.until_all_know()


def idle(cluster: Cluster) -> None:
    """Nothing happens for 10 s but heartbeats and fetches of the metadata."""
    cluster.scheduler.advance(IDLE_MS)


def lost(cluster: Cluster, broker_ids: list[int], figures: Figures) -> None:
    """Brokers end without a word; all others learn of the new leaders."""
    for broker_id in broker_ids:
        cluster.brokers[broker_id].end()
    figures["until_fenced_ms"] = cluster.until(lambda: are_fenced(cluster, broker_ids))
    figures["until_all_know_ms"] = cluster.until_all_know()
    leaders = {partition.leader for topic in cluster.image.topics.values() for partition in topic.partitions.values()}
    figures["leaderless"] = sum(
        partition.leader < 0 for topic in cluster.image.topics.values() for partition in topic.partitions.values()
    )
    assert not leaders & set(broker_ids), "a broker that is gone still leads"


def are_fenced(cluster: Cluster, broker_ids: list[int]) -> bool:
    """Whether the active controller has published that these brokers are fenced."""
    active = cluster.controllers.active
    return active is not None and all(active.host.image.brokers[each].fenced for each in broker_ids)


def back(cluster: Cluster, broker_ids: list[int]) -> None:
    """These brokers start again, register, and are taken back into all in-sync sets."""
    for broker_id in broker_ids:
        cluster.brokers[broker_id].start()
    cluster.until(cluster.is_whole)


def restarted_one_by_one(cluster: Cluster, broker_ids: list[int]) -> None:
    """Brokers stop in a controlled way and start again, one after the other."""
    for broker_id in broker_ids:
        broker = cluster.brokers[broker_id]
        broker.wants_shut_down = True
        cluster.until(lambda broker=broker: not broker.is_up)
        broker.start()
        cluster.until(cluster.is_whole)


def suspended(cluster: Cluster, figures: Figures) -> None:
    """The controller's machine stands still for 10 s; what the brokers sent meanwhile is read afterwards."""
    active = cluster.controllers.active
    assert active is not None
    cluster.scheduler.stand_still(PAUSE_MS)
    cluster.scheduler.advance(IDLE_MS)
    figures["fenced"] = sum(broker.fenced for broker in active.host.image.brokers.values())
    cluster.until(cluster.is_whole)


def failed_over(cluster: Cluster, figures: Figures) -> None:
    """The active controller ends; a follower takes over, and a broker is unaware of it but for errors."""
    active = cluster.controllers.active
    assert active is not None
    active.end()
    figures["until_active_ms"] = cluster.until(lambda: cluster.controllers.active)
    cluster.until_all_know()


def rack(cluster: Cluster, number: int) -> list[int]:
    """The brokers of a rack, without the reader."""
    return [each for each in cluster.brokers if each % RACKS == number and each != READER]


Play = Callable[[Figures], object]


def of_one_controller(cluster: Cluster, partitions: int, per_topic: int, restarts: int) -> Iterator[tuple[str, Play]]:
    """All stories but those that need several controllers, with their names."""
    one, gone = [2], rack(cluster, 2)
    yield "all brokers register at once", lambda _: registered_at_once(cluster)
    yield "all topics created", lambda _: topics_by_script(cluster, partitions, per_topic)
    yield "idle for 10 s", lambda _: idle(cluster)
    yield "one broker lost", lambda figures: lost(cluster, one, figures)
    yield "one broker back", lambda _: back(cluster, one)
    yield "a rack lost", lambda figures: lost(cluster, gone, figures)
    yield "a rack back", lambda _: back(cluster, gone)
    yield f"{restarts} brokers restarted", lambda _: restarted_one_by_one(cluster, list(cluster.brokers)[-restarts:])
    yield "10 s of standstill", lambda figures: suspended(cluster, figures)
