"""The configs that only Kafka's authorizers read: super users, resources without ACLs, and the ZooKeeper that holds
ACLs. Pure.

Kafka takes a misspelt flag for false, and so denies; here it refuses the start, as every other flag does.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from kpybroker.machines.config_def import ConfigError
from kpybroker.runtime.calls.principal import Principal, parse_principal

if TYPE_CHECKING:
    from kpybroker.config.broker_values import BrokerValues

AUTHORIZER: Final = "authorizer.class.name"
STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
ACL_AUTHORIZER: Final = "kafka.security.authorizer.AclAuthorizer"
"""The one of ZooKeeper mode."""
OWN_ZOOKEEPER: Final = "authorizer.zookeeper."
"""The prefix of the configs of an authorizer whose ACLs are in a ZooKeeper of their own."""
OF_OWN_ZOOKEEPER: Final = (
    f"{OWN_ZOOKEEPER}url",
    f"{OWN_ZOOKEEPER}connection.timeout.ms",
    f"{OWN_ZOOKEEPER}session.timeout.ms",
    f"{OWN_ZOOKEEPER}max.in.flight.requests",
)
SUPER_USERS: Final = "super.users"
ALLOWS_WITHOUT_ACL: Final = "allow.everyone.if.no.acl.found"


def check(config: "BrokerValues") -> None:
    """Raise ConfigError for an authorizer that does not exist here, or that cannot be configured like this."""
    name = config[AUTHORIZER]
    known = ACL_AUTHORIZER if config.is_in_zookeeper_mode else STANDARD_AUTHORIZER
    if name and name != known:
        mode = " in ZooKeeper mode" if config.is_in_zookeeper_mode else ""
        raise ConfigError(f"{AUTHORIZER}: {name} is not known here{mode}; use {known}")
    for name in OF_OWN_ZOOKEEPER[1:]:
        _whole_number(config.originals, name)
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


def of_own_zookeeper(originals: Mapping[str, str]) -> dict[str, str | int]:
    """The configs of the authorizer's own connection to ZooKeeper that are set, without their prefix. Raises
    ConfigError."""
    url = OF_OWN_ZOOKEEPER[0]
    found: dict[str, str | int] = {"url": originals[url]} if originals.get(url) else {}
    for name in OF_OWN_ZOOKEEPER[1:]:
        number = _whole_number(originals, name)
        if number is not None:
            found[name.removeprefix(OWN_ZOOKEEPER)] = number
    return found


def _whole_number(originals: Mapping[str, str], name: str) -> int | None:
    text = originals.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and 0 < int(text) < 2**31):
        raise ConfigError(f"{name}: {text[:40]!r} is not a whole number above 0")
    return int(text)
