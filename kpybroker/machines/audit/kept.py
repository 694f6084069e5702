"""The facts of an audit that the next one extends: a summary, as JSON. Pure.

For each replica it has the windows with their digests and the Merkle root over them, the producers and open
transactions at the beginning of the last window, and what tells cheaply whether an old segment has changed. A later
audit begins at that window. The root covers everything that it believes without reading it again.
"""

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kpybroker.machines.audit import windows
from kpybroker.machines.audit.findings import BytePlace
from kpybroker.machines.audit.stretch import MARKER, Open, ProducerRun, SeenMarker, Stretch
from kpybroker.machines.audit.windows import AuditWindow

VERSION: Final = 1
FORMAT: Final = "kpybroker audit"


class BadSummary(Exception):
    """A file is not a summary, or was changed. The text is one line for people."""


class KeptFacts(NamedTuple):
    """The facts of a replica. ``cut`` is the offset where its last window begins; ``at_cut`` are the facts up to it."""

    topic_id: str
    cut: int
    at_cut: Stretch | None
    whole: Stretch
    end: int
    """The end that was asked for."""
    identities: Mapping[int, tuple[int, ...]]


class Summary(NamedTuple):
    """All that an audit hands on. ``judged`` has the offset up to which each partition of the coordinators' logs was
    compared with markers."""

    deep: bool
    replicas: Mapping[str, KeptFacts]
    judged: Mapping[int, int]

    def roots(self) -> dict[str, str]:
        """The Merkle root of each replica."""
        return {key: windows.root(kept.whole.windows).hex() for key, kept in self.replicas.items()}


def older_markers(stretch: Stretch) -> tuple[SeenMarker, ...]:
    """The last marker of each producer."""
    return tuple({marker.producer_id: marker for marker in stretch.listed_markers()}.values())


def to_json(summary: Summary) -> str:
    """The summary as the text of a file."""
    replicas = {}
    for key, kept in sorted(summary.replicas.items()):
        count = 0 if kept.at_cut is None else len(kept.at_cut.windows)
        replicas[key] = {
            "topic_id": kept.topic_id,
            "root": windows.root(kept.whole.windows).hex(),
            "end": kept.end,
            "cut": kept.cut,
            "windows": [[*window[:5], window.digest.hex()] for window in kept.whole.windows],
            "windows_before_cut": count,
            "at_cut": None if kept.at_cut is None else _facts(kept.at_cut),
            "whole": _facts(kept.whole),
            "segments": {str(base): list(identity) for base, identity in kept.identities.items()},
        }
    document = {
        "format": FORMAT,
        "version": VERSION,
        "deep": summary.deep,
        "judged": {str(partition): offset for partition, offset in summary.judged.items()},
        "replicas": replicas,
    }
    return json.dumps(document, separators=(",", ":"))


def from_json(text: str) -> Summary:
    """The summary in the text of a file. Raises BadSummary."""
    try:
        document = json.loads(text)
        if document.get("format") != FORMAT or document.get("version") != VERSION:
            raise BadSummary("is no summary of kpybroker audit, or one of another version")
        replicas = {key: _kept(each) for key, each in document["replicas"].items()}
        judged = {int(partition): int(offset) for partition, offset in document["judged"].items()}
        summary = Summary(bool(document["deep"]), replicas, judged)
        wrong = [key for key, root in summary.roots().items() if root != document["replicas"][key]["root"]]
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise BadSummary(f"is no summary of kpybroker audit: {error}") from None
    if wrong:
        raise BadSummary(f"was changed: the windows of {wrong[0]} do not have the root that it names")
    return summary


def _facts(stretch: Stretch) -> dict[str, Any]:
    return {
        "start": stretch.start,
        "next_offset": stretch.next_offset,
        "size_bytes": stretch.size_bytes,
        "batches": stretch.batches,
        "records": stretch.records,
        "missing": stretch.missing,
        "missing_to": stretch.missing_to,
        "epochs": stretch.epochs,
        "producers": [[pid, *run[:3], run.behind_gap, *run[5:]] for pid, run in stretch.runs.items()],
        "open": [[pid, *each] for pid, each in stretch.open.items()],
        "committed": stretch.committed,
        "markers": [list(marker) for marker in older_markers(stretch)],
        "last_gap": stretch.last_gap,
        "first_timestamp": stretch.first_timestamp,
        "max_timestamp": stretch.max_timestamp,
    }


def _kept(fields: Mapping[str, Any]) -> KeptFacts:
    all_windows = tuple(
        AuditWindow(int(number), int(base), int(following), int(batches), int(records), bytes.fromhex(digest))
        for number, base, following, batches, records, digest in fields["windows"]
    )
    count = int(fields["windows_before_cut"])
    at_cut = fields["at_cut"]
    return KeptFacts(
        str(fields["topic_id"]),
        int(fields["cut"]),
        None if at_cut is None else _stretch(at_cut, all_windows[:count]),
        _stretch(fields["whole"], all_windows),
        int(fields["end"]),
        {int(base): tuple(map(int, identity)) for base, identity in fields["segments"].items()},
    )


def _stretch(fields: Mapping[str, Any], its_windows: tuple[AuditWindow, ...]) -> Stretch:
    return Stretch(
        start=int(fields["start"]),
        next_offset=int(fields["next_offset"]),
        size_bytes=int(fields["size_bytes"]),
        batches=int(fields["batches"]),
        records=int(fields["records"]),
        windows=its_windows,
        missing=int(fields["missing"]),
        missing_to=int(fields["missing_to"]),
        epochs=tuple((int(epoch), int(first), int(last)) for epoch, first, last in fields["epochs"]),
        runs={
            int(each[0]): ProducerRun(each[1], each[2], each[3], BytePlace(), *each[4:]) for each in fields["producers"]
        },
        open={int(each[0]): Open(*each[1:]) for each in fields["open"]},
        committed=int(fields["committed"]),
        markers=b"".join(MARKER.pack(*each) for each in fields["markers"]),
        last_gap=int(fields["last_gap"]),
        first_timestamp=int(fields["first_timestamp"]),
        max_timestamp=int(fields["max_timestamp"]),
    )
