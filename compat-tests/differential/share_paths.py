"""Paths of the APIs of share partitions' states: see `error_paths`."""

from collections.abc import Iterator, Mapping
from typing import Any

from differential.steps import learned
from differential.world import call
from kpywire import api
from kpywire.messages.find_coordinator import FindCoordinatorRequest
from kpywire.uuid import to_string
from support.share_requests import SOME_ID, deleting_state, initializing, reading_state, summarizing, writing_state

TOPIC = learned("topic_id", "~t0")
WITHOUT_STATE = 1
"""A partition that is not in the topic."""


def _begun() -> Iterator[Any]:
    """The topic of states exists, and the state of a share partition with leader epoch 5 and state epoch 3."""
    yield call("e", 6, FindCoordinatorRequest(key_type=2, coordinator_keys=[f"~g:{to_string(SOME_ID)}:0"]))
    yield call("e", 0, initializing(TOPIC, group_id="~g", epoch=3))
    yield call("e", 0, reading_state(TOPIC, group_id="~g", leader_epoch=5))


def _initialize(_version: int) -> Iterator[Any]:
    yield from _begun()
    for epoch in (2, -1, 4):
        yield initializing(TOPIC, group_id="~g", epoch=epoch, start=epoch)
    yield from (initializing(TOPIC, WITHOUT_STATE, group_id="~g"), initializing(TOPIC, -1, group_id="~g"))
    yield from (initializing(SOME_ID, group_id="~g"), initializing(TOPIC, group_id=""))


def _read(_version: int) -> Iterator[Any]:
    yield from _begun()
    yield call("e", 0, writing_state(TOPIC, group_id="~g", epoch=3, leader_epoch=5))
    for epoch in (4, 5, -1, 6, 5):
        yield reading_state(TOPIC, group_id="~g", leader_epoch=epoch)
    yield from (reading_state(TOPIC, WITHOUT_STATE, group_id="~g"), reading_state(TOPIC, -1, group_id="~g"))
    yield from (reading_state(SOME_ID, group_id="~g"), reading_state(TOPIC, group_id=""))


def _write(_version: int) -> Iterator[Any]:
    yield from _begun()
    for epoch, leader_epoch, start in ((3, 5, -1), (2, 5, -1), (3, 4, -1), (-1, -1, 3), (4, 6, 5)):
        yield writing_state(TOPIC, group_id="~g", epoch=epoch, leader_epoch=leader_epoch, start=start)
        yield call("e", 0, reading_state(TOPIC, group_id="~g", leader_epoch=-1))
    yield from (writing_state(TOPIC, WITHOUT_STATE, group_id="~g"), writing_state(TOPIC, -1, group_id="~g"))
    yield from (writing_state(SOME_ID, group_id="~g"), writing_state(TOPIC, group_id=""))


def _delete(_version: int) -> Iterator[Any]:
    yield from _begun()
    yield deleting_state(TOPIC, group_id="~g")
    yield from (call("e", 0, reading_state(TOPIC, group_id="~g")), deleting_state(TOPIC, group_id="~g"))
    yield from (deleting_state(TOPIC, WITHOUT_STATE, group_id="~g"), deleting_state(TOPIC, -1, group_id="~g"))
    yield from (deleting_state(SOME_ID, group_id="~g"), deleting_state(TOPIC, group_id=""))


def _summary(_version: int) -> Iterator[Any]:
    yield from _begun()
    yield from (summarizing(TOPIC, group_id="~g"), summarizing(TOPIC, group_id="~other"))
    yield from (summarizing(TOPIC, WITHOUT_STATE, group_id="~g"), summarizing(TOPIC, -1, group_id="~g"))
    yield from (summarizing(SOME_ID, group_id="~g"), summarizing(TOPIC, group_id=""))


PATHS: Mapping[int, Any] = {
    api.INITIALIZE_SHARE_GROUP_STATE: _initialize,
    api.READ_SHARE_GROUP_STATE: _read,
    api.WRITE_SHARE_GROUP_STATE: _write,
    api.DELETE_SHARE_GROUP_STATE: _delete,
    api.READ_SHARE_GROUP_STATE_SUMMARY: _summary,
}
"""By api key; see `error_paths.Paths`."""
