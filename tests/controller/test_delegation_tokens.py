"""Delegation tokens: created, renewed and expired by those who may, swept when their time is up, as by Kafka."""

import base64
from collections.abc import Iterator
from random import Random
from typing import Any, Final

import pytest
from controller_world import ControllerWorld

from kpybroker.machines.controller.controller import SweepExpiredTokens
from kpybroker.machines.controller.delegation_tokens import MAX_REMOVALS
from kpybroker.machines.controller.state import ControllerRequest, TokenSettings
from kpybroker.machines.sasl.delegation_token import TokenSecret
from kpybroker.runtime.calls.principal import Principal
from kpywire import api, codec, error_codes
from kpywire.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from kpywire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kpywire.messages.renew_delegation_token import RenewDelegationTokenRequest
from kpywire.metadata_records import encode_record
from kpywire.metadata_records.delegation_token_record import DelegationTokenRecord
from oracle.asked import AskedOracle
from oracle.recorded import Asked, Play

KEY: Final = "a key of all nodes"
LIFETIME_MS, EXPIRY_MS = 10_000, 3_000
ALICE, BOB, CAROL = (Principal("User", name) for name in ("alice", "bob", "carol"))
NOW_MS: Final = 1_700_000_000_000
MOST: Final = 2**63 - 1


class TokenWorld(ControllerWorld):
    """A controller with tokens, and the time of day."""

    def __init__(self, key: str = KEY, level: int = 30) -> None:
        self.wall_clock_ms = NOW_MS
        settings = TokenSettings(TokenSecret(key), LIFETIME_MS, EXPIRY_MS) if key else None
        super().__init__(level, tokens=settings)

    def ask(self, request: Any, principal: Principal = ALICE, version: int | None = None) -> Any:
        version = type(request).VERSIONS[-1] if version is None else version
        effects = self.decide(ControllerRequest(None, request, version, principal, self.wall_clock_ms))
        return effects.replies[0][1]

    def create(self, lifetime_ms: int = -1, *renewers: Principal, **owner: str) -> Any:  # type: ignore[override]
        named = [
            CreatableRenewers(principal_type=caller.principal_type, principal_name=caller.name) for caller in renewers
        ]
        return self.ask(CreateDelegationTokenRequest(renewers=named, max_lifetime_ms=lifetime_ms, **owner))

    def renew(self, hmac: bytes, period_ms: int = -1, principal: Principal = ALICE) -> tuple[int, int]:
        answer = self.ask(RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms), principal)
        return answer.error_code, answer.expiry_timestamp_ms - NOW_MS

    def expire(self, hmac: bytes, period_ms: int, principal: Principal = ALICE) -> tuple[int, int]:
        answer = self.ask(ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms), principal)
        return answer.error_code, answer.expiry_timestamp_ms - NOW_MS


def test_the_hmac_is_answered_and_not_stored() -> None:
    world = TokenWorld()
    token = world.create(-1, BOB)
    assert token.error_code == 0
    assert token.hmac == TokenSecret(KEY).hmac_of(token.token_id)
    assert len(token.hmac) == 64
    record = world.image.delegation_tokens[token.token_id]
    assert (record.owner, record.requester, record.renewers) == ("User:alice", "User:alice", ["User:bob"])
    assert (record.issue_timestamp, record.expiration_timestamp, record.max_timestamp) == (
        NOW_MS,
        NOW_MS + EXPIRY_MS,
        NOW_MS + LIFETIME_MS,
    )
    assert token.hmac not in encode_record(record, 0)
    assert "hidden" in repr(token)
    assert repr(token.hmac)[2:-1] not in repr(token)
    assert KEY not in repr(world.state.settings)


def test_a_token_lives_at_most_as_long_as_was_asked_and_configured() -> None:
    world = TokenWorld()
    for asked, lives in ((-1, LIFETIME_MS), (0, LIFETIME_MS), (500, 500), (MOST, LIFETIME_MS)):
        token = world.create(asked)
        assert token.max_timestamp_ms == NOW_MS + lives
        assert token.expiry_timestamp_ms == NOW_MS + min(lives, EXPIRY_MS)


