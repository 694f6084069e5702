"""The diary that a program writes while it runs, line by line, so that a kill loses nothing; and the history of all.

A line is an object of JSON with ``event`` and what belongs to it; a program in any language can keep a diary. Times are
seconds of the machine's monotonic clock, which all processes share.

    {"event": "begin", "s": 1.0}
    {"event": "input", "partition": ["in", 0], "offset": 5, "value": "x"}
    {"event": "send", "partition": ["out", 1], "value": "y"}         before it is sent
    {"event": "sent", "value": "y", "offset": 7}                     when it is acknowledged
    {"event": "position", "group": "g", "partition": ["in", 0], "offset": 6}
    {"event": "ending", "s": 1.1}                                    before the end is asked for
    {"event": "end", "s": 1.2, "outcome": "committed"}               or aborted, or unknown
    {"event": "poll", "session": "r", "s": 2.0, "seen": [[["out", 1], 7, "y"]]}
    {"event": "committed", "began_s": 2.0, "s": 2.1, "group": "g", "partition": ["in", 0], "offset": 6}
    {"event": "idle", "s": 3.0}                                      there was nothing to work on
    {"event": "trouble", "s": 3.0, "what": "..."}
"""

import json
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from exactly_once.history import Committed, Outcome, Partition, Poll, Position, Seen, Send, Transaction


class Diary:
    """Writes. One program, one thread, one file, which is only appended to."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)

    def note(self, event: str, **facts: Any) -> None:
        """One line, which is with the system when this returns; with the time if no other is given."""
        self._file.write(json.dumps({"event": event, "s": time.monotonic(), **facts}).encode() + b"\n")


def lines_of(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a diary; one that a kill has cut off is not one."""
    for line in path.read_bytes().splitlines(keepends=True):
        if line.endswith(b"\n"):
            yield json.loads(line)


def transactions_of(process: str, lines: Iterable[dict[str, Any]]) -> list[Transaction]:
    """In order. One that another begin follows, or nothing, has an unknown outcome."""
    found: list[Transaction] = []
    current: list[dict[str, Any]] = []
    for line in lines:
        if line["event"] == "begin":
            if current:
                found.append(_transaction(process, current))
            current = [line]
        elif current:
            current.append(line)
            if line["event"] == "end":
                found.append(_transaction(process, current))
                current = []
    if current:
        found.append(_transaction(process, current))
    return found


def _transaction(process: str, lines: list[dict[str, Any]]) -> Transaction:
    by_event: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        by_event.setdefault(line["event"], []).append(line)
    offsets = {line["value"]: line["offset"] for line in by_event.get("sent", ())}
    end = by_event.get("end", [{}])[0]
    ending_s = by_event.get("ending", lines[-1:])[0]["s"]
    return Transaction(
        process,
        lines[0]["s"],
        ending_s,
        # Nobody told when an end took effect that nobody has answered.
        end.get("s", float("inf")) if end.get("outcome") != Outcome.UNKNOWN.value else float("inf"),
        Outcome(end.get("outcome", Outcome.UNKNOWN.value)),
        [Send(_partition(line), line["value"], offsets.get(line["value"])) for line in by_event.get("send", ())],
        [Seen(_partition(line), line["offset"], line["value"]) for line in by_event.get("input", ())],
        [Position(line["group"], _partition(line), line["offset"]) for line in by_event.get("position", ())],
    )


def polls_of(lines: Iterable[dict[str, Any]]) -> list[Poll]:
    """The polls of a reader."""
    return [
        Poll(
            line["session"],
            line["s"],
            [Seen((place[0], place[1]), offset, value) for place, offset, value in line["seen"]],
        )
        for line in lines
        if line["event"] == "poll"
    ]


def committed_of(lines: Iterable[dict[str, Any]]) -> list[Committed]:
    """The committed positions that a watcher asked for."""
    return [
        Committed(line["began_s"], line["s"], Position(line["group"], _partition(line), line["offset"]))
        for line in lines
        if line["event"] == "committed"
    ]


def _partition(line: dict[str, Any]) -> Partition:
    topic, index = line["partition"]
    return topic, index
