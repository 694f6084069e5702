"""Nodes that log in to each other by OAUTHBEARER, with tokens of an identity provider: settings for either program."""

from collections.abc import Sequence
from pathlib import Path

from joserfc.jwk import ECKey

from kpybroker.config.oauth import HANDLER, SECURED_HANDLER
from kpybroker.machines.sasl.jaas import OAUTHBEARER_MODULE
from kpybroker.machines.sasl.oauthbearer import NAME
from kpybroker.security.oauth import assertions, token_login
from kpybroker.testing.oidc import OidcProvider

NODE, SECRET = "node", "node's secret"


def between_nodes(
    provider: OidcProvider, listeners: Sequence[str] = ("INTERNAL", "CONTROLLER"), protocol: str = "SASL_PLAINTEXT"
) -> dict[str, str]:
    """The properties by which nodes log in so on these listeners. Clients have PLAINTEXT."""
    provider.clients[NODE] = SECRET
    found = {
        "listener.security.protocol.map": ",".join(
            ["PLAINTEXT:PLAINTEXT", *(f"{name}:{protocol}" for name in listeners)]
        ),
        "inter.broker.listener.name": "INTERNAL",
        "sasl.enabled.mechanisms": NAME,
        "sasl.mechanism.inter.broker.protocol": NAME,
        "sasl.mechanism.controller.protocol": NAME,
        "sasl.oauthbearer.jwks.endpoint.url": provider.jwks_url,
        "sasl.oauthbearer.expected.audience": "kafka",
        "sasl.oauthbearer.expected.issuer": provider.issuer,
        token_login.TOKEN_URL: provider.token_url,
        token_login.CLIENT_ID: NODE,
        token_login.CLIENT_SECRET: SECRET,
        "kpybroker.oauthbearer.allowed.urls": f"{provider.jwks_url},{provider.token_url}",
    }
    for name in listeners:
        prefix = f"listener.name.{name.lower()}.oauthbearer"
        found[f"{prefix}.sasl.jaas.config"] = f"{OAUTHBEARER_MODULE} required;"
        found[f"{prefix}.{HANDLER}"] = SECURED_HANDLER
        found[f"{prefix}.{token_login.HANDLER}"] = token_login.SECURED_HANDLER
    return found


def by_assertions(provider: OidcProvider, directory: Path) -> dict[str, str]:
    """The properties by which nodes get tokens for assertions that they sign, in place of a secret. To be added to
    `between_nodes`."""
    key = ECKey.generate_key("P-256")
    file = directory / "assertions.pem"
    file.write_bytes(key.as_pem(private=True))
    provider.issuers[NODE] = key.as_pem(private=False)
    provider.clients.clear()
    return {
        token_login.RETRIEVER: token_login.BEARER_RETRIEVER,
        assertions.ALGORITHM: "ES256",
        assertions.KEY_FILE: str(file),
        assertions.ISSUER: NODE,
        f"{assertions.PREFIX}claim.sub": NODE,
        f"{assertions.PREFIX}claim.aud": provider.token_url,
    }
