"""SCRAM credentials of users that do not exist: their challenges look like those of users that do. Pure.

A salt follows from a secret that all nodes share and from the name, so it is the same on every node and after a
restart. Its form (alphabet, length, iterations) is that of a user that exists, since different programs make
different salts. The form of a name changes as rarely as possible when users come and go: each form has a score for
each name, weighted by the number of its users, and the highest counts (weighted rendezvous hashing).
"""

import hashlib
import hmac
import math
import string
from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple

from kpybroker.machines.sasl.delegation_token import SALT_BYTES
from kpybroker.machines.sasl.scram import MIN_ITERATIONS, ScramCredential, ScramMechanism, salt_of

MOST_FORMS: Final = 64
"""The most forms among which one is chosen, the most frequent ones."""
OF_KAFKAS_TOOLS: Final = range(23, 27)
"""The usual lengths of their salts, which are numbers of 130 bits in base 36."""
_SMALL: Final = (string.digits + string.ascii_lowercase).encode()
_ALPHABETS: Final = (
    _SMALL,
    (string.digits + string.ascii_letters).encode(),
    bytes(range(0x20, 0x7F)),
    bytes(range(256)),
)
_SETS: Final = [frozenset(each) for each in _ALPHABETS]


class ChallengeForm(NamedTuple):
    """The form of a user's challenge."""

    alphabet: int
    """A place in `_ALPHABETS`."""
    length: int
    """0: the length of Kafka's tools."""
    iterations: int


USUAL: Final = ChallengeForm(len(_ALPHABETS) - 1, SALT_BYTES, MIN_ITERATIONS)
"""The form of users that kpybroker makes, while there are none."""


def form_of(salt: bytes, iterations: int) -> ChallengeForm:
    """The form of a credential."""
    letters = set(salt)
    alphabet = next(place for place, each in enumerate(_SETS) if letters <= each)
    is_kafkas = _ALPHABETS[alphabet] is _SMALL and len(salt) in OF_KAFKAS_TOOLS
    return ChallengeForm(alphabet, 0 if is_kafkas else len(salt), iterations)


class Forms:
    """The forms of the users of one mechanism, counted."""

    def __init__(self) -> None:
        self._of_user: dict[str, ChallengeForm] = {}
        self._users: Counter[ChallengeForm] = Counter()
        self._frequent: list[tuple[ChallengeForm, int]] | None = None

    def changed(self, user: str, form: ChallengeForm | None) -> None:
        """A user has a credential of this form now; None: no longer any."""
        before = self._of_user.pop(user, None)
        if form is not None:
            self._of_user[user] = form
        if before == form:
            return
        self._frequent = None
        if form is not None:
            self._users[form] += 1
        if before is not None:
            self._users[before] -= 1
            if not self._users[before]:
                del self._users[before]

    def of_stranger(self, seed: bytes) -> ChallengeForm:
        """The form for a name of which this seed is made."""
        frequent = self._frequent
        if frequent is None:
            frequent = self._frequent = sorted(self._users.items(), key=lambda item: (-item[1], item[0]))[:MOST_FORMS]
        if len(frequent) < 2:
            return frequent[0][0] if frequent else USUAL
        return max(frequent, key=lambda item: _score(seed, *item))[0]


def _score(seed: bytes, form: ChallengeForm, users: int) -> float:
    number = int.from_bytes(hmac.digest(seed, repr(tuple(form)).encode(), "sha256")[:6], "big")
    return -users / math.log((number + 1) / (2**48 + 1))


class MadeUpCredentials:
    """The credentials that strangers are asked for."""

    def __init__(self, secret: Callable[[], bytes]) -> None:
        """``secret`` is shared by all nodes and by nobody else."""
        self._secret = secret
        self._forms: dict[int, Forms] = {}

    def changed(self, code: int, user: str, salt: bytes, iterations: int) -> None:
        """A user has another credential for the mechanism with this code."""
        self._forms.setdefault(code, Forms()).changed(user, form_of(salt, iterations))

    def gone(self, code: int, user: str) -> None:
        """A user has no credential for a mechanism any more."""
        self._forms.setdefault(code, Forms()).changed(user, None)

    def of(self, mechanism: ScramMechanism, name: str) -> ScramCredential:
        """The credential of a name that no user has."""
        seed = hmac.digest(self._secret(), f"{mechanism.name} {name}".encode(), "sha256")
        forms = self._forms.get(mechanism.code)
        return made_up(seed, USUAL if forms is None else forms.of_stranger(seed))


def made_up(seed: bytes, form: ChallengeForm) -> ScramCredential:
    """A credential of this form, always the same for a seed. No password fits it."""
    mixed = hmac.digest(seed, repr(tuple(form)).encode(), "sha512")
    if form.length:
        letters = _ALPHABETS[form.alphabet]
        stream = hashlib.shake_256(mixed).digest(2 * form.length)
        places = (int.from_bytes(stream[at : at + 2], "big") for at in range(0, len(stream), 2))
        salt = bytes(letters[place % len(letters)] for place in places)
    else:
        salt = salt_of(mixed)
    return ScramCredential(salt, mixed, mixed, form.iterations)
