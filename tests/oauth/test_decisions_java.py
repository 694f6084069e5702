"""Decisions about tokens beside Kafka's own: ``BrokerJwtValidator`` with jose4j, and the check of unsigned tokens.

Random tokens are made of a few values for each part, right ones and all kinds of wrong ones. Both sides must agree
about each, also about the principal and the expiry.
"""

import hmac
import json
import random
import time
from base64 import urlsafe_b64encode
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from joserfc.jwk import ECKey, OKPKey, RSAKey
from joserfc.jws import JWSRegistry

from kpybroker.machines.sasl import unsecured_tokens
from kpybroker.machines.sasl.oauthbearer import LONGEST_MS, TokenRefused
from kpybroker.security.oauth import signed_tokens
from kpybroker.security.oauth.claims import ClaimRules
from kpybroker.security.oauth.key_set import PublicKey, read_key_set
from oracle.asked import AskedOracle

pytestmark = [pytest.mark.java, pytest.mark.filterwarnings("ignore::joserfc.errors.SecurityWarning")]

TOKENS = 1_500
DEEP = json.loads("[" * 200 + "]" * 200)
ABSENT = object()


class Signer(NamedTuple):
    """A key of the provider, with the algorithms that it can sign by, and what its key set says of it."""

    key: Any
    algorithms: tuple[str, ...]
    published: dict[str, Any]

    @property
    def kid(self) -> Any:
        return self.published.get("kid", ABSENT)

    def sign(self, header: Any, payload: Any, algorithm: str, key: Any = None) -> str:
        """A token with this header and payload, whatever they say."""
        text = f"{part(header)}.{part(payload)}"
        signature = JWSRegistry.algorithms[algorithm].sign(text.encode(), self.key if key is None else key)
        return f"{text}.{part(signature)}"


def signers() -> list[Signer]:
    rsa = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
    return [
        Signer(RSAKey.generate_key(2048), rsa, {"kid": "a", "use": "sig"}),
        Signer(RSAKey.generate_key(2048), rsa, {"kid": "b", "alg": "RS512"}),
        Signer(RSAKey.generate_key(2048), rsa, {"kid": "enc", "use": "enc"}),
        Signer(RSAKey.generate_key(1024), rsa[:3], {"kid": "short"}),
        Signer(RSAKey.generate_key(2048), rsa, {"kid": "twice"}),
        Signer(RSAKey.generate_key(2048), rsa, {"kid": "twice", "alg": "PS256"}),
        Signer(RSAKey.generate_key(2048), rsa, {"x5t": "AAAA"}),
        Signer(ECKey.generate_key("P-256"), ("ES256",), {"kid": "c"}),
        Signer(ECKey.generate_key("P-384"), ("ES384",), {"kid": "c"}),
        Signer(ECKey.generate_key("P-521"), ("ES512",), {"kid": "e", "key_ops": ["verify"]}),
        Signer(ECKey.generate_key("P-256"), ("ES256",), {"kid": "f", "key_ops": ["sign"]}),
        Signer(OKPKey.generate_key("Ed25519"), ("EdDSA",), {"kid": "o"}),
    ]


@pytest.fixture(scope="module")
def known() -> list[Signer]:
    return signers()


@pytest.fixture(scope="module")
def kafka() -> Iterator[AskedOracle]:
    oracle = AskedOracle("JwtOracle.java", "JwtOracle")
    yield oracle
    oracle.close()


def part(value: Any) -> str:
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    return urlsafe_b64encode(text).rstrip(b"=").decode()


def with_hmac(header: Any, payload: Any, secret: bytes) -> str:
    text = f"{part(header)}.{part(payload)}"
    return f"{text}.{part(hmac.digest(secret, text.encode(), 'sha256'))}"


