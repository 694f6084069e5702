"""A commit of which some topics are denied: the coordinator's response may be given again, to anybody, so it stays."""

from copy import deepcopy
from types import SimpleNamespace
from typing import Any

import pytest

from kpybroker.requests.guards import offsets
from kpybroker.requests.guards.verdict import Reduced
from kpybroker.runtime.calls.steps import at_once
from kpywire.error_codes import NONE, TOPIC_AUTHORIZATION_FAILED
from kpywire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)


def test_refusals_are_not_added_to_the_response_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offsets, "may", lambda *_asked: True)
    monkeypatch.setattr(offsets, "denied_topics", lambda *_asked: {"denied"})
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata=None)
    topics = [OffsetCommitRequestTopic(name=name, partitions=[partition]) for name in ("denied", "allowed")]
    call: Any = SimpleNamespace(api_version=9)
    request = OffsetCommitRequest(group_id="g", member_id="", topics=topics)
    examined: Any = offsets.offset_commit(SimpleNamespace(), request, call)  # type: ignore[arg-type]
    verdict = at_once(examined)
    assert isinstance(verdict, Reduced)
    assert verdict.request.topics == topics[1:]
    done = OffsetCommitResponsePartition(partition_index=0, error_code=NONE)
    response = OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="allowed", partitions=[done])])
    before = deepcopy(response)
    for _ in range(2):
        completed = verdict.complete(response)
        assert [(topic.name, topic.partitions[0].error_code) for topic in completed.topics] == [
            ("denied", TOPIC_AUTHORIZATION_FAILED), ("allowed", NONE)
        ]  # fmt: skip
    assert response == before
