"""What facts about a cluster mean: what is wrong, and how to mend it. Pure: ``kpybroker doctor`` gathers the facts.

Each function takes the facts of one matter and yields findings, at least one where it could look at all.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from kpybroker.cli.cluster_requests import LogDirectory
from kpybroker.cli.tables import bytes_text, duration_text, plural

GOOD, HINT, WARNING, PROBLEM, UNKNOWN = "good", "hint", "warning", "problem", "unknown"
LEVELS = (PROBLEM, WARNING, HINT, UNKNOWN, GOOD)

LITTLE_FREE_SHARE = 0.10
HARDLY_FREE_SHARE = 0.03
LITTLE_FREE_BYTES = 64 * 1024 * 1024
"""Of a small disk: a few records more, and it is full."""
CLOCK_TOLERANCE_MS = 2_000
FEW_FILES = 4_096
MANY_OPEN_SHARE = 0.80
NAMED_AT_MOST = 5
REBALANCING = ("preparingrebalance", "completingrebalance", "assigning", "reconciling")


class Finding(NamedTuple):
    """One thing that was looked at. ``remedy`` is what to do; empty where nothing is to be done."""

    check: str
    level: str
    message: str
    remedy: str = ""


class Address(NamedTuple):
    """An address that a broker advertises, as it was found from here. ``problem`` is empty if it answers."""

    broker: int
    host: str
    port: int
    problem: str
    cluster_id: str | None

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class PartitionHealth(NamedTuple):
    """A partition with what it needs."""

    name: str
    leader: int
    replicas: int
    in_sync: int


def addresses(found: Iterable[Address], cluster_id: str, bootstrap: str) -> Iterator[Finding]:
    """Whether every broker can be reached by the address that it tells clients."""
    for each in found:
        if each.problem:
            yield Finding(
                "advertised address",
                PROBLEM,
                f"broker {each.broker} tells clients to connect to {each}, and from here that fails: {each.problem}",
                f"Set advertised.listeners of broker {each.broker} to an address that clients can reach (this machine "
                f"reached the cluster by {bootstrap}), or make {each.host} known to the clients. Clients inside and "
                "outside of a container network need a listener each.",
            )
        elif each.cluster_id is not None and each.cluster_id != cluster_id:
            yield Finding(
                "advertised address",
                PROBLEM,
                f"at {each}, the address of broker {each.broker}, another cluster answers ({each.cluster_id})",
                "Two clusters advertise the same address, or a name leads to the wrong machine.",
            )
        else:
            yield Finding("advertised address", GOOD, f"broker {each.broker} answers at {each}")


def newcomers(found: Sequence[tuple[str, str, str, float]], advertised: str) -> Iterator[Finding]:
    """Clients that asked for metadata and never came back: (host, client id, listener, for how many seconds)."""
    for host, client_id, listener, seconds in found[:NAMED_AT_MOST]:
        who = f"the client {client_id!r} at {host}" if client_id else f"a client at {host}"
        span = duration_text(int(seconds * 1000))
        yield Finding(
            "clients that never come back",
            WARNING,
            f"{who} has been asking where the brokers are for {span}, and sends nothing else",
            f"It was told {advertised} (listener {listener}). Check from its machine that this address can be reached; "
            "if not, set advertised.listeners. A health check that only lists topics looks the same.",
        )
    if not found:
        yield Finding("clients that never come back", GOOD, "every client that asked for the brokers came to one")


def clock(offset_ms: float, uncertainty_ms: float) -> Iterator[Finding]:
    """``offset_ms``: how far the broker's clock is ahead of ours, give or take ``uncertainty_ms``."""
    beyond = abs(offset_ms) - uncertainty_ms
    how = f"{duration_text(int(abs(offset_ms)))} {'ahead of' if offset_ms > 0 else 'behind'} the one here"
    if beyond > CLOCK_TOLERANCE_MS:
        yield Finding(
            "clock",
            WARNING,
            f"the broker's clock is {how}",
            "Run a time service (chrony, systemd-timesyncd) on both machines. Retention and lookups by time go by the "
            "timestamps of producers, and message.timestamp.after.max.ms refuses records from the future.",
        )
    else:
        within = duration_text(int(abs(offset_ms) + uncertainty_ms))
        yield Finding("clock", GOOD, f"the broker's clock and the one here differ by less than {within}")


def files(open_files: float, limit: float) -> Iterator[Finding]:
    """Descriptors of the broker's process."""
    remedy = "Raise it: ulimit -n 100000, LimitNOFILE=100000 for systemd, or ulimits: nofile for a container."
    said = f"the broker has {open_files:.0f} of at most {limit:.0f} files open"
    if open_files >= limit * MANY_OPEN_SHARE:
        yield Finding("open files", PROBLEM, said, remedy)
    elif limit < FEW_FILES:
        yield Finding("open files", WARNING, f"{said}, which is little: every connection is one", remedy)
    else:
        yield Finding("open files", GOOD, said)


