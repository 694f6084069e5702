"""The meaning of facts about a cluster: faults and their remedies. Pure: ``kpybroker doctor`` gathers the facts.

Each function takes the facts about one subject and yields findings, at least one if there are any facts.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kpybroker.cli.tables import bytes_text, duration_text, plural

if TYPE_CHECKING:
    from kpybroker.client.acl_requests import AclBinding
    from kpybroker.client.cluster_requests import LogDirDescription

GOOD, HINT, WARNING, PROBLEM, UNKNOWN = "good", "hint", "warning", "problem", "unknown"
LEVELS = (PROBLEM, WARNING, HINT, UNKNOWN, GOOD)

LITTLE_FREE_SHARE = 0.10
HARDLY_FREE_SHARE = 0.03
LITTLE_FREE_BYTES = 64 * 1024 * 1024
"""The free bytes at which even a small disk is nearly full: a few more records fill it."""
CLOCK_TOLERANCE_MS = 2_000
FEW_FILES = 4_096
MANY_OPEN_SHARE = 0.80
NAMED_AT_MOST = 5
MANY_FROM_ONE = 100
MANY_IN_ALL = 1_000
"""Requests for metadata in a second."""
REBALANCING = ("preparingrebalance", "completingrebalance", "assigning", "reconciling")


class Diagnosis(NamedTuple):
    """A finding. ``remedy`` says what to do, and is empty where nothing is to be done."""

    check: str
    level: str
    message: str
    remedy: str = ""


class ProbedAddress(NamedTuple):
    """An address that a broker advertises, as tested from here. ``problem`` is empty if it answers."""

    broker: int
    host: str
    port: int
    problem: str
    cluster_id: str | None

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class PartitionHealth(NamedTuple):
    """A partition and its health."""

    name: str
    leader: int
    replicas: Collection[int]
    in_sync: Collection[int]

    @property
    def missing(self) -> set[int]:
        """The brokers whose replicas are not in sync."""
        return set(self.replicas).difference(self.in_sync)


def addresses(found: Iterable[ProbedAddress], cluster_id: str, bootstrap: str) -> Iterator[Diagnosis]:
    """Whether every broker can be reached at the address that it advertises."""
    for each in found:
        if each.problem:
            yield Diagnosis(
                "advertised address",
                PROBLEM,
                f"broker {each.broker} tells clients to connect to {each}, and from here that fails: {each.problem}",
                f"Set advertised.listeners of broker {each.broker} to an address that clients can reach (this machine "
                f"reached the cluster by {bootstrap}), or make {each.host} known to the clients. Clients inside and "
                "outside of a container network need a listener each. A broker that has just ended has to be started.",
            )
        elif each.cluster_id is not None and each.cluster_id != cluster_id:
            yield Diagnosis(
                "advertised address",
                PROBLEM,
                f"at {each}, the address of broker {each.broker}, another cluster answers ({each.cluster_id})",
                "Two clusters advertise the same address, or a name leads to the wrong machine.",
            )
        else:
            yield Diagnosis("advertised address", GOOD, f"broker {each.broker} answers at {each}")


def newcomers(found: Sequence[tuple[str, str, str, float]], advertised: str) -> Iterator[Diagnosis]:
    """Clients that asked for metadata and never came back: (host, client id, listener, seconds since)."""
    for host, client_id, listener, seconds in found[:NAMED_AT_MOST]:
        client = f"the client {client_id!r} at {host}" if client_id else f"a client at {host}"
        span = duration_text(int(seconds * 1000))
        yield Diagnosis(
            "clients that never come back",
            WARNING,
            f"{client} has been asking where the brokers are for {span}, and sends nothing else",
            f"It was sent to {advertised} (listener {listener}). Check from its machine that this address can be "
            "reached; if not, set advertised.listeners. A health check that only lists topics looks the same.",
        )
    if not found:
        yield Diagnosis("clients that never come back", GOOD, "every client that asked for the brokers came to one")


def clock(offset_ms: float, uncertainty_ms: float) -> Iterator[Diagnosis]:
    """The broker's clock. ``offset_ms``: how far it is ahead of the local one, give or take ``uncertainty_ms``."""
    beyond = abs(offset_ms) - uncertainty_ms
    how = f"{duration_text(int(abs(offset_ms)))} {'ahead of' if offset_ms > 0 else 'behind'} the one here"
    if beyond > CLOCK_TOLERANCE_MS:
        yield Diagnosis(
            "clock",
            WARNING,
            f"the broker's clock is {how}",
            "Run a time service (chrony, systemd-timesyncd) on both machines. Retention and lookups by time go by the "
            "timestamps of producers, and message.timestamp.after.max.ms refuses records from the future.",
        )
    else:
        within = duration_text(int(abs(offset_ms) + uncertainty_ms))
        yield Diagnosis("clock", GOOD, f"the broker's clock and the one here differ by less than {within}")


