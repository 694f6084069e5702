"""Passwords among the configs of brokers in ZooKeeper: encrypted there, readable here (``DynamicBrokerConfig``)."""

import logging
from collections.abc import Mapping
from random import Random

from kpybroker.config.dynamic import is_password
from kpybroker.machines.config_def import ConfigError
from kpybroker.machines.zookeeper.tree import configs, passwords
from kpybroker.machines.zookeeper.tree.configs import ConfigEntity
from kpybroker.machines.zookeeper.tree.passwords import Encoding, Undecodable

log = logging.getLogger("kpybroker.zookeeper")


class EncryptedConfigs:
    """Encrypts and decrypts the passwords of brokers."""

    def __init__(self, encoding: Encoding | None, rng: Random) -> None:
        """``encoding`` is None without ``password.encoder.secret``. ``rng`` makes salts, which are no secret."""
        self._encoding = encoding
        self._rng = rng

    def decoded(self, entity: ConfigEntity, values: Mapping[str, str]) -> dict[str, str]:
        """The configs with readable passwords. As in Kafka, those that cannot be decoded are left out."""
        readable = {}
        for name, text in values.items():
            if not _is_password(entity, name):
                readable[name] = text
                continue
            try:
                if self._encoding is None:
                    raise Undecodable("password.encoder.secret is not set")
                readable[name] = passwords.decode(text, self._encoding.secret)
            except Undecodable as why:
                log.error("Dynamic password config %s of %s could not be decoded, ignoring: %s", name, entity.path, why)
        return readable

    def encoded(self, entity: ConfigEntity, values: Mapping[str, str]) -> dict[str, str]:
        """The configs as ZooKeeper holds them. Raises ConfigError without ``password.encoder.secret``."""
        return {name: self._encoded(text) if _is_password(entity, name) else text for name, text in values.items()}

    def _encoded(self, text: str) -> str:
        if self._encoding is None:
            raise ConfigError("Password encoder secret not configured; set password.encoder.secret")
        return passwords.encode_anew(text, self._encoding, self._rng.randbytes)


def _is_password(entity: ConfigEntity, name: str) -> bool:
    return entity.kind == configs.BROKERS and is_password(name)
