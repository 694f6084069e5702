"""Kafka's errors by code."""

from kpywire import error_codes


def test_an_error_has_its_name_its_message_and_whether_clients_retry() -> None:
    code = error_codes.NOT_LEADER_OR_FOLLOWER
    assert code == 6
    assert error_codes.name(code) == "NOT_LEADER_OR_FOLLOWER"
    assert "not the current leader" in error_codes.message(code)
    assert error_codes.retriable(code)
    assert not error_codes.retriable(error_codes.TOPIC_ALREADY_EXISTS)


def test_every_code_has_a_message() -> None:
    codes = [value for name, value in vars(error_codes).items() if name.isupper() and isinstance(value, int)]
    assert sorted(codes) == list(range(-1, len(codes) - 1))
    assert all(error_codes.message(code) for code in codes)


def test_a_code_that_kafka_has_not_is_an_unknown_server_error() -> None:
    assert error_codes.name(9999) == "UNKNOWN_SERVER_ERROR"
    assert error_codes.message(9999) == error_codes.message(-1)
    assert not error_codes.retriable(9999)