def files(open_files: float, limit: float) -> Iterator[Diagnosis]:
    """Descriptors of the broker's process."""
    remedy = "Raise it: ulimit -n 100000, LimitNOFILE=100000 for systemd, or ulimits: nofile for a container."
    reported = f"{open_files:.0f} of at most {limit:.0f} files are open"
    if open_files >= limit * MANY_OPEN_SHARE:
        yield Diagnosis("open files", PROBLEM, reported, remedy)
    elif limit < FEW_FILES:
        yield Diagnosis("open files", WARNING, f"{reported}, which is little: every connection is one", remedy)
    else:
        yield Diagnosis("open files", GOOD, reported)


def connections(full_listeners: float, count: float) -> Iterator[Diagnosis]:
    """Whether clients can still connect."""
    if full_listeners:
        yield Diagnosis(
            "connections",
            PROBLEM,
            f"all connections that the broker allows are used up ({count:.0f} are open): new clients wait, unanswered",
            "Find who holds them (kafka_server_socket_server_metrics_connections_software), or raise max.connections, "
            "which a running broker takes, or the limit on open files.",
        )
    else:
        yield Diagnosis("connections", GOOD, f"{count:.0f} are open, and there is room for more")


def disks(found: "Iterable[LogDirDescription]", error_names: Mapping[int, str]) -> Iterator[Diagnosis]:
    """Log directories that failed, and disks that are nearly full."""
    for each in found:
        where = f"{each.path} of broker {each.broker}"
        if each.error_code:
            yield Diagnosis(
                "log directories",
                PROBLEM,
                f"{where} is offline ({error_names[each.error_code]})",
                "Look for the first error in the broker's log, check the disk, and restart the broker.",
            )
        elif each.total_bytes <= 0 or each.usable_bytes < 0:
            yield Diagnosis(
                "log directories", UNKNOWN, f"{where} is online; this broker does not say how full its disk is"
            )
        else:
            share = each.usable_bytes / each.total_bytes
            reported = f"{where}: {bytes_text(each.usable_bytes)} of {bytes_text(each.total_bytes)} are free"
            is_little = share < LITTLE_FREE_SHARE or each.usable_bytes < LITTLE_FREE_BYTES
            level = PROBLEM if share < HARDLY_FREE_SHARE else WARNING if is_little else GOOD
            remedy = (
                "Lower retention.ms or retention.bytes of the largest topics (kpybroker configs alter), or add space."
            )
            yield Diagnosis("log directories", level, reported, "" if level == GOOD else remedy)


