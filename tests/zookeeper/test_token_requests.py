"""Renewals and expiries of delegation tokens in ZooKeeper mode: who learns what first, and how long a token lives."""

from collections.abc import Callable

import pytest

from kpybroker.machines.errors import KafkaError
from kpybroker.machines.zookeeper.broker.token_requests import TokenChange, expired, renewed
from kpybroker.runtime.calls.principal import Principal
from kpywire import error_codes
from kpywire.metadata_records.delegation_token_record import DelegationTokenRecord

ALICE, BOB, CAROL = (Principal("User", name) for name in ("alice", "bob", "carol"))
DEFAULT_MS = 200
Asked = Callable[[DelegationTokenRecord, Principal, int, int], TokenChange]


def renewal(record: DelegationTokenRecord, sender: Principal, period_ms: int, now_ms: int) -> TokenChange:
    return renewed(record, sender, period_ms, DEFAULT_MS, now_ms)


def token(expiration_timestamp: int = 500) -> DelegationTokenRecord:
    return DelegationTokenRecord(
        owner="User:alice",
        requester="User:alice",
        renewers=["User:carol"],
        issue_timestamp=0,
        max_timestamp=1000,
        expiration_timestamp=expiration_timestamp,
        token_id="token",
    )


def refusal(asked: Asked, record: DelegationTokenRecord, sender: Principal, now_ms: int) -> int:
    with pytest.raises(KafkaError) as caught:
        asked(record, sender, 10, now_ms)
    return caught.value.code


@pytest.mark.parametrize("asked", [renewal, expired])
def test_a_token_that_has_expired_is_not_prolonged(asked: Asked) -> None:
    assert refusal(asked, token(), ALICE, 501) == error_codes.DELEGATION_TOKEN_EXPIRED
    assert refusal(asked, token(5000), ALICE, 1001) == error_codes.DELEGATION_TOKEN_EXPIRED
    assert asked(token(), ALICE, 10, 499).expiry_ms == 509


@pytest.mark.parametrize("asked", [renewal, expired])
def test_a_stranger_learns_that_it_is_one_before_the_age_of_the_token(asked: Asked) -> None:
    assert refusal(asked, token(), BOB, 501) == error_codes.DELEGATION_TOKEN_OWNER_MISMATCH
    assert asked(token(), CAROL, 10, 100).token is not None


def test_a_renewal_is_for_the_default_unless_it_says_how_long_and_never_beyond_the_end_of_the_token() -> None:
    assert renewal(token(), ALICE, -1, 100).expiry_ms == 100 + DEFAULT_MS
    assert renewal(token(), ALICE, 300, 100).expiry_ms == 400
    assert renewal(token(), ALICE, 0, 100).expiry_ms == 100
    change = renewal(token(), ALICE, 5000, 100)
    assert change.token is not None
    assert (change.expiry_ms, change.token.expiry_timestamp_ms, change.token.max_timestamp_ms) == (1000, 1000, 1000)


def test_a_negative_period_ends_a_token_also_an_expired_one() -> None:
    assert expired(token(), ALICE, -1, 501) == TokenChange(None, 501)
    change = expired(token(), ALICE, 0, 100)
    assert change.token is not None
    assert change.expiry_ms == 100
