"""Paths of the APIs of share groups (KIP-932): see `error_paths`."""

from collections.abc import Iterator, Mapping
from typing import Any

from differential.steps import learned
from differential.world import call
from kpywire import api
from kpywire.messages.share_group_describe import ShareGroupDescribeRequest
from support.raw_requests import UNKNOWN_ID
from support.share_group_requests import acknowledging, acquiring, altering, deleting, describing, sharing

T0 = learned("topic_id", "~t0")


def _heartbeat(_version: int) -> Iterator[Any]:
    of = "~shares"
    yield from (sharing("", "m", 0, ["~t0"]), sharing(of, "", 0, ["~t0"]), sharing(of, "m" * 37, 0, ["~t0"]))
    yield from (sharing(of, "m", 0), sharing(of, "m", 0, []), sharing(of, "m", -2))
    yield sharing(of, "m", 0, ["~t0"], rack_id="")
    yield from (sharing(of, "m", 1), sharing(of, "m", -1))
    yield sharing(of, "m", 0, ["~nowhere"])
    yield from (sharing(of, "m", 2), sharing(of, "m", 9), sharing(of, "n", 2))
    yield from (sharing(of, "m", -1), sharing(of, "m", -1))


def _describe(_version: int) -> Iterator[Any]:
    yield call("m", 1, sharing("~described", "m", 0, ["~nowhere"]))
    groups = ["~described", "~nobody", ""]
    yield ShareGroupDescribeRequest(group_ids=groups, include_authorized_operations=False)
    yield ShareGroupDescribeRequest(group_ids=groups[:1], include_authorized_operations=True)


def _fetch(version: int) -> Iterator[Any]:
    of = f"~fetching{version}"
    yield from (acquiring(of, "", 0), acquiring(of, "m" * 37, 0), acquiring(of, "m", 1), acquiring(of, "m", -1))
    yield acquiring(of, "m", 0, T0, batches=[(0, 0, [1])])
    yield from (acquiring(of, "m", 0, T0), acquiring(of, "m", 2), acquiring(of, "m", 1))
    yield from (acquiring(of, "m", 2, T0, batches=[(0, 0, [1])]), acquiring(of, "m", -1))
    if version >= 2:
        yield acquiring(of, "m", 0, is_renew_ack=True)


def _acknowledge(version: int) -> Iterator[Any]:
    of = f"~acknowledging{version}"
    yield from (acknowledging(of, "", 1, T0), acknowledging(of, "m", 0, T0), acknowledging(of, "m", 1, T0))
    yield call("e", version, acquiring(of, "m", 0, T0))
    yield acknowledging(of, "m", 9, T0, (0, 0, [1]))
    wrong: list[tuple[int, int, list[int]]] = [(1, 0, [1]), (0, 1, []), (0, 2, [1, 1])]
    wrong += [(0, 0, [each]) for each in (5, -1, 4)]
    for epoch, batch in enumerate(wrong, 1):
        yield acknowledging(of, "m", epoch, T0, batch)
    yield acknowledging(of, "m", 7, T0, (5, 6, [1]), (0, 1, [1]))
    yield from (acknowledging(of, "m", 8, UNKNOWN_ID, (0, 0, [1])), acknowledging(of, "m", 9, T0))
    yield from (acknowledging(of, "m", -1, T0), acknowledging(of, "m", -1, T0))


def _describe_offsets(_version: int) -> Iterator[Any]:
    yield from (describing("~nobody", "~t0"), describing("~nobody", "~nowhere"), describing("~nobody"))
    yield describing("~nobody", everything=True)


def _alter_offsets(_version: int) -> Iterator[Any]:
    yield call("m", 1, sharing("~altered", "m", 0, ["~nowhere"]))
    yield from (altering("~altered", "~t0"), altering("", "~t0"))
    yield call("m", 1, sharing("~altered", "m", -1))
    yield altering("~altered", "~nowhere")


def _delete_offsets(_version: int) -> Iterator[Any]:
    yield from (deleting("", "~t0"), deleting("~nobody", "~t0"))
    yield call("m", 1, sharing("~deleted", "m", 0, ["~nowhere"]))
    yield deleting("~deleted", "~t0")


PATHS: Mapping[int, Any] = {
    api.SHARE_GROUP_HEARTBEAT: _heartbeat,
    api.SHARE_GROUP_DESCRIBE: _describe,
    api.SHARE_FETCH: _fetch,
    api.SHARE_ACKNOWLEDGE: _acknowledge,
    api.DESCRIBE_SHARE_GROUP_OFFSETS: _describe_offsets,
    api.ALTER_SHARE_GROUP_OFFSETS: _alter_offsets,
    api.DELETE_SHARE_GROUP_OFFSETS: _delete_offsets,
}
"""By api key; see `error_paths.Paths`."""
