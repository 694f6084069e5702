"""The options of Kerberos' login module: what a server and a client need."""

import pytest

from kpybroker.machines.sasl.jaas import BrokenJaas, JaasEntry
from kpybroker.machines.sasl.krb5_login import Krb5Login, of_client, of_server

SERVER = {"useKeyTab": "true", "storeKey": "True", "keyTab": "/k", "principal": "kafka/h@R"}


def entry(options: dict[str, str]) -> JaasEntry:
    return JaasEntry("com.sun.security.auth.module.Krb5LoginModule", options)


def test_a_server_logs_in_by_its_keytab() -> None:
    assert of_server(entry(SERVER), "kafka") == Krb5Login("kafka/h@R", True, "/k", "", "kafka")
    assert of_server(entry(SERVER | {"serviceName": "other"}), None).service == "other"


@pytest.mark.parametrize(
    ("changed", "service", "reason"),
    [
        ({"useKeyTab": "false", "keyTab": ""}, "kafka", "a server needs useKeyTab=true and storeKey=true"),
        ({"storeKey": "false"}, "kafka", "a server needs useKeyTab=true and storeKey=true"),
        ({"principal": ""}, "kafka", "there is no principal"),
        ({"principal": "kafka@R"}, "kafka", "the principal of a server has the form service/host@REALM"),
        ({"useKeyTab": "false"}, "kafka", "keyTab has no effect without useKeyTab=true"),
        ({"ticketCache": "/c"}, "kafka", "ticketCache has no effect without useTicketCache=true"),
        ({"serviceName": "other"}, "kafka", "serviceName=other differs from"),
        ({}, None, "there is no serviceName"),
        ({"principal": "a/b\0@R"}, "kafka", "must not hold the character NUL"),
    ],
)
def test_a_server_without_what_it_needs_is_refused(changed: dict[str, str], service: str | None, reason: str) -> None:
    with pytest.raises(BrokenJaas, match=reason):
        of_server(entry(SERVER | changed), service)


def test_a_client_logs_in_by_a_keytab_or_by_tickets() -> None:
    keytab = of_client(entry({"useKeyTab": "true", "keyTab": "/k", "principal": "u@R"}), "kafka")
    assert keytab == Krb5Login("u@R", True, "/k", "", "kafka")
    tickets = of_client(entry({"useTicketCache": "true", "ticketCache": "/c"}), "kafka")
    assert tickets == Krb5Login("", False, "", "/c", "kafka")
    with pytest.raises(BrokenJaas, match="neither a keytab"):
        of_client(entry({}), "kafka")
    with pytest.raises(BrokenJaas, match="no principal for the keytab"):
        of_client(entry({"useKeyTab": "true"}), "kafka")