class Tokens:
    """Random tokens."""

    def __init__(self, rng: random.Random, known: list[Signer], audience: Any = "kafka") -> None:
        self._rng = rng
        self._audience = audience
        self._known = known

    def _maybe(self, usual: Any, *odd: Any) -> Any:
        return self._rng.choice(odd) if self._rng.random() < 0.12 else usual

    def claims(self) -> dict[str, Any]:
        now, maybe = int(time.time()), self._maybe
        numbers = (ABSENT, str(now), True, [now], 1e300, 10**30, -5, now + 0.5)
        found = {
            "sub": maybe("alice", ABSENT, "", "  ", " bob ", 7, None, ["x"], "ü", "\t"),
            "exp": maybe(now + 600, *numbers, now - 600, now - 20, now + 1.5e9, None),
            "iat": maybe(now - 5, *numbers, now + 500, now + 700, None, 0),
            "nbf": maybe(ABSENT, *numbers, now + 20, now + 100, now + 1000, None, now - 100),
            "iss": maybe("me", ABSENT, "you", 5, None, ""),
            "aud": maybe(
                self._audience,
                "kafka",
                ABSENT,
                "other",
                ["other", "kafka"],
                [],
                ["other"],
                [1, "kafka"],
                {"a": 1},
                5,
                None,
            ),
            "scope": maybe(ABSENT, "a", "", " ", ["a", "b"], ["a", "a "], ["a", ""], [], 5, None, {"x": 1}, ["a", 7]),
            "jti": maybe(ABSENT, "x", 5, None),
            "client_id": maybe("robot", ABSENT, 5, ""),
            "deep": maybe(ABSENT, DEEP, {"sub": "carol"}),
        }
        return {name: value for name, value in found.items() if value is not ABSENT}

    def header(self, signer: Signer, algorithm: str) -> dict[str, Any]:
        maybe = self._maybe
        other = self._rng.choice(self._known)
        found = {
            "alg": algorithm,
            "kid": maybe(signer.kid, ABSENT, "other", other.kid, "k" * 2000),
            "typ": maybe("JWT", ABSENT, "at+jwt"),
            "cty": maybe(ABSENT, "json", "JWT"),
            "jku": maybe(ABSENT, "https://127.0.0.1:1/jwks"),
            "x5u": maybe(ABSENT, "https://127.0.0.1:1/cert"),
            "jwk": maybe(ABSENT, other.key.as_dict(private=False)),
            "x5t": maybe(ABSENT, "AAAA"),
            "crit": maybe(ABSENT, ["exp"], ["other"]),
        }
        return {name: value for name, value in found.items() if value is not ABSENT}

    def token(self) -> str:
        rng = self._rng
        signer = rng.choice(self._known)
        algorithm = rng.choice(signer.algorithms)
        header, claims = self.header(signer, algorithm), self.claims()
        stranger = rng.choice([each for each in self._known if algorithm in each.algorithms])
        key = signer.key if rng.random() < 0.95 else stranger.key
        made = signer.sign(header, claims, algorithm, key)
        return self._damaged(made, header, claims, signer) if rng.random() < 0.12 else made

    def _damaged(self, made: str, header: dict[str, Any], claims: dict[str, Any], signer: Signer) -> str:
        rng = self._rng
        first, second, third = made.split(".")
        public_key = signer.key.as_pem(private=False)
        return rng.choice(
            [
                f"{first}.{part({**claims, 'sub': 'mallory'})}.{third}",
                f"{part({**header, 'alg': 'none'})}.{second}.",
                f"{part({**header, 'alg': 'none'})}.{second}.{third}",
                f"{part({**header, 'alg': 'None'})}.{second}.{third}",
                f"{part({**header, 'alg': 'RS1'})}.{second}.{third}",
                f"{part({name: value for name, value in header.items() if name != 'alg'})}.{second}.{third}",
                with_hmac({**header, "alg": "HS256"}, claims, public_key),
                f"{first}.{second}",
                f"{first}.{second}.",
                f"{made}.{third}",
                f"{made}.",
                f".{second}.{third}",
                f"{first}..{third}",
                f"{first}.{second}.{third[:-4]}",
                f"{first}.{second}.{third[:4]}AAAA{third[8:]}",
                f"{part([1])}.{second}.{third}",
                f"{part(b'x')}.{second}.{third}",
                self._raw(b'{"sub":"alice","sub":"bob","exp":4000000000,"iat":1,"iss":"me","aud":"kafka"}', signer),
                self._raw(b'{"sub":"alice","exp":NaN,"iat":1,"iss":"me","aud":"kafka"}', signer),
                self._raw(b"[]", signer),
                self._raw(b"null", signer),
                self._raw(b"{", signer),
            ]
        )

    def _raw(self, payload: bytes, signer: Signer) -> str:
        header = {"alg": signer.algorithms[0], **({} if signer.kid is ABSENT else {"kid": signer.kid})}
        return signer.sign(header, payload, signer.algorithms[0])


