"""The answers about groups that the node whose contents are known has to give."""

from time import time
from typing import Any

from compared import Each, Like, Within
from known_node import Known

NOW_MS = Within(time() * 1000 - 60_000, time() * 1000 + 3_600_000)
SINCE_S = Within(0, 86_400)
"""The time since the tests were loaded, when the records got their timestamps: long on a busy machine."""


def time_plots(*plots: tuple[str, str, list[str]]) -> dict[str, Any]:
    """Plots of the last ten minutes by title, unit and names of lines, since a node is as old as this test."""
    values = Each((Within(0, 1e6), None), 60)
    return {
        "range": "10min",
        "since_ms": Within(NOW_MS.least - 600_000, NOW_MS.most),
        "until_ms": Within(NOW_MS.least, NOW_MS.most + 10_000),
        "every_s": 10.0,
        "plots": [
            {"title": title, "unit": unit, "lines": [{"name": name, "values": values} for name in lines]}
            for title, unit, lines in plots
        ],
        "events": [
            {"at_ms": NOW_MS, "words": "segment.ms of topic flights changed"},
            {"at_ms": NOW_MS, "words": "node 1 started"},
        ],
        "events_left_out": 0,
    }


def paged(search: str = "", total: int = 1) -> dict[str, Any]:
    return {"search": search, "page": 1, "pages": 1, "total": total}


def groups(_: Known) -> Any:
    shared = {"type": "classic", "catches_up_s": None, "topics": ["flights"], "topics_left_out": 0, "node": 1}
    readers = {
        **shared,
        "id": "readers",
        "state": "Empty",
        "standing": "stuck",
        "verdict": "It has no member: nobody reads the 15 records that are left.",
        "lag": 15,
        "unknown": 0,
        "lag_s": SINCE_S,
        "untimed": 0,
        "trend": Like("|reads nothing"),
        "members": 0,
        "is_here": True,
        "console": None,
    }
    joined = {
        **shared,
        "id": "joined",
        "state": "Stable",
        "standing": Like("has lag|stuck"),
        "verdict": Like(r"watched has flights-0,? and does not fetch it( yet|: it is paused, .*)\."),
        "lag": None,
        "unknown": 1,
        "lag_s": None,
        "untimed": 0,
        "trend": "",
        "members": 1,
        "is_here": True,
        "console": None,
    }
    counts = {"sort": "", "stuck": Within(1, 2), "falling_behind": 0}
    rest = {"readers": [], "readers_left_out": 0, "readers_hidden": False, "unreachable": [], "silent_nodes": []}
    return {**paged(total=2), **counts, "groups": [readers, joined], **rest}


def group_reset(_: Known) -> Any:
    row = {"topic": "flights", "partition": 0, "committed": 5, "offset": 12, "moved": 7, "note": ""}
    return {
        "id": "readers",
        "type": "classic",
        "target": "offset",
        "value": "12",
        "topic": "",
        "partition": "",
        "problem": "",
        "topics": ["flights"],
        "members": 0,
        "rows": [row],
        "plan": "flights,0,12\n",
        "missing": [],
        "may_reset": True,
    }


def group(_: Known) -> Any:
    position = {
        "topic": "flights",
        "partition": 0,
        "committed": 5,
        "commit_ms": NOW_MS,
        "metadata": "",
        "end_offset": 20,
        "stable_offset": 20,
        "lag": 15,
        "lag_s": SINCE_S,
        "member": None,
        "fetched": None,
        "fetched_s": None,
        "start_offset": 0,
    }
    return {
        "id": "readers",
        "type": "offsets only",
        "state": "Empty",
        "protocol": "",
        "generation": None,
        "node": 1,
        "is_here": True,
        "console": None,
        "verdict": "It has no member: nobody reads the 15 records that are left.",
        "verdict_at": None,
        "is_stuck": True,
        "members": [],
        "positions": [position],
        "positions_left_out": 0,
        "committed_topics": ["flights"],
        "shares": [],
        "topology": [],
        "topology_absence": "",
        "topology_left_out": 0,
        "dead_letters": None,
        "lag": 15,
        "unknown": 0,
        "lag_s": SINCE_S,
        "untimed": 0,
        "silent_nodes": [],
        "read_per_s": 0.0,
        "written_per_s": 0.0,
        "falls_behind": False,
        "trend": "reads nothing",
        "may_reset": True,
        "may_delete": True,
        "story": [],
        "unplotted": 0,
        "history": time_plots(("Lag in records", "records", ["records"]), ("Lag in time", "s", ["seconds"])),
    }
