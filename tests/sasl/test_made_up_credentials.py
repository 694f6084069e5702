"""Challenges of SCRAM users that do not exist look like those of users that do, and stay as they are."""

import os
from collections import Counter
from random import Random

import pytest

from kpybroker.machines.sasl.made_up_credentials import USUAL, MadeUpCredentials, form_of
from kpybroker.machines.sasl.scram import SCRAM_SHA_256, SCRAM_SHA_512, salt_of

NAMES = [f"stranger {number}" for number in range(400)]


def strangers(secret: bytes = b"secret") -> MadeUpCredentials:
    return MadeUpCredentials(lambda: secret)


@pytest.mark.parametrize(
    ("salt", "iterations"),
    [
        (salt_of(bytes(range(100, 120))), 4096),
        (bytes(range(3, 23)), 8192),
        (bytes(range(100, 164)), 10_000),
        (b"0123456789abcdef", 4096),
        (b"MixedCase0123", 4096),
        (b"a salt, typed by hand", 4097),
        (b"\x00", 16_384),
    ],
    ids=["Kafka's tools", "kpybroker", "librdkafka", "hexadecimal", "letters", "text", "a byte"],
)
def test_made_up_credentials_look_like_real_ones(salt: bytes, iterations: int) -> None:
    made = strangers()
    made.changed(SCRAM_SHA_256.code, "alice", salt, iterations)
    found = [made.of(SCRAM_SHA_256, name) for name in NAMES]
    assert {each.iterations for each in found} == {iterations}
    assert {form_of(each.salt, each.iterations).length for each in found} == {form_of(salt, iterations).length}
    assert max(form_of(each.salt, 0).alphabet for each in found) == form_of(salt, 0).alphabet
    assert len({each.salt for each in found}) == len(NAMES) or salt == b"\x00"
    assert form_of(made.of(SCRAM_SHA_512, "bob").salt, 4096)[1:] == USUAL[1:], "no user has the other mechanism"


def test_each_form_is_as_frequent_as_among_users_in_whatever_order_they_came() -> None:
    users = [(f"user {number}", os.urandom(64 if number % 4 else 20)) for number in range(200)]
    found = []
    for seed in (1, 2):
        made = strangers()
        for name, salt in Random(seed).sample(users, len(users)):
            made.changed(SCRAM_SHA_512.code, name, salt, 4096)
        found.append([made.of(SCRAM_SHA_512, name) for name in NAMES])
    assert found[0] == found[1], "the same on every node"
    assert 220 < Counter(len(each.salt) for each in found[0])[64] < 380


def test_few_change_when_users_come_and_go() -> None:
    made = strangers()
    for number in range(50):
        made.changed(SCRAM_SHA_256.code, f"user {number}", os.urandom(20), 4096)
    for number in range(50, 100):
        made.changed(SCRAM_SHA_256.code, f"user {number}", salt_of(os.urandom(17)), 4096)
    before = [made.of(SCRAM_SHA_256, name).salt for name in NAMES]
    made.changed(SCRAM_SHA_256.code, "another", os.urandom(20), 4096)
    made.changed(SCRAM_SHA_256.code, "user 99", os.urandom(20), 4096)
    made.gone(SCRAM_SHA_256.code, "user 98")
    after = [made.of(SCRAM_SHA_256, name).salt for name in NAMES]
    assert sum(one != other for one, other in zip(before, after, strict=True)) < len(NAMES) / 20
    for number in range(100):
        made.gone(SCRAM_SHA_256.code, f"user {number}")
    made.gone(SCRAM_SHA_256.code, "another")
    assert made.of(SCRAM_SHA_256, "x").iterations == USUAL.iterations


def test_made_up_credentials_follow_from_the_secret() -> None:
    assert strangers().of(SCRAM_SHA_256, "bob") == strangers().of(SCRAM_SHA_256, "bob")
    assert strangers().of(SCRAM_SHA_256, "bob") != strangers(b"another").of(SCRAM_SHA_256, "bob")
    assert strangers().of(SCRAM_SHA_256, "bob") != strangers().of(SCRAM_SHA_512, "bob")


def test_the_number_of_forms_to_choose_from_is_bounded() -> None:
    made = strangers()
    for number in range(20_000):
        made.changed(SCRAM_SHA_256.code, f"user {number}", b"s" * (1 + number % 900), 4096 + number % 12_000)
    made.of(SCRAM_SHA_256, "x")
    assert len(made._forms[SCRAM_SHA_256.code]._frequent or []) == 64
