"""docs/support.md: the APIs and features of Kafka that are served, from the tables that serve them.

A test compares the file with it, and demands that every API of Kafka is served, or is in the table of what is not yet.
"""

from kpybroker.machines.metadata.features import SUPPORTED
from kpybroker.requests.handlers import (
    NOT_YET,
    OF_ZOOKEEPER_MODE,
    NotYet,
    controller_versions,
    home_of,
    served_versions,
)
from kpywire.api import API_KEYS
from release.documents import kips

MISSING = (("Old message formats", "Record batches of version 2 only (Kafka 0.11 and later), as in Kafka 4."),)

_HEAD = """\
# What is supported

Written by `make tables` from the code; edit `release/documents/support.py` or the handlers instead.

ApiVersions advertises exactly what is in this table, so clients know it too. The reference is Apache Kafka 4.4.
"""


def document() -> str:
    """The content of docs/support.md."""
    return "".join([_HEAD, _served(), _missing(), _features(), kips.section()])


def _served() -> str:
    served, on_controller = served_versions(), controller_versions()
    head = "| key | API | versions | of Kafka's | controller listener |\n|---:|---|---|---|---|\n"
    every = {**on_controller, **served}
    lines = [f"\n## APIs served: {len(every)} of {len(API_KEYS) - len(OF_ZOOKEEPER_MODE)}\n\n", head]
    for key, (first, last) in sorted(every.items()):
        api = API_KEYS[key]
        link = f"[{api.name}](../kpybroker/requests/handlers/{home_of(api.module)}.py)"
        both = "" if key not in on_controller else "too" if key in served else "only"
        lines.append(
            f"| {key} | {link} | {_range(first, last)} | {_range(api.min_version, api.max_version)} | {both} |\n"
        )
    lines.append("\nEach handler's file lists the behaviours it keeps and the KIP of each.\n")
    return "".join(lines)


def _missing() -> str:
    apis = {api.module: api.name for api in API_KEYS.values()}
    rows = [f"| {name} | {means} |\n" for name, means in MISSING]
    rows += [f"| {apis[name]}{_newer_than(each)} | {each.reason} |\n" for name, each in NOT_YET.items()]
    return "".join(["\n## What is not there yet\n\n| | what it means today |\n|---|---|\n", *rows])


def _newer_than(each: NotYet) -> str:
    return "" if each.newest is None else f", versions above {each.newest}"


def _features() -> str:
    lines = ["\n## Finalised features\n\nAs in `kafka-features describe`.\n\n| feature | levels here |\n|---|---|\n"]
    lines += [f"| `{name}` | {_range(*levels)} |\n" for name, levels in sorted(SUPPORTED.items())]
    return "".join(lines)


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"