def test_a_token_for_another_owner_is_renewed_by_the_owner_and_not_by_the_requester() -> None:
    world = TokenWorld()
    token = world.create(owner_principal_type="User", owner_principal_name="bob")
    assert (token.principal_name, token.token_requester_principal_name) == ("bob", "alice")
    assert world.renew(token.hmac)[0] == error_codes.DELEGATION_TOKEN_OWNER_MISMATCH
    assert world.renew(token.hmac, principal=BOB)[0] == 0


def test_renewing_puts_off_the_expiry_up_to_the_longest_life() -> None:
    world = TokenWorld()
    token = world.create(-1, BOB)
    world.wall_clock_ms += 1_000
    assert world.renew(token.hmac) == (0, 1_000 + EXPIRY_MS)
    assert world.renew(token.hmac, 100, BOB) == (0, 1_100)
    world.wall_clock_ms += 100
    assert world.renew(token.hmac, MOST) == (0, 1_100 + EXPIRY_MS), "it expires at the next millisecond"
    for _ in range(3):
        world.wall_clock_ms += 2_500
        world.renew(token.hmac)
    assert world.renew(token.hmac) == (0, LIFETIME_MS)
    assert world.renew(token.hmac, principal=CAROL)[0] == error_codes.DELEGATION_TOKEN_OWNER_MISMATCH
    world.wall_clock_ms = NOW_MS + LIFETIME_MS + 1
    assert world.renew(token.hmac, principal=CAROL)[0] == error_codes.DELEGATION_TOKEN_EXPIRED


def test_expiring_removes_at_once_or_changes_the_time() -> None:
    world = TokenWorld()
    token, other = world.create(-1, BOB), world.create()
    assert world.expire(token.hmac, 50) == (0, 50)
    assert world.expire(token.hmac, MOST, BOB) == (0, LIFETIME_MS)
    assert world.expire(token.hmac, -1, CAROL)[0] == error_codes.DELEGATION_TOKEN_OWNER_MISMATCH
    assert world.expire(token.hmac, -1, BOB) == (0, 0)
    assert set(world.image.delegation_tokens) == {other.token_id}
    assert world.expire(token.hmac, -1)[0] == error_codes.DELEGATION_TOKEN_NOT_FOUND
    world.wall_clock_ms += EXPIRY_MS + 1
    assert world.expire(other.hmac, 0)[0] == error_codes.DELEGATION_TOKEN_EXPIRED
    assert world.expire(other.hmac, -1)[0] == 0, "a token that has expired is removed still"


def test_a_hmac_of_another_key_finds_nothing() -> None:
    world = TokenWorld()
    token = world.create()
    for wrong in (b"", token.token_id.encode(), TokenSecret("another").hmac_of(token.token_id), token.hmac[:-1]):
        assert world.renew(wrong)[0] == error_codes.DELEGATION_TOKEN_NOT_FOUND


def test_without_a_key_or_in_old_metadata_there_are_no_tokens() -> None:
    for world, code in (
        (TokenWorld(key=""), error_codes.DELEGATION_TOKEN_AUTH_DISABLED),
        (TokenWorld(level=13), error_codes.UNSUPPORTED_VERSION),
    ):
        token = world.create()
        assert (token.error_code, token.principal_name, token.token_id) == (code, "alice", "")
        assert world.renew(b"x")[0] == world.expire(b"x", -1)[0] == code
        assert not world.image.delegation_tokens


def test_the_sweep_removes_what_has_expired_in_batches() -> None:
    world = TokenWorld()
    for _ in range(MAX_REMOVALS + 5):
        world.create()
    living = world.create()
    world.wall_clock_ms += 2_000
    assert world.renew(living.hmac)[0] == 0
    before = len(world.log)
    first = world.decide(SweepExpiredTokens(NOW_MS + EXPIRY_MS + 1))
    assert (len(first.records), len(world.log) - before) == (MAX_REMOVALS, MAX_REMOVALS + 5)
    assert set(world.image.delegation_tokens) == {living.token_id}
    assert not world.decide(SweepExpiredTokens(NOW_MS + EXPIRY_MS + 1)).records


def test_versions_without_a_requester_do_not_name_one() -> None:
    token = TokenWorld().ask(CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1), version=2)
    assert codec.decode(type(token), 2, codec.encode(token, 2), 0).token_id == token.token_id


# Beside Kafka.


def started() -> AskedOracle:
    return AskedOracle("TokenOracle.java", "org.apache.kafka.controller.TokenOracle")


