"""The doctor's view of listeners with TLS and logins: certificates against advertised hosts, ends, protocols."""

from datetime import UTC, datetime, timedelta

import pytest

from kpybroker.cli.diagnoses import GOOD, PROBLEM, UNKNOWN, WARNING
from kpybroker.cli.listener_addresses import ListenerAddress, listeners_of
from kpybroker.cli.listener_diagnoses import ProbedListener, is_for, listeners
from kpybroker.client.certificate import Certificate

NOW = datetime(2026, 5, 1, tzinfo=UTC)
SECURED = ListenerAddress(1, "OUT", "kafka.example", 9093, "SASL_SSL")


def certificate(*names: str, days: float = 90) -> Certificate:
    return Certificate("CN=kafka", "CN=us", names, NOW - timedelta(days=9), NOW + timedelta(days=days))


def dialled(found: Certificate | None, listener: ListenerAddress = SECURED, *mechanisms: str) -> ProbedListener:
    has_tls = listener.protocol.endswith("SSL")
    return ProbedListener(listener, has_tls, not has_tls, found is not None, found, mechanisms)


@pytest.mark.parametrize(
    ("found", "levels", "reported"),
    [
        (certificate("kafka.example"), [GOOD], "valid until 2026-07-30; logins by SCRAM-SHA-512"),
        (certificate("kafka.example", days=10), [WARNING], "expires on 2026-05-11, in 10 days"),
        (certificate("kafka.example", days=-1), [PROBLEM], "expired on 2026-04-30"),
        (certificate("a", "b"), [PROBLEM], "is for a, b, and not for kafka.example, where clients are sent"),
        (certificate(), [PROBLEM], "is for no host, and not for kafka.example"),
        (None, [UNKNOWN], "could not be read: it shows none"),
    ],
)
def test_a_certificate_is_compared_with_what_is_advertised(
    found: Certificate | None, levels: list[str], reported: str
) -> None:
    findings = list(listeners([dialled(found, SECURED, "SCRAM-SHA-512")], NOW))
    assert [each.level for each in findings] == levels
    assert reported in findings[0].message
    assert all(each.remedy for each in findings if each.level in (PROBLEM, WARNING))


def test_a_listener_that_speaks_another_protocol_or_nothing_is_named() -> None:
    (wrong,) = listeners([dialled(None)._replace(has_tls=False, is_plain=True)], NOW)
    assert (wrong.level, "speaks Kafka without TLS" in wrong.message) == (PROBLEM, True)
    (silent,) = listeners([dialled(None)._replace(has_tls=False)], NOW)
    assert (silent.level, "does not answer from here" in silent.message) == (UNKNOWN, True)
    assert list(listeners([dialled(None, SECURED._replace(protocol="PLAINTEXT"))], NOW)) == []


def test_passwords_without_tls_are_a_warning_beyond_this_machine() -> None:
    clear = SECURED._replace(protocol="SASL_PLAINTEXT")
    assert [each.level for each in listeners([dialled(None, clear, "PLAIN")], NOW)] == [WARNING, GOOD]
    assert [each.level for each in listeners([dialled(None, clear._replace(host="::1"), "PLAIN")], NOW)] == [GOOD]


@pytest.mark.parametrize(
    ("name", "host", "expected"),
    [
        ("kafka.example", "KAFKA.example.", True),
        ("*.example", "kafka.example", True),
        ("*.example", "a.kafka.example", False),
        ("::1", "0:0:0:0:0:0:0:1", True),
        ("127.0.0.1", "127.0.0.2", False),
        ("*.0.0.1", "127.0.0.1", False),
    ],
)
def test_names_match_as_clients_match_them(name: str, host: str, expected: bool) -> None:
    assert is_for(certificate(name), host) == expected


def test_listeners_are_those_that_clients_may_use() -> None:
    configs = {
        "listeners": "OUT://0.0.0.0:9093,IN://:9092,CONTROLLER://:9094",
        "listener.security.protocol.map": "OUT:SASL_SSL,IN:PLAINTEXT,CONTROLLER:SSL",
        "controller.listener.names": "CONTROLLER",
    }
    found = listeners_of(1, configs, SECURED)
    assert [(each.name, each.host, each.port, each.protocol) for each in found] == [
        ("OUT", "kafka.example", 9093, "SASL_SSL"),
        ("IN", "kafka.example", 9092, "PLAINTEXT"),
    ]
    assert listeners_of(1, {}, SECURED) == [SECURED]
