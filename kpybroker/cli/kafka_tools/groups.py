"""kafka-consumer-groups: lists, describes and deletes groups, and resets or deletes their offsets."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import click

from kpybroker.cli.group_resets import log_ranges, target_of
from kpybroker.cli.kafka_tools.options import Found, ToolOptions, ToolRefusal, cluster_of, text_of
from kpybroker.cli.partition_arguments import partitions_of
from kpybroker.client import group_requests, resets
from kpybroker.client.client import Client, Spot
from kpybroker.client.group_listing import list_groups
from kpybroker.client.group_requests import GroupDescription
from kpybroker.client.lag import log_ends
from kpybroker.client.resets import Reset
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.lag import kafkas_lag
from kpywire import error_codes

NAME: Final = "kafka-consumer-groups"
ACTIONS: Final = ("list", "describe", "delete", "reset-offsets", "delete-offsets")
VIEWS: Final = ("members", "offsets")
TARGETS: Final = ("to-earliest", "to-latest", "to-current", "to-offset", "shift-by", "to-datetime", "by-duration")
NAMED: Final = ("group", "all-groups")
ALLOWED: Final[Mapping[str, Sequence[str]]] = {
    "list": ("state", "type"),
    "describe": (*NAMED, *VIEWS, "state", "verbose"),
    "delete": NAMED,
    "reset-offsets": (*NAMED, "topic", "all-topics", "execute", "dry-run", "export", "from-file", *TARGETS),
    "delete-offsets": ("group", "topic"),
}
FAILED: Final = "\nError: Executing consumer group command failed due to "
OF_CONSUMERS: Final = ("", "classic", "consumer")
KINDS: Final = ("Consumer", "Classic")
STATES: Final = (
    "CompletingRebalance",
    "PreparingRebalance",
    "Dead",
    "Empty",
    "Reconciling",
    "Assigning",
    "Stable",
)
NOTHING: Final = "-"
UNDECIDED: Final = (
    "WARN: No action will be performed as the --execute option is missing. Add --dry-run to say that this is meant."
)


def options_of() -> ToolOptions:
    """The options of the tool."""
    options = ToolOptions(
        NAME, "List all consumer groups, describe them, delete them, or reset or delete their offsets."
    )
    options.of_cluster()
    flags = ("all-groups", "all-topics", "execute", "dry-run", "export", "verbose", *VIEWS, *TARGETS[:3])
    options.flags(*ACTIONS, *flags)
    options.lists("group", "topic")
    options.texts("to-datetime", "by-duration", "from-file")
    options.numbers("to-offset", "shift-by", "timeout")
    for name in ("state", "type"):
        options.add_argument(f"--{name}", nargs="?", const="")
    return options


def run(options: ToolOptions, found: Found) -> None:
    """Run the tool. Raises Refusal. As for Kafka's tool, an error of the cluster is printed and the exit code is 0."""
    action = options.one_of(found, *ACTIONS)
    options.only_with(found, action, ALLOWED[action], {name for names in ALLOWED.values() for name in names})
    _check(options, found, action)
    try:
        with cluster_of(found, found.timeout) as client:
            _ACTIONS[action](client, found)
    except (KafkaError, ValueError) as error:
        name = f"{error_codes.name(error.code)}: " if isinstance(error, KafkaError) else ""
        print(f"{FAILED}{name}{text_of(error)}")


def _check(options: ToolOptions, found: Found, action: str) -> None:
    if action != "list" and bool(found.group) == found.all_groups:
        options.error(f"option {action} takes one of these options: all-groups, group")
    if action == "delete-offsets":
        options.require(found, "topic")
    if action == "describe" and found.state is not None and (found.state or found.members or found.offsets):
        options.error("with describe, state takes no value, and one of members, offsets and state can be used")
    if action == "describe" and found.members and found.offsets:
        options.error("only one of members, offsets and state can be used")
    if action != "reset-offsets":
        return
    if not found.execute and not found.dry_run:
        _say(UNDECIDED)
    if found.execute and found.dry_run:
        options.error("only one of execute and dry-run can be used")
    given = sum(value is not None and value is not False for value in _targets(found).values())
    if given + (found.from_file is not None) != 1:
        options.error(f"option reset-offsets takes one of these options: {', '.join(TARGETS)}, from-file")
    if found.from_file is None and bool(found.topic) == found.all_topics:
        options.error("one of the reset scopes should be defined: --all-topics, --topic")


def _targets(found: Found) -> dict[str, object]:
    names = [each.replace("-", "_") for each in TARGETS]
    return {name: getattr(found, name) for name in names}


