"""The configs of the authorizer: super users, and what is no such config."""

import pytest

from kpybroker.config import authorizer_configs
from kpybroker.config.broker import BrokerConfig
from kpybroker.machines.config_def import ConfigError
from kpybroker.runtime.calls.principal import Principal

STANDARD = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}


def test_super_users_are_separated_by_semicolons_and_may_be_distinguished_names() -> None:
    text = " User:admin;User:CN=broker-1,OU=a\\, b,O=c ; ;User:a:b;Team:x"
    config = BrokerConfig.load(None, {**STANDARD, "super.users": text})
    assert authorizer_configs.super_users(config.originals) == {
        Principal("User", "admin"),
        Principal("User", "CN=broker-1,OU=a\\, b,O=c"),
        Principal("User", "a:b"),
        Principal("Team", "x"),
    }
    assert not authorizer_configs.allows_without_acl(config.originals)
    config = BrokerConfig.load(None, {**STANDARD, "allow.everyone.if.no.acl.found": " TRUE "})
    assert authorizer_configs.allows_without_acl(config.originals)
    assert authorizer_configs.super_users(config.originals) == frozenset()


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        (
            {**STANDARD, "super.users": "User:a;admin"},
            "super.users: expected a string in format principalType:principal",
        ),
        ({**STANDARD, "super.users": "User:"}, "super.users: expected a string in format principalType:principalName"),
        (
            {**STANDARD, "allow.everyone.if.no.acl.found": "yes"},
            "allow.everyone.if.no.acl.found: 'yes' is neither true",
        ),
        ({"super.users": "User:a"}, "super.users: without authorizer.class.name everybody may do everything"),
        ({"allow.everyone.if.no.acl.found": "true"}, "allow.everyone.if.no.acl.found: without authorizer.class.name"),
        ({"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"}, "authorizer.class.name: kafka.security"),
    ],
)
def test_a_mistake_refuses_the_start_in_one_line(settings: dict[str, str], line: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        BrokerConfig.load(None, settings)
    assert str(refusal.value).startswith(line)
    assert "\n" not in str(refusal.value)