def configs(given: Iterable[str], honoured: Iterable[str], never: Mapping[str, str]) -> Iterator[Diagnosis]:
    """Broker configs that were set and that this broker does not act on."""
    from kpybroker.config.synonyms import base_of_listener_config

    known = set(honoured)
    idle = sorted(
        name
        for name in given
        if not (name in known or base_of_listener_config(name) in known or name.startswith("kpybroker."))
    )
    reasons: dict[str, list[str]] = {}
    for name in idle:
        reasons.setdefault(never.get(name, "what they belong to is not there yet"), []).append(name)
    for why, names in reasons.items():
        reported = f"set without effect: {', '.join(names)} ({why})"
        yield Diagnosis("configs", HINT, reported, "Leave them out; docs/configs.md has what is honoured.")
    if not idle:
        yield Diagnosis("configs", GOOD, "every broker config that is set has its effect")


def replication_factors(settings: Mapping[str, int], brokers: int) -> Iterator[Diagnosis]:
    """Replication factors of internal topics, and the default one, that this many brokers cannot provide, be they alive
    or not."""
    for name, factor in sorted(settings.items()):
        if factor > brokers:
            yield Diagnosis(
                "replication factors",
                PROBLEM,
                f"{name} is {factor}, and there {'is' if brokers == 1 else 'are'} only {plural(brokers, 'broker')}",
                f"Set {name}={brokers}, or start more brokers; until then such topics cannot be created.",
            )


def acls(found: "Sequence[AclBinding]", *, reads_networks: bool) -> Iterator[Diagnosis]:
    """ACLs that hold for nobody, since no client's address is or belongs to their host. ``reads_networks``: whether all
    nodes of the cluster know networks (KIP-1276)."""
    from kpybroker.machines.authorization.resources import WILDCARD

    idle = [each for each in found if each.host != WILDCARD and not _is_hosts_text(each.host)]
    of_networks = [each for each in idle if _is_network(each.host)]
    idle = [each for each in idle if each not in of_networks]
    if of_networks and not reads_networks:
        yield Diagnosis(
            "ACLs",
            WARNING,
            f"{plural(len(of_networks), 'ACL')} with a network{_denying(of_networks)}, which no Kafka before 4.4 "
            f"knows: {_some(_named_acls(of_networks))}",
            "Raise metadata.version to 4.4-IV1 or higher (kpybroker cluster upgrade), so that every node knows "
            "networks. Nodes of earlier versions compare them as text with an address: they match nobody there.",
        )
    elif not idle:
        yield Diagnosis("ACLs", GOOD, f"the hosts of all {plural(len(found), 'ACL')} are addresses, networks or *")
    if not idle:
        return
    yield Diagnosis(
        "ACLs",
        WARNING,
        f"{plural(len(idle), 'ACL')} can match nobody{_denying(idle)}: {_some(_named_acls(idle))}",
        "A host is compared as text with one address: 10.0.0.7, or IPv6 as 0:0:0:0:0:0:0:1; or it is a network, such "
        "as 10.0.0.0/8. Names mean nothing. Remove these (kpybroker acls remove), and add one for each address or "
        "network, or one for all with *.",
    )


def _named_acls(acls: "Sequence[AclBinding]") -> list[str]:
    return [f"{each.principal} from {each.host!r} on {each.resource_name}" for each in acls]


def _denying(acls: "Sequence[AclBinding]") -> str:
    from kpybroker.machines.authorization.resources import Permission

    denials = sum(each.permission_type == Permission.DENY for each in acls)
    return f", {denials} of them meant to deny" if denials else ""


def _is_network(host: str) -> bool:
    from kpybroker.machines.authorization.networks import InvalidNetwork, is_network, parse_network

    if not is_network(host):
        return False
    try:
        parse_network(host)
    except InvalidNetwork:
        return False
    return True


def _is_hosts_text(host: str) -> bool:
    from kpybroker.runtime.calls.address import is_address, java_address

    return is_address(host) and java_address(host) == host