def decide(token: str, keys: tuple[PublicKey, ...], rules: ClaimRules) -> str:
    try:
        found = signed_tokens.validate(token, keys, rules, time.time_ns() // 1_000_000, lambda _kid: None)
    except TokenRefused as refused:
        if token in refused.reason:
            return "shown in the log"
        return f"refused\t{refused.status}"
    return f"accepted\t{found.principal}\t{found.expires_ms}"


def agree(ours: str, theirs: str) -> bool:
    """Whether both sides decide alike. Tokens over which Kafka's own code fails are refused here: at once, or where it
    counts the lifetime in nanoseconds."""
    verdict, *found = theirs.split("\t")
    is_endless = verdict == "accepted" and int(found[1]) > time.time() * 1000 + LONGEST_MS
    return ours == theirs or ((verdict == "crashed" or is_endless) and ours == "refused\tinvalid_token")


RULES = [
    ClaimRules(("kafka",), "me"),
    ClaimRules(("x", "kafka"), None, 0),
    ClaimRules((), "me", 30, "scp", "client_id", any_audience=True),
]


@pytest.mark.parametrize("rules", RULES, ids=["usual", "no issuer, no skew", "other claims, no audience"])
def test_signed_tokens_are_decided_as_by_kafka(
    rules: ClaimRules, known: list[Signer], kafka: AskedOracle, tmp_path: Path
) -> None:
    file = tmp_path / "keys.json"
    published = [{**each.key.as_dict(private=False), **each.published} for each in known]
    symmetric = {"kty": "oct", "kid": "s", "k": "AAAA"}
    file.write_text(json.dumps({"keys": [*published, symmetric, {"kty": "new"}]}))
    keys = read_key_set(file.read_bytes())
    words = (
        ",".join(rules.audiences),
        rules.issuer or "",
        rules.clock_skew_s,
        rules.scope_claim,
        rules.principal_claim,
    )
    assert kafka.ask_for_line("signed", f"file://{file}", *words) == "ready"
    tokens = Tokens(random.Random(f"{rules}"), known, "kafka" if rules.audiences else ABSENT)
    seen: Counter[str] = Counter()
    different = []
    for _ in range(TOKENS // len(RULES)):
        token = tokens.token()
        ours, theirs = decide(token, keys, rules), kafka.ask_for_line("check", token)
        seen[theirs.partition("\t")[0]] += 1
        if not agree(ours, theirs):
            different.append((ours, theirs, token))
    assert not different, different[:3]
    assert min(seen["accepted"], seen["refused"]) > TOKENS / len(RULES) / 20, seen


OPTIONS = [
    "",
    "unsecuredValidatorRequiredScope=a b;unsecuredValidatorAllowableClockSkewMs=30000",
    "unsecuredValidatorPrincipalClaimName=client_id;unsecuredValidatorScopeClaimName=scp",
]


@pytest.mark.parametrize("options", OPTIONS)
def test_unsigned_tokens_are_decided_as_by_kafka(options: str, kafka: AskedOracle) -> None:
    assert kafka.ask_for_line("unsecured", options) == "ready"
    rules = unsecured_tokens.rules_of(dict(pair.split("=", 1) for pair in options.split(";") if pair))
    rng = random.Random(options)
    claims = Tokens(rng, []).claims
    seen: Counter[str] = Counter()
    different = []
    for _ in range(TOKENS // 3):
        found = {name: value for name, value in claims().items() if value is not True and value is not None}
        found["scope"] = rng.choice(["a", "b", ["a", "b"], ["b"], [" b", "a"], 5, ""])
        header = rng.choice([{"alg": "none"}] * 9 + [{"alg": "None"}, {}, {"alg": 5}, []])
        end = rng.choice(["."] * 9 + ["", ".x", "..", ".."])
        token = f"{part(header)}.{part(found)}{end}"
        ours, theirs = decide_unsigned(token, rules), kafka.ask_for_line("check", token)
        seen[theirs.partition("\t")[0]] += 1
        if not agree(ours, theirs):
            different.append((ours, theirs, header, end, {k: v for k, v in found.items() if k != "deep"}))
    assert not different, different[:5]
    assert min(seen["accepted"], seen["refused"]) > TOKENS / 60, seen


def decide_unsigned(token: str, rules: unsecured_tokens.UnsecuredRules) -> str:
    try:
        found = unsecured_tokens.validate(token, rules, time.time_ns() // 1_000_000)
    except TokenRefused as refused:
        return f"refused\t{refused.status}"
    return f"accepted\t{found.principal}\t{found.expires_ms}"
