"""Share sessions: epochs follow one another, there is a limit, a lost connection ends its sessions."""

import pytest

from kpybroker.machines.errors import KafkaError
from kpybroker.machines.share.sessions import LAST_EPOCH, SessionKey, ShareSessions
from kpywire import error_codes

KEY = SessionKey("g", "m")
ONE, TWO, THREE = ((bytes(16), each) for each in range(3))


def test_each_request_has_the_next_epoch() -> None:
    sessions = ShareSessions(limit=1)
    sessions.open(KEY, "c", [ONE])
    assert sessions.proceed(KEY, 1, added=[TWO]).rotated() == [TWO, ONE]
    for epoch in (1, 3, 0):
        with pytest.raises(KafkaError) as refused:
            sessions.proceed(KEY, epoch)
        assert refused.value.code == error_codes.INVALID_SHARE_SESSION_EPOCH
    assert sessions.proceed(KEY, 2, added=[THREE], forgotten=[ONE]).rotated() == [TWO, THREE]


def test_the_last_epoch_is_followed_by_the_first() -> None:
    sessions = ShareSessions(limit=1)
    sessions.open(KEY, "c", [ONE]).epoch = LAST_EPOCH
    assert sessions.proceed(KEY, LAST_EPOCH).epoch == 1


def test_the_limit_does_not_count_the_session_that_is_replaced() -> None:
    sessions = ShareSessions(limit=1)
    sessions.open(KEY, "c", [ONE])
    assert sessions.open(KEY, "c", []).rotated() == []
    with pytest.raises(KafkaError) as refused:
        sessions.open(SessionKey("g", "n"), "c", [])
    assert refused.value.code == error_codes.SHARE_SESSION_LIMIT_REACHED


def test_a_session_that_ended_is_not_found() -> None:
    sessions = ShareSessions(limit=2)
    sessions.open(KEY, "c", [ONE])
    assert sessions.end(KEY).partitions == {ONE: None}
    with pytest.raises(KafkaError) as refused:
        sessions.proceed(KEY, 1)
    assert refused.value.code == error_codes.SHARE_SESSION_NOT_FOUND
    with pytest.raises(KafkaError) as refused:
        sessions.end(KEY)
    assert refused.value.code == error_codes.SHARE_SESSION_NOT_FOUND


def test_a_lost_connection_ends_its_sessions_only() -> None:
    sessions = ShareSessions(limit=3)
    sessions.open(KEY, "c", [ONE])
    sessions.open(SessionKey("h", "n"), "d", [ONE])
    assert sessions.disconnected("c").keys() == {KEY}
    assert not sessions.has_group("g")
    assert sessions.has_group("h")
    assert len(sessions) == 1