def connections(full_listeners: float, count: float) -> Iterator[Finding]:
    """Whether clients still get in."""
    if full_listeners:
        yield Finding(
            "connections",
            PROBLEM,
            f"all connections that the broker allows are used up ({count:.0f} are open): new clients wait, unanswered",
            "Find who holds them (kafka_server_socket_server_metrics_connections_software), or raise max.connections, "
            "which a running broker takes, or the limit on open files.",
        )
    else:
        yield Finding("connections", GOOD, f"{count:.0f} are open, and there is room for more")


def disks(found: Iterable[LogDirectory], error_names: Mapping[int, str]) -> Iterator[Finding]:
    """Log directories that failed, and disks that fill up."""
    for each in found:
        where = f"{each.path} of broker {each.broker}"
        if each.error_code:
            yield Finding(
                "log directories",
                PROBLEM,
                f"{where} is offline ({error_names[each.error_code]})",
                "Look for the first error in the broker's log, check the disk, and restart the broker.",
            )
        elif each.total_bytes <= 0 or each.usable_bytes < 0:
            yield Finding(
                "log directories", UNKNOWN, f"{where} is online; this broker does not say how full its disk is"
            )
        else:
            share = each.usable_bytes / each.total_bytes
            said = f"{where}: {bytes_text(each.usable_bytes)} of {bytes_text(each.total_bytes)} are free"
            is_little = share < LITTLE_FREE_SHARE or each.usable_bytes < LITTLE_FREE_BYTES
            level = PROBLEM if share < HARDLY_FREE_SHARE else WARNING if is_little else GOOD
            remedy = (
                "Lower retention.ms or retention.bytes of the largest topics (kpybroker configs alter), or add space."
            )
            yield Finding("log directories", level, said, "" if level == GOOD else remedy)


def configs(given: Iterable[str], honoured: Iterable[str], never: Mapping[str, str]) -> Iterator[Finding]:
    """Broker configs that somebody has set and this broker does not act on."""
    known = set(honoured)
    idle = sorted(name for name in given if name not in known and not name.startswith("kpybroker."))
    reasons: dict[str, list[str]] = {}
    for name in idle:
        reasons.setdefault(never.get(name, "what they belong to is not there yet"), []).append(name)
    for why, names in reasons.items():
        said = f"set without effect: {', '.join(names)} ({why})"
        yield Finding("configs", HINT, said, "Leave them out; docs/configs.md has what is honoured.")
    if not idle:
        yield Finding("configs", GOOD, "every broker config that is set has its effect")


def replication_factors(settings: Mapping[str, int], brokers: int) -> Iterator[Finding]:
    """Factors of internal topics, and of topics by default, that this many brokers cannot give."""
    for name, factor in sorted(settings.items()):
        if factor > brokers:
            yield Finding(
                "replication factors",
                PROBLEM,
                f"{name} is {factor}, and there {'is' if brokers == 1 else 'are'} only {plural(brokers, 'broker')}",
                f"Set {name}={brokers}, or start more brokers; until then such topics cannot be created.",
            )


def partitions(found: Iterable[PartitionHealth]) -> Iterator[Finding]:
    """Partitions without a leader, and with fewer replicas in sync than they have."""
    every = list(found)
    offline = [each.name for each in every if each.leader < 0]
    behind = [each.name for each in every if each.leader >= 0 and each.in_sync < each.replicas]
    if offline:
        yield Finding(
            "partitions",
            PROBLEM,
            f"{plural(len(offline), 'partition')} without a leader: {_some(offline)}",
            "Start the brokers that hold them (kpybroker topics describe TOPIC says which).",
        )
    if behind:
        yield Finding(
            "partitions",
            WARNING,
            f"{plural(len(behind), 'partition')} with replicas out of sync: {_some(behind)}",
            "A broker is down, slow, or has a failed log directory; see kpybroker cluster brokers and log-dirs.",
        )
    if not offline and not behind:
        yield Finding("partitions", GOOD, f"{plural(len(every), 'partition')}, all with a leader and in sync")


def fenced(ids: Sequence[int]) -> Iterator[Finding]:
    """Brokers that are registered and do not live."""
    if ids:
        yield Finding(
            "brokers",
            WARNING,
            f"registered and not alive: {', '.join(map(str, sorted(ids)))}",
            "Start them, or unregister those that will not come back.",
        )


def groups(before: Mapping[str, str], after: Mapping[str, str], waited_s: float) -> Iterator[Finding]:
    """The states of groups at two moments: those that rebalanced at both are stuck, or as good as."""
    stuck = [name for name, state in after.items() if _rebalances(state) and _rebalances(before.get(name, ""))]
    for name in sorted(stuck)[:NAMED_AT_MOST]:
        yield Finding(
            "groups",
            WARNING,
            f"group {name} has been in state {after[name]} for at least {waited_s:.0f} s",
            "A member does not come back to the rebalance: one that is busy longer than its max.poll.interval.ms, or "
            f"is gone and not yet missed. kpybroker groups describe {name} --members shows who is in it.",
        )
    if not stuck:
        yield Finding("groups", GOOD, f"{plural(len(after), 'group')}, none stuck in a rebalance")


def _rebalances(state: str) -> bool:
    return state.lower() in REBALANCING


def _some(names: Sequence[str]) -> str:
    rest = len(names) - NAMED_AT_MOST
    return ", ".join(names[:NAMED_AT_MOST]) + (f" and {rest} more" if rest > 0 else "")
