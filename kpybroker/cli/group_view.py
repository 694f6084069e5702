"""The display of groups in ``kpybroker groups``: rows for people, dictionaries for programs. Pure."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from kpybroker.cli.tables import columns, duration_text, plural, printable
from kpybroker.client.client import Spot
from kpybroker.client.group_requests import GroupDescription, MemberDescription
from kpybroker.client.lag import GroupLag
from kpybroker.client.rebalance import blockers, explained
from kpybroker.client.resets import Reset
from kpybroker.client.streams_applications import NOT_READY, ApplicationTasks
from kpybroker.client.topology_descriptions import TopologyNode

NOTHING = "-"
OFFSETS = ("TOPIC", "PARTITION", "COMMITTED", "LOG END", "LAG", "BEHIND", "MEMBER", "HOST")
MEMBERS = ("MEMBER", "INSTANCE", "CLIENT", "HOST", "PARTITIONS")
TASKS = ("MEMBER", "PROCESS", "CLIENT", "HOST", "EPOCH", "ACTIVE", "STANDBY", "WAITS FOR")
NODES = ("SUBTOPOLOGY", "NODE", "KIND", "TOPICS", "STORES", "SUCCESSORS")
MEMBERS_WITH_EPOCHS = (*MEMBERS[:-1], "PROTOCOL", "EPOCH", "PARTITIONS", "TARGET")
RESETS = ("GROUP", "TOPIC", "PARTITION", "COMMITTED", "NEW OFFSET", "NOTE")


def owners(group: GroupDescription) -> dict[Spot, MemberDescription]:
    """The member that reads each partition."""
    return {spot: member for member in group.members for spot in member.assigned or ()}


def heading(
    group: GroupDescription,
    lags: Mapping[Spot, GroupLag] | None = None,
    since_ms: Mapping[str, int] | None = None,
    now_ms: int = 0,
) -> str:
    """The heading of a group, such as ``payments  Stable, classic (range), 3 members, coordinator 1, lag 12``. Lines
    follow that say why it is not stable."""
    kind = f"{group.kind} ({group.protocol})" if group.protocol else group.kind
    if group.protocol_type not in ("", "consumer", "share"):
        kind += f", protocol type {group.protocol_type}"
    parts = [group.state, kind, plural(len(group.members), "member")]
    if group.epoch is not None:
        parts.append(f"epoch {group.epoch}")
    parts.append(f"coordinator {group.coordinator}")
    if lags is not None:
        parts.append(_lag_text(lags.values()))
    waits = {name: duration_text(max(now_ms - each_ms, 0)) for name, each_ms in (since_ms or {}).items()}
    return "\n  ".join(map(printable, (f"{group.name}  {', '.join(parts)}", *explained(group, waits))))


def _lag_text(lags: Collection[GroupLag]) -> str:
    """The sum of what is known, and the partitions with records for which nothing is committed."""
    known = [lag.records for lag in lags if lag.records is not None]
    unknown = sum(lag.records is None and lag.committed is None and bool(lag.log_end) for lag in lags)
    if not unknown:
        return f"lag {sum(known)}"
    return f"lag {sum(known) if known else 'unknown'}, {plural(unknown, 'partition')} without a commit"


def application_text(group: GroupDescription, partitions: Mapping[str, int]) -> str:
    """The topology of a streams group, and why it is not ready; ``partitions`` are those of the topics that exist."""
    application = group.application
    assert application is not None
    text = f"topology epoch {application.topology_epoch}"
    if group.state == NOT_READY:
        text += f"; not ready: {application.why_not_ready(partitions)}"
    behind = [
        member.member_id
        for member in group.members
        if member.tasks is not None and member.tasks.topology_epoch < application.topology_epoch
    ]
    if behind:
        text += f"; with an older topology: {', '.join(behind)}"
    return printable(text)


def offsets_text(group: GroupDescription, lags: Mapping[Spot, GroupLag], now_ms: int) -> str:
    """A line for each partition that the group has read or owns."""
    owned = owners(group)
    rows = []
    for spot, lag in lags.items():
        member = owned.get(spot)
        behind = lag.behind_ms(now_ms)
        rows.append(
            (
                *spot,
                _or_nothing(lag.committed),
                _or_nothing(lag.log_end),
                _or_nothing(lag.records),
                NOTHING if behind is None else duration_text(behind),
                member.member_id if member else NOTHING,
                member.host if member else NOTHING,
            )
        )
    return columns(OFFSETS, rows) if rows else "Nothing is committed, and no member owns a partition."


def members_text(group: GroupDescription) -> str:
    """A line for each member."""
    if group.application is not None:
        tasks = [
            (
                each.member_id,
                each.tasks.process_id,
                each.client_id,
                each.host,
                str(each.tasks.epoch),
                *_tasks(each.tasks),
            )
            for each in group.members
            if each.tasks is not None
        ]
        return columns(TASKS, tasks) if tasks else "No members."
    rows: list[tuple[object, ...]] = []
    for each in group.members:
        member_row = (each.member_id, each.instance_id or NOTHING, each.client_id, each.host)
        if group.epoch is None:
            rows.append((*member_row, _spots_text(each.assigned)))
        else:
            rows.append((*member_row, each.protocol, each.epoch, _spots_text(each.assigned), _spots_text(each.target)))
    if not rows:
        return "No members."
    return columns(MEMBERS if group.epoch is None else MEMBERS_WITH_EPOCHS, rows)


def topology_text(nodes: Collection[TopologyNode] | str | None) -> str:
    """A line for each node of a topology, or why there is none."""
    if nodes is None:
        return "It is no group of the streams protocol, so nothing describes a topology."
    if isinstance(nodes, str):
        return f"There is nothing to show: {nodes}."
    rows = [(*each[:3], *(" ".join(names) or NOTHING for names in each[3:])) for each in nodes]
    return columns(NODES, rows) if rows else "The topology has no nodes."


def topology_dicts(nodes: Collection[TopologyNode] | str) -> list[dict[str, Any]] | None:
    """The nodes of a topology for programs; None if it is not known."""
    return None if isinstance(nodes, str) else [each._asdict() for each in nodes]


def _tasks(tasks: ApplicationTasks) -> tuple[str, str, str]:
    active, standby, missing = (" ".join(each) or NOTHING for each in (tasks.active, tasks.standby, tasks.missing))
    return active, standby, missing


def _spots_text(spots: tuple[Spot, ...] | None) -> str:
    if spots is None:
        return "in a protocol of its own"
    topics: dict[str, list[int]] = {}
    for spot in spots:
        topics.setdefault(spot.topic, []).append(spot.partition)
    return " ".join(f"{topic}:{','.join(map(str, indexes))}" for topic, indexes in topics.items()) or "none"


def _or_nothing(number: int | None) -> int | str:
    return NOTHING if number is None else number


def as_dict(
    group: GroupDescription,
    lags: Mapping[Spot, GroupLag],
    metadata: Mapping[Spot, str],
    now_ms: int,
    since_ms: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """A group for programs; ``null`` where a value is unknown."""
    owned = owners(group)
    return {
        "group": group.name,
        "type": group.kind,
        "state": group.state,
        "protocol_type": group.protocol_type,
        "protocol": group.protocol,
        "coordinator": group.coordinator,
        **_application_dict(group),
        "epoch": group.epoch,
        "target_epoch": group.target_epoch,
        "waits_for": [
            {
                "member_id": each.member.member_id,
                "gives_up": _places(each.held),
                "awaited_by": list(each.awaited_by),
                "has_not_asked_for": _places(each.due),
                "since_ms": (since_ms or {}).get(each.member.member_id),
            }
            for each in blockers(group)
        ],
        "members": [
            {
                "member_id": each.member_id,
                "instance_id": each.instance_id,
                "client_id": each.client_id,
                "host": each.host,
                "protocol": each.protocol,
                "epoch": each.epoch,
                "assignment": None if each.assigned is None else _places(each.assigned),
                "target": None if each.target is None else _places(each.target),
                **({} if each.tasks is None else {"tasks": each.tasks._asdict()}),
            }
            for each in group.members
        ],
        "lag": sum(lag.records or 0 for lag in lags.values()),
        "partitions": [
            {
                "topic": spot.topic,
                "partition": spot.partition,
                "committed": lag.committed,
                "metadata": metadata.get(spot),
                "log_end": lag.log_end,
                "lag": lag.records,
                "behind_ms": lag.behind_ms(now_ms),
                "member_id": owned[spot].member_id if spot in owned else None,
            }
            for spot, lag in lags.items()
        ],
    }


def _application_dict(group: GroupDescription) -> dict[str, Any]:
    application = group.application
    if application is None:
        return {}
    return {
        "topology_epoch": application.topology_epoch,
        "source_topics": sorted(application.sources),
        "internal_topics": sorted(application.internal),
    }


def _places(spots: Iterable[Spot]) -> list[dict[str, Any]]:
    return [{"topic": spot.topic, "partition": spot.partition} for spot in spots]


def resets_text(resets: Mapping[str, Iterable[Reset]]) -> str:
    """The plan of a reset, as a table."""
    rows = [
        (group, *each.spot, _or_nothing(each.committed), each.offset, each.note)
        for group, planned in resets.items()
        for each in planned
    ]
    return columns(RESETS, rows)


def resets_list(resets: Mapping[str, Iterable[Reset]]) -> list[dict[str, Any]]:
    """The plan of a reset, for programs."""
    return [
        {
            "group": group,
            "topic": each.spot.topic,
            "partition": each.spot.partition,
            "committed": each.committed,
            "offset": each.offset,
        }
        for group, planned in resets.items()
        for each in planned
    ]
