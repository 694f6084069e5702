"""Passwords in configs of brokers, encrypted with ``password.encoder.secret`` (Kafka's ``EncryptingPasswordEncoder``).

The text of a password says how it was encrypted, so the configs about that count only for new ones. Takes the library
``cryptography``. Pure: randomness is given.
"""

import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from hashlib import pbkdf2_hmac
from typing import Final, NamedTuple

from kpybroker.machines.config_def import Password
from kpybroker.machines.zookeeper.tree.java_order import in_java_order

CIPHER: Final = "AES/CBC/PKCS5Padding"
"""The only cipher that is available here, and Kafka's default."""
KEY_FACTORY: Final = "PBKDF2WithHmacSHA512"
KEY_BITS: Final = (128, 192, 256)
SALT_BYTES: Final = 256
IV_BYTES: Final = 16
_KEY_FACTORY: Final = re.compile(r"PBKDF2WithHmac(SHA1|SHA224|SHA256|SHA384|SHA512)")
_BLOCK_BITS: Final = 128
_MOST_ITERATIONS: Final = 1_000_000


class Undecodable(ValueError):
    """An encrypted password that cannot be read, in words without it."""


class Encoding(NamedTuple):
    """The way in which passwords are encrypted."""

    secret: Password
    key_factory: str = KEY_FACTORY
    key_bits: int = 128
    iterations: int = 4_096


def encode(password: str, encoding: Encoding, salt: bytes, initialization_vector: bytes) -> str:
    """The text for a password."""
    key = _key(encoding.secret, encoding.key_factory, encoding.key_bits, salt, encoding.iterations)
    fields = {
        "keyFactoryAlgorithm": encoding.key_factory,
        "cipherAlgorithm": CIPHER,
        "keyLength": str(encoding.key_bits),
        "salt": b64encode(salt).decode(),
        "iterations": str(encoding.iterations),
        "encryptedPassword": b64encode(_encrypted(key, initialization_vector, password.encode())).decode(),
        "passwordLength": str(_java_length(password)),
        "initializationVector": b64encode(initialization_vector).decode(),
    }
    return ",".join(f"{name}:{fields[name]}" for name in in_java_order(fields))


def encode_anew(password: str, encoding: Encoding, random_bytes: Callable[[int], bytes]) -> str:
    """The text for a password, with a salt and an initialization vector of its own."""
    return encode(password, encoding, random_bytes(SALT_BYTES), random_bytes(IV_BYTES))


def decode(text: str, secret: Password) -> str:
    """The password in such a text. Raises Undecodable."""
    fields = {name.strip(): value.strip() for name, _, value in (part.partition(":") for part in text.split(","))}
    try:
        if fields["cipherAlgorithm"] != CIPHER:
            raise Undecodable(f"its cipher is not {CIPHER}")
        bits, iterations = int(fields["keyLength"]), int(fields["iterations"])
        if bits not in KEY_BITS or not 0 < iterations <= _MOST_ITERATIONS:
            raise Undecodable("its keyLength or its iterations are out of bounds")
        key = _key(secret, fields["keyFactoryAlgorithm"], bits, b64decode(fields["salt"]), iterations)
        vector, content = b64decode(fields["initializationVector"]), b64decode(fields["encryptedPassword"])
        password = _decrypted(key, vector, content).decode()
        if str(_java_length(password)) != fields["passwordLength"]:
            raise Undecodable("password.encoder.secret is another one")
    except KeyError as missing:
        raise Undecodable(f"it has no {missing.args[0]}") from None
    except Undecodable:
        raise
    except ValueError:
        raise Undecodable("password.encoder.secret is another one, or the text is damaged") from None
    return password


def is_key_factory(name: str) -> bool:
    """Whether keys can be derived in this way."""
    return _KEY_FACTORY.fullmatch(name) is not None


def _key(secret: Password, key_factory: str, bits: int, salt: bytes, iterations: int) -> bytes:
    known = _KEY_FACTORY.fullmatch(key_factory)
    if known is None:
        raise Undecodable(f"its key factory {key_factory[:40]!r} is not available")
    return pbkdf2_hmac(known[1].lower(), secret.value.encode(), salt, iterations, bits // 8)


def _encrypted(key: bytes, vector: bytes, content: bytes) -> bytes:
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    from cryptography.hazmat.primitives.padding import PKCS7

    padding = PKCS7(_BLOCK_BITS).padder()
    cipher = Cipher(algorithms.AES(key), modes.CBC(vector)).encryptor()
    return cipher.update(padding.update(content) + padding.finalize()) + cipher.finalize()


def _decrypted(key: bytes, vector: bytes, content: bytes) -> bytes:
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    from cryptography.hazmat.primitives.padding import PKCS7

    cipher = Cipher(algorithms.AES(key), modes.CBC(vector)).decryptor()
    padding = PKCS7(_BLOCK_BITS).unpadder()
    return padding.update(cipher.update(content) + cipher.finalize()) + padding.finalize()


def _java_length(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
