"""Broker configs that are synonyms of one another: coarser units, and configs of one listener and of all listeners.

Pure facts of Kafka's ``DynamicBrokerConfig``; the synonyms of topic and group configs are beside their declarations.
"""

_GROUPS = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)
_BY_NAME = {name: group for group in _GROUPS for name in group} | {
    "log.flush.interval.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")
}
# Configs of one SASL mechanism of a listener: listener.name.<listener>.<mechanism>.<config>.
_OF_MECHANISM = (
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
    "connections.max.reauth.ms",
)
CERTIFICATES_OF_LISTENER = frozenset(
    {
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
"""The configs of keys and certificates that change while a listener is open."""


def broker_synonyms(name: str, *, match_listener_override: bool) -> tuple[str, ...]:
    """The names whose values count for ``name``, most specific first; only ``name`` if there are no others."""
    if name in _BY_NAME:
        return _BY_NAME[name]
    base = base_of_listener_config(name) if match_listener_override else None
    return (name,) if base is None else (name, base)


def base_of_listener_config(name: str) -> str | None:
    """The config of all listeners for one of a listener: ``max.connections`` for
    ``listener.name.internal.max.connections``; None for a config of no listener."""
    if not name.startswith("listener.name."):
        return None
    _, separator, base = name.removeprefix("listener.name.").partition(".")
    if not separator:
        return None
    base = base.removeprefix("oauthbearer.")  # the one mechanism that has configs of its own
    return next((config for config in _OF_MECHANISM if base.endswith(config)), base)
