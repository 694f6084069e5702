"""The challenges of SCRAM users and delegation tokens that do not exist, which follow the metadata.

Imported only where a listener has logins.
"""

import hashlib
from typing import cast

from kpybroker.config.broker import BrokerConfig
from kpybroker.config.delegation_tokens import token_secret
from kpybroker.machines.metadata.delta import MetadataDelta
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.machines.metadata.loader import Metadata
from kpybroker.machines.sasl.delegation_token import TokenSecret
from kpybroker.machines.sasl.made_up_credentials import MadeUpCredentials
from kpybroker.machines.sasl.scram import ScramCredential, ScramMechanism
from kpybroker.machines.sasl.token_logins import TokenLogins
from kpybroker.node.assembly.logins import MakeUpUser


def strangers(config: BrokerConfig, quorum: Metadata, by_token: TokenLogins | None) -> MakeUpUser:
    """The function that makes up credentials of users that do not exist."""
    key = token_secret(config)
    made_up = MadeUpCredentials(lambda: secret_of_nodes(quorum.image, key))

    def changed(image: MetadataImage, delta: MetadataDelta) -> None:
        for changed_key in delta.kept.get("scram_credentials", ()):
            code, name = cast("tuple[int, str]", changed_key)
            record = image.scram_credentials.get((code, name))
            if record is None:
                made_up.gone(code, name)
            else:
                made_up.changed(code, name, record.salt, record.iterations)

    quorum.subscribe(changed)
    for (code, name), record in quorum.image.scram_credentials.items():
        made_up.changed(code, name, record.salt, record.iterations)

    def make_up(mechanism: ScramMechanism, name: str, is_token: bool) -> ScramCredential:  # noqa: FBT001
        return made_up.of(mechanism, name) if by_token is None or not is_token else by_token.made_up(mechanism, name)

    return make_up


def secret_of_nodes(image: MetadataImage, tokens: TokenSecret | None) -> bytes:
    """A secret that all nodes of a cluster know, and only clients that may list its users anyway: the id of a directory
    is in the answer to DescribeQuorum, which takes the same permission. The key of delegation tokens comes first: it
    outlives brokers."""
    if tokens is not None:
        return tokens.salt_of("the secret of nodes", image.cluster_id)
    directories = image.brokers[min(image.brokers)].directories if image.brokers else ()
    return hashlib.sha256(image.cluster_id.encode() + min(directories, default=b"")).digest()