def _list(client: Client, found: Found) -> None:
    states = {each.strip().lower() for each in (found.state or "").split(",") if each.strip()}
    types = {each.strip().lower() for each in (found.type or "").split(",") if each.strip()}
    for what, given, known in (("state", states, STATES), ("types", types, KINDS)):
        if unknown := given - {each.lower() for each in known}:
            names = ", ".join(known)
            raise ToolRefusal(f"Invalid {what} list '{', '.join(sorted(unknown))}'. Valid {what} are: {names}")
    rows = []
    for group in list_groups(client):
        kind = group.group_type.lower()
        if kind not in OF_CONSUMERS or (states and group.group_state.lower() not in states):
            continue
        if not types or kind in types:
            rows.append((group.group_id, group.group_type.capitalize(), group.group_state))
    if found.state is None and found.type is None:
        for name, _, _ in rows:
            print(name)
        return
    widths = (max([15, *(len(name) for name, _, _ in rows)]) + 10, 20, 20)
    shown = (0, *((1,) if found.type is not None else ()), *((2,) if found.state is not None else ()))
    for row in (("GROUP", "TYPE", "STATE"), *rows):
        print(" ".join(f"{row[at]:<{widths[at]}}" for at in shown))


def _wanted(client: Client, found: Found) -> list[str]:
    if not found.all_groups:
        return list(dict.fromkeys(found.group))
    return [each.group_id for each in list_groups(client) if each.group_type.lower() in OF_CONSUMERS]


def _describe(client: Client, found: Found) -> None:
    for name in _wanted(client, found):
        group = group_requests.describe(client, name)
        if group.state == group_requests.EMPTY:
            _say(f"\nConsumer group '{name}' has no active members.")
        elif group.state != "Stable" and group.state != group_requests.DEAD:
            _say(f"\nWarning: Consumer group '{name}' is rebalancing.")
        if found.state is not None:
            _print_state(client, group, verbose=found.verbose)
        elif found.members:
            _print_members(group, verbose=found.verbose)
        else:
            _print_offsets(client, group, verbose=found.verbose)


def _say(text: str) -> None:
    click.echo(text, err=True)


def _print_state(client: Client, group: GroupDescription, *, verbose: bool) -> None:
    node = next((each for each in client.nodes() if each.node_id == group.coordinator), None)
    coordinator = NOTHING if node is None else f"{node.host}:{node.port}  ({node.node_id})"
    epochs = [NOTHING if each is None else each for each in (group.epoch, group.target_epoch)] if verbose else []
    heads = ["GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH"] if verbose else []
    row = (group.name, coordinator, group.protocol or NOTHING, group.state, *epochs, len(group.members))
    heads = ["GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", *heads, "#MEMBERS"]
    _print(heads, [row], (15, 25, 20, 20, *(15 for _ in epochs), 15))


def _print_members(group: GroupDescription, *, verbose: bool) -> None:
    with_instances = any(each.instance_id for each in group.members)
    heads = ["GROUP", "CONSUMER-ID", *(["GROUP-INSTANCE-ID"] if with_instances else []), "HOST", "CLIENT-ID"]
    heads.append("#PARTITIONS")
    heads += ["CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT"] if verbose else []
    rows = []
    for each in group.members:
        row: list[object] = [group.name, each.member_id]
        row += [each.instance_id or NOTHING] if with_instances else []
        row += [each.host, each.client_id, len(each.assigned or ())]
        if verbose:
            row += [NOTHING if each.epoch is None else each.epoch, _assignment(each.assigned)]
            row += [NOTHING if group.target_epoch is None else group.target_epoch, _assignment(each.target)]
        rows.append(row)
    _print(heads, rows, (15,) * len(heads))


def _assignment(spots: Iterable[Spot] | None) -> str:
    by_topic: dict[str, list[int]] = {}
    for spot in sorted(spots or ()):
        by_topic.setdefault(spot.topic, []).append(spot.partition)
    return ";".join(f"{topic}:{','.join(map(str, each))}" for topic, each in by_topic.items()) or NOTHING


def _print_offsets(client: Client, group: GroupDescription, *, verbose: bool) -> None:
    commits = group_requests.committed(client, group.name)
    owners = {spot: member for member in group.members for spot in member.assigned or ()}
    spots = sorted(set(commits) | set(owners))
    ends = log_ends(client, spots)
    heads = ["GROUP", "TOPIC", "PARTITION", *(["LEADER-EPOCH"] if verbose else []), "CURRENT-OFFSET"]
    heads += ["LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST", "CLIENT-ID"]
    rows = []
    for spot in spots:
        commit, owner, end = commits.get(spot), owners.get(spot), ends.get(spot)
        row: list[object] = [group.name, spot.topic, spot.partition]
        row += [NOTHING if commit is None or commit.leader_epoch < 0 else commit.leader_epoch] if verbose else []
        row += [NOTHING if commit is None else commit.offset, NOTHING if end is None else end]
        row.append(NOTHING if commit is None or end is None else kafkas_lag(end, commit.offset))
        row += [NOTHING] * 3 if owner is None else [owner.member_id, owner.host, owner.client_id]
        rows.append(row)
    if rows:
        _print(heads, rows, tuple(10 if each == "PARTITION" else 15 for each in heads))