def partitions(found: Iterable[PartitionHealth], away: Collection[int]) -> Iterator[Diagnosis]:
    """Partitions without a leader, and those with fewer replicas in sync than they have. ``away``: brokers that are not
    alive."""
    every = list(found)
    offline = [each for each in every if each.leader < 0]
    behind = [each for each in every if each.leader >= 0 and each.missing]
    if offline:
        holders = {broker for each in offline for broker in each.replicas}
        yield Diagnosis(
            "partitions",
            PROBLEM,
            f"{plural(len(offline), 'partition')} without a leader: {_some([each.name for each in offline])}",
            _start(holders & set(away))
            or "Start the brokers that hold them (kpybroker topics describe TOPIC says which).",
        )
    explained = [each for each in behind if each.missing <= set(away)]
    others = [each for each in behind if each not in explained]
    if explained:
        gone = {broker for each in explained for broker in each.missing}
        yield Diagnosis(
            "partitions",
            WARNING,
            f"{plural(len(explained), 'partition')} with replicas out of sync, since {_named(gone)} not alive: "
            f"{_some([each.name for each in explained])}",
            _start(gone),
        )
    if others:
        yield Diagnosis(
            "partitions",
            WARNING,
            f"{plural(len(others), 'partition')} with replicas out of sync: {_some([each.name for each in others])}",
            "A broker is slow, or has a failed log directory; see kpybroker cluster brokers and log-dirs.",
        )
    if not offline and not behind:
        yield Diagnosis("partitions", GOOD, f"{plural(len(every), 'partition')}, all with a leader and in sync")


def dead(registered: Collection[int], holders: Collection[int]) -> Iterator[Diagnosis]:
    """Brokers that are not alive: those that are registered, and others that hold replicas."""
    for broker in sorted(registered):
        yield Diagnosis(
            "brokers",
            PROBLEM,
            f"broker {broker} is registered and not alive",
            f"Start broker {broker}; its log says why it ended. One that will not come back is unregistered, after its "
            "replicas have moved (kpybroker topics reassign). What follows from its absence is below.",
        )
    for broker in sorted(set(holders).difference(registered)):
        yield Diagnosis(
            "brokers",
            PROBLEM,
            f"broker {broker} holds replicas and is not alive",
            f"Start broker {broker}; its log says why it ended. If it will not come back, move its replicas to others "
            "(kpybroker topics reassign).",
        )


def _start(brokers: Collection[int]) -> str:
    return f"Start broker {', '.join(map(str, sorted(brokers)))}." if brokers else ""


def _named(brokers: Collection[int]) -> str:
    listed = ", ".join(map(str, sorted(brokers)))
    return f"broker {listed} is" if len(brokers) == 1 else f"brokers {listed} are"


def groups(samples: Sequence[Mapping[str, str]], waited_s: float) -> Iterator[Diagnosis]:
    """The states of groups at several moments: those that rebalance at each are stuck, others rebalance repeatedly."""
    last = samples[-1]
    seen = {name: [_rebalances(each.get(name, "")) for each in samples] for name in sorted(last)}
    stuck = [name for name, found in seen.items() if len(found) > 1 and all(found)]
    restless = [name for name, found in seen.items() if name not in stuck and _begins(found) > 1]
    for name in stuck[:NAMED_AT_MOST]:
        yield Diagnosis(
            "groups",
            WARNING,
            f"group {name} has been in state {last[name]} for at least {waited_s:.0f} s",
            "A member does not come back to the rebalance: one that is busy longer than its max.poll.interval.ms, or "
            f"is gone and not yet missed. kpybroker groups describe {name} --members shows who is in it.",
        )
    for name in restless[:NAMED_AT_MOST]:
        yield _restless(name, f"has begun to rebalance {_begins(seen[name])} times in {waited_s:.0f} s")
    if not stuck and not restless:
        yield Diagnosis("groups", GOOD, f"{plural(len(last), 'group')}, none stuck in a rebalance")


def _begins(found: Sequence[bool]) -> int:
    return sum(now and not before for before, now in zip((False, *found), found, strict=False))


