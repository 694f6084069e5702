"""The topics that a request names, and a request without some of them, so that a fault can be limited to one topic.

Invariant: the part taken out of a request and the rest of it together ask for the same as the request.
"""

from collections.abc import Callable, Iterable
from copy import copy
from typing import Any

from kpywire.codec import EncodedStructs, encode_struct

TOPIC_RESOURCE = 2
"""The resource type of a topic in the APIs of configs."""
_FORGOTTEN = "forgotten_topics_data"

Wanted = Callable[[str | bytes], bool]
"""Whether a topic, given by its name or its id, is selected."""


def names_a_topic(entry: Any, wanted: Wanted) -> bool:
    """Whether an entry of a request is about a selected topic, or contains one."""
    if isinstance(entry, str):
        return wanted(entry)
    fields = getattr(type(entry), "FIELDS", {})
    if "resource_name" in fields:
        return entry.resource_type == TOPIC_RESOURCE and wanted(entry.resource_name)
    named = [getattr(entry, name) for name in ("name", "topic", "topic_id") if name in fields]
    if any(one and wanted(one) for one in named):
        return True
    return "topics" in fields and any(names_a_topic(one, wanted) for one in entry.topics or ())


def split(request: Any, wanted: Wanted) -> tuple[Any, Any]:
    """``request`` with the selected topics only, and with the others only; None in place of an empty one."""
    chosen, rest = copy(request), copy(request)
    found = left = False
    for name, entries in _topic_lists(request):
        meant = [entry for entry in entries if names_a_topic(entry, wanted)]
        others = [entry for entry in entries if not names_a_topic(entry, wanted)]
        setattr(chosen, name, meant)
        setattr(rest, name, others)
        found, left = found or bool(meant), left or bool(others)
    return chosen if found else None, rest if left or not found else None


def merged(answer: Any, failed: Any, api_version: int) -> Any:
    """The answer to the rest of a request, with the entries for the part that was taken out."""
    for name in type(answer).FIELDS:
        more = getattr(failed, name)
        if not isinstance(more, list) or not more:
            continue
        there = getattr(answer, name) or []
        if type(there) is EncodedStructs:
            more = [encode_struct(entry, type(answer), api_version) for entry in more]
        setattr(answer, name, type(there)([*there, *more]))
    return answer


def _topic_lists(request: Any) -> Iterable[tuple[str, list[Any]]]:
    for name in type(request).FIELDS:
        entries = getattr(request, name)
        if isinstance(entries, list) and entries and name != _FORGOTTEN and _may_name_topics(name, entries[0]):
            yield name, entries


def _may_name_topics(name: str, entry: Any) -> bool:
    if isinstance(entry, str):
        return name == "topic_names"
    fields = getattr(type(entry), "FIELDS", {})
    return "topic" in name or "resource_name" in fields or "topics" in fields