def _print(heads: Sequence[str], rows: Iterable[Sequence[object]], widths: Sequence[int]) -> None:
    """Print a table as Kafka's tool does: an empty line, and columns that are at least so wide."""
    table = [[str(cell) for cell in row] for row in (heads, *rows)]
    wide = [max(width, *(len(row[at]) for row in table)) for at, width in enumerate(widths)]
    wide = [
        width if len(table) > 1 else max(len(head), least)
        for head, width, least in zip(heads, wide, widths, strict=True)
    ]
    print()
    for row in table:
        print(" ".join(f"{cell:<{width}}" for cell, width in zip(row, wide, strict=True)))


def _reset(client: Client, found: Found) -> None:
    planned = {name: _plan(client, name, found) for name in _wanted(client, found)}
    for name, plan in planned.items():
        state = _state(client, name)
        if state not in (group_requests.EMPTY, group_requests.DEAD):
            why = f"the group '{name}' is inactive, but the current state is {state}"
            print(f"\nError: Assignments can only be reset if {why}.")
            planned[name] = []
        elif found.execute and plan:
            group_requests.commit(client, name, {each.spot: each.offset for each in plan})
    if found.export:
        print(resets.render_csv(planned), end="")
        return
    rows = [(name, *each.spot, each.offset) for name, plan in planned.items() for each in plan]
    _print(("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"), rows, (15, 15, 10, 15))


def _state(client: Client, name: str) -> str:
    try:
        return group_requests.describe(client, name).state
    except KafkaError as error:
        if error.code == error_codes.GROUP_ID_NOT_FOUND:
            return group_requests.DEAD
        raise


def _plan(client: Client, name: str, found: Found) -> list[Reset]:
    try:
        committed = {spot: each.offset for spot, each in group_requests.committed(client, name).items()}
    except KafkaError as error:
        if error.code != error_codes.GROUP_ID_NOT_FOUND:
            raise
        committed = {}
    if found.from_file is not None:
        try:
            text = Path(found.from_file).read_text()
        except OSError as error:
            raise ToolRefusal(f"{found.from_file}: {error.strerror}") from None
        plan = resets.parse_csv(text, found.group)[name]
        return resets.to_plan(plan, committed, log_ranges(client, plan))
    spots = list(committed) if found.all_topics else partitions_of(client, map(resets.parse_spots, found.topic))
    chosen = _targets(found)
    for option, read in (("to_datetime", resets.parse_datetime_ms), ("by_duration", resets.parse_duration_ms)):
        if chosen[option] is not None:
            chosen[option] = read(str(chosen[option]))
    return target_of(chosen)(client, committed, log_ranges(client, spots)) if spots else []


def _delete(client: Client, found: Found) -> None:
    failed: dict[str, KafkaError] = {}
    names = _wanted(client, found)
    for name in names:
        try:
            group_requests.delete(client, name)
        except KafkaError as error:
            failed[name] = error
    deleted = ", ".join(f"'{name}'" for name in names if name not in failed)
    if not failed:
        print(f"Deletion of requested consumer groups ({deleted}) was successful.")
        return
    print("\nError: Deletion of some consumer groups failed:")
    for name, why in failed.items():
        print(f"* Group '{name}' could not be deleted due to: {why}")
    if deleted:
        print(f"\nThese consumer groups were deleted successfully: {deleted}")


def _delete_offsets(client: Client, found: Found) -> None:
    (name,) = dict.fromkeys(found.group)
    spots = partitions_of(client, map(resets.parse_spots, found.topic))
    try:
        results = group_requests.delete_offsets(client, name, spots)
    except KafkaError as error:
        print(f"\nError: {text_of(error)}")
        results = dict.fromkeys(spots, error.code)
    else:
        if any(results.values()):
            print("\nError: Encounter some partition level error, see the follow-up details:")
        else:
            print(f"Request succeeded for deleting offsets from group {name}.")
    rows = [
        (*spot, f"Error: {error_codes.name(code)}" if code else "Successful") for spot, code in sorted(results.items())
    ]
    _print(("TOPIC", "PARTITION", "STATUS"), rows, (15, 10, 15))


_ACTIONS: Final[Mapping[str, Callable[[Client, Found], None]]] = {
    "list": _list,
    "describe": _describe,
    "delete": _delete,
    "reset-offsets": _reset,
    "delete-offsets": _delete_offsets,
}
