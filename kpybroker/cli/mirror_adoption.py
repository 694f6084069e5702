"""``kpybroker mirror create --adopt``: topics that exist become mirrors, after what only they have was exported."""

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click

from kpybroker.cli.tables import columns, plural, printable
from kpybroker.client import adoption_requests, diverged_records
from kpybroker.client.adoption_requests import AdoptedTopic
from kpybroker.client.client import Client
from kpybroker.machines.mirror.divergence import ExportedPart

CUT_WITHIN_S: Final = 60.0
LOOK_EVERY_S: Final = 0.2
Parts = dict[str, list[ExportedPart]]


def adopt(client: Client, source: Client, topics: Sequence[AdoptedTopic], mirror: str, directory: Path | None) -> None:
    """Make topics mirrors of the source. KafkaError; a repetition goes on."""
    joining = [each for each in topics if each.state is not None and each.exported]
    left = {spot.topic for spot in adoption_requests.uncut(client, _parts_of(joining))} if joining else set()
    done = [each.name for each in joining if each.name not in left]
    if done:
        adoption_requests.have_joined(client, done)
    wanted = [each for each in topics if each.name not in done]
    targets, parts = _exported(client, source, wanted, mirror, directory)
    for group, why in adoption_requests.cut_groups(client, parts):
        click.echo(f"Group {printable(group)} keeps its offsets: {printable(str(why))}", err=True)
    adoption_requests.join(client, parts)
    _wait_until_cut(client, parts)
    adoption_requests.have_joined(client, parts)
    report(targets, parts)


def _parts_of(topics: Sequence[AdoptedTopic]) -> Parts:
    return {each.name: list(each.exported.values()) for each in topics}


def _exported(
    client: Client, source: Client, topics: Sequence[AdoptedTopic], mirror: str, directory: Path | None
) -> tuple[dict[str, str], Parts]:
    """Export what the source lacks of topics that are sealed by this. Return the targets and the parts."""
    fences = adoption_requests.seal(client, topics, mirror)
    parts = adoption_requests.lacking(client, source, topics, fences)
    date = datetime.now(UTC).date().isoformat()
    targets: dict[str, str] = {}
    for each in topics:
        found = parts[each.name]
        before = [each.exported.get(part.partition) for part in found]
        if not found:
            continue
        if each.export and [part and part._replace(records=0) for part in before] == found:
            targets[each.name] = each.export
            parts[each.name] = [part for part in before if part is not None]
            continue
        targets[each.name] = diverged_records.free_name(client, each.name, date, directory)
        adoption_requests.note_export(client, {each.name: targets[each.name]})
        click.echo(f"Topic {each.name}: {plural(_span(found), 'offset')} to export to {targets[each.name]}", err=True)
        try:
            parts[each.name] = diverged_records.export(client, targets[each.name], each.name, found)
        except OSError as error:
            reason = f"{targets[each.name]}: {error.strerror or error}"
            raise click.ClickException(f"{reason}; nothing was cut off, repeat this command") from None
    return targets, parts


def _span(parts: Sequence[ExportedPart]) -> int:
    return sum(each.end_offset - each.first_offset for each in parts)


def _wait_until_cut(client: Client, parts: Parts) -> None:
    deadline_s = time.monotonic() + CUT_WITHIN_S
    while left := adoption_requests.uncut(client, parts):
        if time.monotonic() > deadline_s:
            raise click.ClickException(
                f"{plural(len(left), 'partition')} still with records that were exported after {CUT_WITHIN_S:.0f} s, "
                f"{left[0]} among them: the brokers' logs say why it is not fetched; then repeat this command"
            )
        time.sleep(LOOK_EVERY_S)


def report(targets: Mapping[str, str], parts: Mapping[str, Sequence[ExportedPart]]) -> None:
    """Print the parts that were exported, if there are any."""
    rows = [(topic, *exported_row(each), targets.get(topic, "-")) for topic, found in parts.items() for each in found]
    if rows:
        click.echo(columns(("TOPIC", "PARTITION", "FROM", "TO", "EXPORTED", "TARGET"), rows))


def exported_row(part: ExportedPart) -> tuple[int, int, int, int]:
    """The cells of a part: its partition, its offsets and the number of its records."""
    return part.partition, part.first_offset, part.end_offset, part.records


def exported_json(topic: str, target: str, part: ExportedPart) -> dict[str, Any]:
    """A part for programs."""
    return {
        "topic": topic,
        "partition": part.partition,
        "from": part.first_offset,
        "to": part.end_offset,
        "records": part.records,
        "target": target,
    }
