"""DIGEST-MD5 (RFC 2831), with which clients log in to ZooKeeper. Only the client's half, and only ``auth``. Pure.

MD5 is weak, and RFC 6331 retires the mechanism; ZooKeeper offers this one and Kerberos. Use it inside TLS.
"""

import re
from hashlib import md5
from hmac import compare_digest
from typing import Final

from kpybroker.machines.zookeeper.client.session import ZooKeeperLoginRefused

URI: Final = "zookeeper/zk-sasl-md5"
"""The service that ZooKeeper's servers call themselves."""
_FIELD: Final = re.compile(r'\s*([a-z-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^",\s]*))\s*(?:,|$)', re.IGNORECASE)
_LONGEST: Final = 4096


class DigestMd5:
    """One login. Holds a password."""

    def __init__(self, user: str, password: str, client_nonce: str) -> None:
        self.is_complete = False
        self._user = user
        self._password = password
        self._client_nonce = client_nonce
        self._expected = ""

    def __repr__(self) -> str:
        return f"DigestMd5({self._user!r})"

    def first(self) -> bytes:
        """The first message is empty: the server begins."""
        return b""

    def respond(self, challenge: bytes) -> bytes | None:
        """The answer to a challenge; None after the last one. Raises LoginRefused."""
        fields = _fields(challenge)
        if self._expected:
            if not compare_digest(fields.get("rspauth", ""), self._expected):
                raise ZooKeeperLoginRefused("ZooKeeper does not prove that it knows the password (DIGEST-MD5)")
            self.is_complete = True
            return None
        nonce, realm = fields.get("nonce"), fields.get("realm", "")
        if not nonce or "auth" not in fields.get("qop", "auth").split(","):
            raise ZooKeeperLoginRefused("ZooKeeper's challenge is not one of DIGEST-MD5 with qop auth")
        answer = self._digest("AUTHENTICATE", realm, nonce)
        self._expected = self._digest("", realm, nonce)
        return (
            f"charset=utf-8,username={_quoted(self._user)},realm={_quoted(realm)},nonce={_quoted(nonce)},nc=00000001,"
            f'cnonce={_quoted(self._client_nonce)},digest-uri="{URI}",maxbuf=65536,response={answer},qop=auth'
        ).encode()

    def _digest(self, method: str, realm: str, nonce: str) -> str:
        secret = _md5(f"{self._user}:{realm}:{self._password}".encode())
        first = _md5(secret + f":{nonce}:{self._client_nonce}".encode()).hex()
        second = _md5(f"{method}:{URI}".encode()).hex()
        return _md5(f"{first}:{nonce}:00000001:{self._client_nonce}:auth:{second}".encode()).hex()


def _md5(data: bytes) -> bytes:
    return md5(data, usedforsecurity=False).digest()


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _fields(challenge: bytes) -> dict[str, str]:
    if len(challenge) > _LONGEST:
        raise ZooKeeperLoginRefused(f"ZooKeeper's challenge has more than {_LONGEST} bytes")
    text, fields, at = challenge.decode("utf-8", "replace"), dict[str, str](), 0
    while at < len(text):
        found = _FIELD.match(text, at)
        if found is None:
            raise ZooKeeperLoginRefused("ZooKeeper's challenge is not one of DIGEST-MD5")
        name, quoted, plain = found.groups()
        fields.setdefault(name.lower(), re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else plain)
        at = found.end()
    return fields
