"""The error with which a request is answered: its words, and how the journal counts what it replays."""

from typing import Any

import pytest

from kpybroker.machines.errors import LONGEST_MESSAGE, KafkaError
from kpybroker.machines.journal import Effects, Journal, Prepared
from kpywire import error_codes


def test_an_error_without_words_has_those_of_its_code() -> None:
    error = KafkaError(error_codes.NOT_CONTROLLER)
    assert (error.code, error.message, error.record_errors) == (error_codes.NOT_CONTROLLER, None, ())
    assert str(error) == f"NOT_CONTROLLER: {error_codes.message(error_codes.NOT_CONTROLLER)}"


def test_an_error_keeps_its_words_and_those_of_records() -> None:
    error = KafkaError(error_codes.INVALID_RECORD, "not so", [(3, "no key")])
    assert (str(error), error.message, error.record_errors) == ("INVALID_RECORD: not so", "not so", [(3, "no key")])


@pytest.mark.parametrize(("length", "is_cut"), [(LONGEST_MESSAGE, False), (LONGEST_MESSAGE + 1, True)])
def test_a_message_that_is_too_long_is_cut(length: int, is_cut: bool) -> None:
    found = KafkaError(error_codes.INVALID_REQUEST, "x" * length).message
    assert found == "x" * LONGEST_MESSAGE + "..." * is_cut


class Machine:
    def __init__(self) -> None:
        self.applied: list[tuple[Any, int]] = []

    def apply(self, record: Any, offset: int, _producer: Any) -> None:
        self.applied.append((record, offset))

    def decide(self, _event: Any, _now_ms: int) -> Effects:
        return Effects()


def test_a_new_journal_has_nothing_and_ends_behind_what_it_replays() -> None:
    machine = Machine()
    journal: Any = Journal(
        machine,  # type: ignore[arg-type]
        lambda *_: (0, 0),
        closed_error=error_codes.NOT_COORDINATOR,
        report=lambda _failed: None,
    )
    assert (journal.appended_offset, journal.committed_offset, journal.waiting_gates) == (0, 0, 0)
    assert not journal.is_open
    journal.replay("a", 0)
    journal.replay("b", 4)
    assert machine.applied == [("a", 0), ("b", 4)]
    assert (journal.appended_offset, journal.committed_offset) == (5, 0)
    journal.open(3, 6)  # the log may end with what is none of the machine's
    assert journal.is_open
    assert (journal.appended_offset, journal.committed_offset) == (6, 3)
    journal.committed(2, 0)
    assert journal.committed_offset == 3, "it never goes back"
    journal.committed(4, 0)
    assert journal.committed_offset == 4
    with pytest.raises(RuntimeError):
        journal.replay("c", 5)


def test_a_prepared_batch_is_its_records_and_their_bytes() -> None:
    batch = Prepared(["a", "b"], b"section")
    assert (batch.records, batch.section) == (["a", "b"], b"section")
