"""Work on all elements of a large message before and after it is served: in steps, and completely."""

from collections.abc import Generator
from functools import partial
from typing import Any

import pytest

from kpybroker.machines.answered_errors import errors_in, errors_in_steps
from kpybroker.requests.dispatching import forgetting
from kpybroker.requests.dispatching.forgetting import FEW_ELEMENTS, forgotten, is_long
from kpybroker.runtime.calls.pending import Pending
from kpybroker.runtime.calls.steps import all_there, asked_once
from kpywire.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)


def response(topics: int, partitions: int) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=str(number),
                partitions=[
                    OffsetCommitResponsePartition(partition_index=index, error_code=index % 3)
                    for index in range(partitions)
                ],
            )
            for number in range(topics)
        ]
    )


def steps_of(work: Generator[None, None, Any]) -> int:
    """The number of times that a work yields."""
    return sum(1 for _ in work)


def test_a_message_is_freed_in_steps_and_what_others_hold_stays() -> None:
    message = response(200, 2 * FEW_ELEMENTS)
    kept = message.topics[7]
    messages = [message]
    topics = message.topics[:100]
    del message
    assert steps_of(forgotten(messages)) > 200 // forgetting.STEP_ELEMENTS
    assert messages == []
    assert len(topics) == 100
    assert len(kept.partitions) == 2 * FEW_ELEMENTS


def test_a_long_array_within_a_short_one_is_freed_in_steps() -> None:
    assert steps_of(forgotten([response(1, 100 * forgetting.STEP_ELEMENTS)])) >= 100


def test_long_messages_are_known_by_all_their_elements() -> None:
    assert not is_long(response(5, 5))
    assert is_long(response(forgetting.STEP_ELEMENTS + 1, 0))
    assert is_long(response(1, forgetting.STEP_ELEMENTS))


def test_the_same_errors_are_found_in_steps() -> None:
    for answer in (response(0, 0), response(30, 30), response(1, 1000)):
        at_once_codes: list[int] = []
        find = errors_in(OffsetCommitResponse)
        assert find is not None
        find(answer, at_once_codes)
        codes: list[int] = []
        steps = steps_of(errors_in_steps(answer, codes.append))
        assert codes == at_once_codes
        assert steps >= len(codes) // 200


def test_an_element_that_is_named_twice_is_asked_for_once_and_answered_twice() -> None:
    asked: list[str] = []
    late = Pending()

    def ask(name: str) -> Any:
        asked.append(name)
        return late if name == "b" else name.upper()

    work = asked_once(["a", "b", "a", "b", "b"], ask, list)
    assert next(each for each in work if each is not None) is late
    assert asked == ["a", "b"]
    with pytest.raises(StopIteration) as end:
        work.send("B")
    assert end.value.value == ["A", "B", "A", "B", "B"]


def test_work_that_is_given_up_waits_for_nothing_more() -> None:
    forgotten_answers: list[str] = []
    answers = [Pending() for _ in range(3)]
    for name, answer in zip("abc", answers, strict=True):
        answer.when_cancelled(partial(forgotten_answers.append, name))
    work = all_there(list(answers))
    assert next(work) is answers[0]
    work.close()
    assert forgotten_answers == ["b", "c"], "the first one is cancelled by what waits for it"
