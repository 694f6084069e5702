"""Passwords among the configs of brokers: encrypted in ZooKeeper, readable in the metadata log, as Kafka copies them
(``ZkConfigMigrationClient``).

Without ``password.encoder.secret`` Kafka copies the encrypted text, which no broker could use any more. Here the copy
waits, and a password that is set later stays out of ZooKeeper.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress

from kpybroker.machines.zookeeper.tree import configs, passwords
from kpybroker.machines.zookeeper.tree.contents import InvalidZnode
from kpybroker.machines.zookeeper.tree.passwords import Encoding, Undecodable


class BrokerPasswords:
    """Decrypts and encrypts them."""

    def __init__(
        self, is_password: Callable[[str], bool], encoding: Encoding | None, random_bytes: Callable[[int], bytes]
    ) -> None:
        """``is_password`` says it of a config by its name. ``encoding`` is None without ``password.encoder.secret``.
        ``random_bytes`` makes salts, which are no secret."""
        self._is_password = is_password
        self._encoding = encoding
        self._random_bytes = random_bytes

    def decoded(self, path: str, values: Mapping[str, str]) -> dict[str, str]:
        """The configs of a znode with readable passwords. Raises InvalidZnode if one of them cannot be read."""
        return {name: self._decoded(path, name, text) for name, text in values.items()}

    def encoded(self, path: str, values: Mapping[str, str], before: bytes | None) -> dict[str, str]:
        """The configs as the znode is to have them. A password that ``before``, its present content, has already keeps
        its text there."""
        held = {} if before is None else configs.decode_configs(path, before)
        found = {name: value for name, value in values.items() if not self._is_password(name)}
        encoding = self._encoding
        if encoding is not None:
            for name in [each for each in values if each not in found]:
                found[name] = self._text(encoding, values[name], held.get(name))
        return found

    def _text(self, encoding: Encoding, password: str, before: str | None) -> str:
        with suppress(Undecodable):
            if before is not None and passwords.decode(before, encoding.secret) == password:
                return before
        return passwords.encode_anew(password, encoding, self._random_bytes)

    def _decoded(self, path: str, name: str, text: str) -> str:
        if not self._is_password(name):
            return text
        if self._encoding is None:
            raise InvalidZnode(path, f"{name} is an encrypted password; set password.encoder.secret on all controllers")
        try:
            return passwords.decode(text, self._encoding.secret)
        except Undecodable as why:
            raise InvalidZnode(path, f"the password {name} cannot be decoded: {why}") from None
