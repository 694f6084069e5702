"""This node's requests to others: one at a time for each node, in turn where any will do, less often after failures."""

from kpybroker.machines.raft.conversations import MOST_BACKOFF_MS, QUICK_RETRIES, Conversations
from kpybroker.machines.raft.events import Answer, Send
from kpybroker.machines.raft.messages import EndQuorumEpoch, EpochResponse, Known

REQUEST, SAME = EndQuorumEpoch(1, 1, ()), EndQuorumEpoch(1, 1, ())
FIRST_MS = 20


def test_a_node_is_asked_one_thing_at_a_time() -> None:
    talks = Conversations()
    assert talks.is_free(2)
    talks.ask(2, REQUEST)
    assert not talks.is_free(2)
    assert talks.is_free(3)
    assert not talks.settle(2, SAME), "the answer to another request, which looks the same"
    assert not talks.settle(3, REQUEST)
    assert not talks.is_free(2)
    assert talks.settle(2, REQUEST)
    assert talks.is_free(2)
    assert not talks.settle(2, REQUEST), "a second answer is to nothing"


def test_a_later_request_to_the_same_node_takes_the_place_of_the_first() -> None:
    talks = Conversations()
    talks.ask(2, REQUEST)
    talks.ask(2, SAME)
    assert not talks.settle(2, REQUEST)
    assert talks.settle(2, SAME)


def test_messages_are_sent_once_and_in_order() -> None:
    talks = Conversations()
    assert not talks.has_words
    talks.tell(2, REQUEST)
    talks.answer("ticket", EpochResponse(Known(1)), 7)
    talks.ask(3, SAME)
    assert talks.has_words
    assert talks.take() == [Send(2, REQUEST), Answer("ticket", EpochResponse(Known(1)), 7), Send(3, SAME)]
    assert (talks.has_words, talks.take()) == (False, [])
    assert talks.is_free(2), "nobody waits for the answer to what was only told"


def test_failures_double_the_wait_after_the_quick_ones_up_to_a_second() -> None:
    talks, waits = Conversations(), []
    for _ in range(QUICK_RETRIES + 20):
        talks.back_off(2, 1_000, FIRST_MS)
        waits.append(talks.deadlines_ms[0] - 1_000)
    assert waits[: QUICK_RETRIES + 3] == [FIRST_MS] * QUICK_RETRIES + [40, 80, 160]
    assert waits[-1] == MOST_BACKOFF_MS
    talks.back_off(3, 1_000, 5_000)
    assert max(talks.deadlines_ms) == 6_000, "a first wait beyond a second stays"


def test_a_node_is_asked_again_when_its_wait_is_over() -> None:
    talks = Conversations()
    talks.back_off(2, 1_000, FIRST_MS)
    talks.forgive(1_019)
    assert not talks.is_free(2)
    talks.forgive(1_020)
    assert talks.is_free(2)
    assert talks.deadlines_ms == []


def failures_count(talks: Conversations) -> bool:
    """Whether the failures of node 2, which are as many as cost the first wait alone, are remembered."""
    talks.back_off(2, 1_000, FIRST_MS)
    return talks.deadlines_ms[0] - 1_000 > FIRST_MS


def failed() -> Conversations:
    talks = Conversations()
    for _ in range(QUICK_RETRIES):
        talks.back_off(2, 0, FIRST_MS)
    return talks


def test_an_answer_ends_the_failures_unless_it_was_of_no_use() -> None:
    talks = failed()
    talks.succeeded(2)
    assert failures_count(talks), "it is still in its wait"
    talks = failed()
    talks.forgive(500)
    assert failures_count(talks)
    talks = failed()
    talks.forgive(500)
    talks.succeeded(3)
    assert failures_count(talks), "another node's answer"
    talks = failed()
    talks.forgive(500)
    talks.succeeded(2)
    assert not failures_count(talks)


def test_a_new_role_begins_without_requests_in_flight_or_backoffs() -> None:
    talks = failed()
    talks.ask(3, REQUEST)
    talks.forget()
    assert talks.is_free(2)
    assert talks.is_free(3)
    assert not talks.settle(3, REQUEST)
    assert not failures_count(talks)


def test_an_observer_asks_the_nodes_in_turn() -> None:
    talks = Conversations()
    asked = [talks.next_free([1, 2, 3]) for _ in range(6)]
    assert asked == asked[:3] * 2
    assert set(asked) == {1, 2, 3}
    talks.back_off(2, 0, FIRST_MS)
    assert {talks.next_free([1, 2, 3]) for _ in range(4)} == {1, 3}
    talks.ask(1, REQUEST)
    assert talks.next_free([1, 2, 3]) is None, "one question at a time"
    talks.settle(1, REQUEST)
    for node_id in (1, 3):
        talks.back_off(node_id, 0, FIRST_MS)
    assert talks.next_free([1, 2, 3]) is None
    assert talks.next_free([]) is None
