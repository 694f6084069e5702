"""Addresses as Java writes them: ACLs compare them as text."""

import pytest

from kpybroker.runtime.calls.address import java_address


@pytest.mark.parametrize(
    ("host", "text"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
        ("2001:DB8::00ff", "2001:db8:0:0:0:0:0:ff"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("no:address", "no:address"),
    ],
)
def test_an_address_is_written_as_java_writes_it(host: str, text: str) -> None:
    assert java_address(host) == text