def generations(before: Mapping[str, float], after: Mapping[str, float], seconds: float) -> Iterator[Diagnosis]:
    """The generations of groups at two moments: groups that began several in between rebalance endlessly."""
    grown = {name: int(after[name] - before.get(name, after[name])) for name in after}
    for name, count in sorted(grown.items(), key=lambda each: -each[1])[:NAMED_AT_MOST]:
        if count > 1:
            yield _restless(name, f"went through {count} rebalances in {seconds:.0f} s")


def _restless(name: str, what: str) -> Diagnosis:
    return Diagnosis(
        "groups",
        WARNING,
        f"group {name} {what}",
        "Members leave and join without an end: one that is started again and again, one that takes longer than its "
        "max.poll.interval.ms for what it polled, or whose session.timeout.ms is too short. The log of each member "
        f"says why it left; kpybroker groups describe {name} --members shows who is in it.",
    )


def metadata_load(by_client: Mapping[tuple[str, str], float], in_all: float) -> Iterator[Diagnosis]:
    """The rate of requests for metadata per second, by (host, client id) where the broker reports it, and of all
    clients."""
    remedy = (
        "Clients ask once in metadata.max.age.ms, five minutes. Look for a loop that opens a client or lists topics "
        "without a pause, or that retries without retry.backoff.ms."
    )
    busy = sorted(((rate, client) for client, rate in by_client.items() if rate >= MANY_FROM_ONE), reverse=True)
    for rate, (host, client_id) in busy[:NAMED_AT_MOST]:
        client = f"the client {client_id!r} at {host}" if client_id else f"a client at {host}"
        yield Diagnosis("metadata requests", WARNING, f"{client} asks for metadata {rate:.0f} times a second", remedy)
    if not busy and in_all >= MANY_IN_ALL:
        reported = f"clients ask for metadata {in_all:.0f} times a second"
        yield Diagnosis("metadata requests", WARNING, reported, remedy)
    elif not busy:
        yield Diagnosis("metadata requests", GOOD, f"clients ask for metadata {in_all:.1f} times a second")


def damage(found: Mapping[tuple[str, str], int], answers: float, fetched: float = 0) -> Iterator[Diagnosis]:
    """Damaged places of logs by (directory, partition), how often a reader got CORRUPT_MESSAGE, and how often this
    broker was sent damaged records as a follower."""
    for (directory, partition), places in sorted(found.items())[:NAMED_AT_MOST]:
        where = f"{directory.rstrip('/')}/{partition}"
        yield Diagnosis(
            "corrupt batches",
            PROBLEM,
            f"readers of {partition} have met {plural(places, 'damaged place')} in {where}",
            f"On the broker's machine: kpybroker check {where} says what is damaged. With replicas on other brokers, "
            "stop this one, set the directory aside and start it: it fetches the partition again. Without, stop it and "
            f"run kpybroker check --repair {directory}, which keeps what can be read.",
        )
    if fetched:
        yield Diagnosis(
            "corrupt batches",
            PROBLEM,
            f"leaders have sent it damaged records {fetched:.0f} times",
            "Its log names the leader. On the leader's machine: kpybroker check DIR, with its log directory, says what "
            "is damaged. If nothing is, the network between the two damages bytes.",
        )
    if not found and answers:
        yield Diagnosis(
            "corrupt batches",
            PROBLEM,
            f"readers got CORRUPT_MESSAGE {answers:.0f} times since the broker started",
            "The broker's log names the file. On its machine: kpybroker check DIR, with its log directory, says what "
            "is damaged.",
        )
    elif not (found or fetched):
        yield Diagnosis(
            "corrupt batches",
            GOOD,
            "no reader has met one in a closed segment since it started; the last segment of a log is sent unchecked, "
            "and only its readers check",
        )


def _rebalances(state: str) -> bool:
    return state.lower() in REBALANCING


def _some(names: Sequence[str]) -> str:
    rest = len(names) - NAMED_AT_MOST
    return ", ".join(names[:NAMED_AT_MOST]) + (f" and {rest} more" if rest > 0 else "")
