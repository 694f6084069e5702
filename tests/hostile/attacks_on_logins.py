"""Attacks on the listeners of `secured_broker.SecuredBroker` that go on for a while, for measuring."""

import time
from collections.abc import Callable

from login_crowds import client_hello, half_open, handshake, plain_guess, play, scram_beginning
from secured_broker import ENCRYPTED, LOGIN
from storms import numbers_until

AT_ONCE = 200
HELD = 1_000
Attack = Callable[[int, float], None]


def failed_logins(port: int, until_s: float) -> None:
    """Wrong passwords without a pause; each answer is late, and each guess needs a connection."""
    play(port, plain_guess, numbers_until(until_s), AT_ONCE)


def logins_that_begin(port: int, until_s: float) -> None:
    """The first message of SCRAM, and then another connection."""
    play(port, scram_beginning, numbers_until(until_s), AT_ONCE, ends=True)


def half_open_logins(port: int, until_s: float) -> None:
    """A thousand that have chosen a mechanism and say nothing more; some go, and come again."""
    hold(port, handshake(), until_s)


def handshakes(port: int, until_s: float) -> None:
    """Hellos without a pause: each makes the broker sign."""
    hello = client_hello()
    play(port, lambda _number: hello, numbers_until(until_s), AT_ONCE, ends=True)


def half_open_handshakes(port: int, until_s: float) -> None:
    """A thousand with half a hello."""
    hold(port, client_hello()[:100], until_s)


def hold(port: int, first_bytes: bytes, until_s: float) -> None:
    with half_open(port, lambda _number: first_bytes, HELD):
        while time.monotonic() < until_s:
            with half_open(port, lambda _number: first_bytes, 50):
                time.sleep(0.1)


ATTACKS_ON_LOGINS: dict[str, tuple[Attack, str]] = {
    "failed logins": (failed_logins, LOGIN),
    "logins that begin": (logins_that_begin, LOGIN),
    "1 000 half-open logins": (half_open_logins, LOGIN),
    "TLS handshakes": (handshakes, ENCRYPTED),
    "1 000 half-open handshakes": (half_open_handshakes, ENCRYPTED),
}
"""By name, with the listener that is attacked."""
