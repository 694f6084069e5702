"""The configs that only Kafka's ``StandardAuthorizer`` reads: super users, and resources without ACLs. Pure.

Kafka takes a misspelt flag for false, and so denies; here it refuses the start, as every other flag does.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from kpybroker.calls.principal import Principal, parse_principal
from kpybroker.config.definition import ConfigError

if TYPE_CHECKING:
    from kpybroker.config.broker import BrokerConfig

AUTHORIZER: Final = "authorizer.class.name"
STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
SUPER_USERS: Final = "super.users"
ALLOWS_WITHOUT_ACL: Final = "allow.everyone.if.no.acl.found"


def check(config: "BrokerConfig") -> None:
    """Raise ConfigError for an authorizer that does not exist here, or that cannot be configured like this."""
    name = config[AUTHORIZER]
    if name and name != STANDARD_AUTHORIZER:
        raise ConfigError(f"{AUTHORIZER}: {name} is not known here; use {STANDARD_AUTHORIZER}")
    super_users(config.originals)
    allows_without_acl(config.originals)


def super_users(originals: Mapping[str, str]) -> frozenset[Principal]:
    """The principals of ``super.users``: separated by semicolons, since names may contain commas. Raises
    ConfigError."""
    names = [name.strip() for name in originals.get(SUPER_USERS, "").split(";")]
    try:
        return frozenset(parse_principal(name) for name in names if name)
    except ValueError as error:
        raise ConfigError(f"{SUPER_USERS}: {error}; semicolons separate several") from None


def allows_without_acl(originals: Mapping[str, str]) -> bool:
    """``allow.everyone.if.no.acl.found``. Raises ConfigError."""
    text = originals.get(ALLOWS_WITHOUT_ACL, "false").strip().lower()
    if text not in ("true", "false"):
        raise ConfigError(f"{ALLOWS_WITHOUT_ACL}: {text!r} is neither true nor false")
    return text == "true"