@pytest.fixture(scope="module")
def kafka() -> Iterator[AskedOracle]:
    oracle = started()
    yield oracle
    oracle.close()


class Twins:
    """Random requests to a controller here and to Kafka's, which has the tokens that were made here."""

    def __init__(self, kafka: Asked, rng: Random) -> None:
        self.kafka, self.rng = kafka, rng
        self.key = "" if rng.random() < 0.1 else KEY
        self.level = 13 if rng.random() < 0.1 else 30
        self.world = TokenWorld(self.key, self.level)
        self.hmacs: list[bytes] = [b"", b"nobody's"]
        kafka.ask_for_line("begin", self.key, LIFETIME_MS, EXPIRY_MS)

    def period(self) -> int:
        return self.rng.choice((-(2**63), -1, 0, 1, 400, 2_999, 3_000, 3_001, 9_999, 10_001, MOST))

    def request(self) -> Any:
        rng = self.rng
        kind = rng.randrange(3)
        if kind == 0:
            renewers = [
                CreatableRenewers(principal_type="User" if rng.random() < 0.9 else "Group", principal_name=name)
                for name in rng.sample(("alice", "bob", "carol", ""), rng.randrange(3))
            ]
            owner = rng.choice((("", ""), ("User", "bob"), ("Other", "alice"), ("User", "")))
            return CreateDelegationTokenRequest(
                renewers=renewers,
                max_lifetime_ms=self.period(),
                owner_principal_type=owner[0],
                owner_principal_name=owner[1],
            )
        if kind == 1:
            return RenewDelegationTokenRequest(hmac=rng.choice(self.hmacs), renew_period_ms=self.period())
        return ExpireDelegationTokenRequest(hmac=rng.choice(self.hmacs), expiry_time_period_ms=self.period())

    def play(self) -> None:
        self.world.wall_clock_ms += self.rng.choice((0, 0, 1, 500, 1_500))
        self.kafka.ask_for_line("time", self.world.wall_clock_ms)
        before = len(self.world.log)
        if self.rng.random() < 0.05:
            self.world.decide(SweepExpiredTokens(self.world.wall_clock_ms))
            theirs = self.kafka.ask_for_line("sweep").partition("\t")[2]
            assert sorted(self.written(before)) == sorted(each for each in theirs.split(",") if each)
        else:
            self.play_request(before)
        for record in self.written(before):
            self.kafka.ask_for_line("record", record)

    def play_request(self, before: int) -> None:
        request, caller = self.request(), self.rng.choice((ALICE, BOB, CAROL))
        version = type(request).VERSIONS[-1]
        answer = self.world.ask(request, caller, version)
        body = base64.b64encode(codec.encode(request, version)).decode()
        line = self.kafka.ask_for_line("ask", type(request).KEY, version, self.level, caller, body)
        response, _, records = line.partition("\t")
        theirs = codec.decode(api.response_class(type(request).KEY), version, base64.b64decode(response), 0)
        if isinstance(request, CreateDelegationTokenRequest) and answer.error_code == 0:
            self.hmacs.append(answer.hmac)
            assert theirs.hmac == TokenSecret(KEY).hmac_of(theirs.token_id)
            (here,) = [each for each in self.world.log[before:] if isinstance(each, DelegationTokenRecord)]
            here = codec.decode(DelegationTokenRecord, 0, codec.encode(here, 0), 0)
            here.token_id, theirs.hmac = theirs.token_id, answer.hmac
            assert records == base64.b64encode(encode_record(here, 0)).decode()
            theirs.token_id = answer.token_id
        else:
            assert self.written(before) == [each for each in records.split(",") if each], f"{request} of {caller}"
        assert answer == theirs, f"{request} of {caller}"

    def written(self, before: int) -> list[str]:
        return [base64.b64encode(encode_record(each, 0)).decode() for each in self.world.log[before:]]


@pytest.mark.java
def test_kafka_decides_the_same_at_every_step(kafka: AskedOracle) -> None:
    compare(kafka, 25)


def test_kafka_decided_the_same_at_every_step(recorded: Play) -> None:
    compare(recorded(started), 4)


def compare(kafka: Asked, histories: int) -> None:
    for seed in range(histories):
        twins = Twins(kafka, Random(seed))
        for _ in range(60):
            twins.play()
