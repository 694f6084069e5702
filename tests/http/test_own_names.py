"""The names under which the second port is served: no other site can pose as this node."""

import pytest

from kpybroker.runtime.http.names import check_host, host_in
from kpybroker.runtime.http.request import HttpRefused

HERE = "127.0.0.1:9404"


@pytest.mark.parametrize(
    "host", [HERE, "localhost:9404", "LOCALHOST", "[::1]:9404", "10.0.0.7:9404", "broker.example:9404"]
)
def test_hosts_that_are_this_node_for_sure_are_served(host: str) -> None:
    check_host({"host": host}, {"broker.example"})


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:9404",
        "localhost.evil.example",
        "",
        "127.0.0.1.nip.io",
        "evil.example.",
        "::1.evil",
    ],
)
def test_any_other_host_is_refused_since_its_name_may_be_pointed_here(host: str) -> None:
    with pytest.raises(HttpRefused, match=r"kpybroker\.http\.hosts"):
        check_host({"host": host}, set())


def test_a_host_is_found_in_every_form_of_the_header() -> None:
    assert [host_in(text) for text in ("A:1", "a.", "[::1]:5", "::1")] == ["a", "a", "::1", "::1"]
