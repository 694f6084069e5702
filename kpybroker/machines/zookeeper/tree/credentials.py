"""SCRAM credentials of users, as configs of their znodes (Kafka's ``ScramCredentialUtils``). Pure."""

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from typing import Final

from kpybroker.machines.sasl.scram import ScramCredential
from kpybroker.machines.zookeeper.tree.contents import InvalidZnode

_NAMES: Final = frozenset(("salt", "stored_key", "server_key", "iterations"))


def encode_credential(credential: ScramCredential) -> str:
    """The value of the config, whose name is that of the mechanism."""
    salt, stored, server = (b64encode(each).decode() for each in credential[:3])
    return f"salt={salt},stored_key={stored},server_key={server},iterations={credential.iterations}"


def decode_credential(path: str, text: str) -> ScramCredential:
    """The credential in such a value of the znode ``path``. Raises InvalidZnode without the value, which is secret."""
    fields = {name: value for name, _, value in (part.partition("=") for part in text.split(","))}
    iterations = fields.get("iterations", "")
    if fields.keys() != _NAMES or not (iterations.isascii() and iterations.isdecimal() and len(iterations) < 10):
        raise InvalidZnode(path, "it has a SCRAM credential without salt, stored_key, server_key or iterations")
    try:
        keys = [b64decode(fields[name], validate=True) for name in ("salt", "stored_key", "server_key")]
    except Base64Error:
        raise InvalidZnode(path, "it has a SCRAM credential that is not base64") from None
    return ScramCredential(keys[0], keys[1], keys[2], int(iterations))
