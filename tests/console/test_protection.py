"""Requests of other sites, strangers and forgers are refused before anything else is done."""

import pytest

from kpybroker.monitoring.console.protection import check_site, check_token, token_of
from kpybroker.runtime.http.request import HttpRefused

HERE = "127.0.0.1:9404"


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("GET", {}),
        ("POST", {}),
        ("POST", {"sec-fetch-site": "same-origin", "origin": f"http://{HERE}", "host": HERE}),
        ("POST", {"sec-fetch-site": "same-origin", "origin": "null", "host": HERE}),
        ("POST", {"sec-fetch-site": "same-origin", "origin": "https://console.example", "host": HERE}),
        ("POST", {"origin": f"http://{HERE}", "host": HERE}),
        ("POST", {"origin": "https://console.example", "host": "console.example"}),
        ("POST", {"origin": "https://console.example", "host": "Console.Example:443"}),
        ("POST", {"origin": "http://[::1]", "host": "[::1]:80"}),
        ("GET", {"sec-fetch-site": "none"}),
        ("GET", {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}),
    ],
)
def test_own_pages_and_clients_without_a_browser_are_served(method: str, headers: dict[str, str]) -> None:
    check_site(method, headers)


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("POST", {"sec-fetch-site": "cross-site"}),
        ("POST", {"sec-fetch-site": "same-site"}),
        ("POST", {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}),
        ("GET", {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}),
        ("POST", {"origin": "http://evil.example", "host": HERE}),
        ("POST", {"origin": "null", "host": HERE}),
        ("POST", {"origin": "http://127.0.0.1:9999", "host": HERE}),
        ("POST", {"origin": "", "host": HERE}),
        ("POST", {"origin": HERE, "host": HERE}),
        ("POST", {"origin": "http://", "host": ""}),
        ("POST", {"origin": f"file://{HERE}", "host": HERE}),
        ("POST", {"origin": "https://console.example:80", "host": "console.example"}),
        ("POST", {"sec-fetch-site": "", "host": HERE}),
        ("POST", {"sec-fetch-site": "cross-site", "origin": f"http://{HERE}", "host": HERE}),
    ],
)
def test_requests_of_other_sites_are_refused(method: str, headers: dict[str, str]) -> None:
    with pytest.raises(HttpRefused):
        check_site(method, headers)


def test_a_token_is_that_of_one_user_and_one_run() -> None:
    token = token_of(b"secret", "User:ann")
    check_token(token, token_of(b"secret", "User:ann"))
    for forged in ("", token[:-1], token_of(b"secret", "User:eve"), token_of(b"other", "User:ann"), "é"):
        with pytest.raises(HttpRefused):
            check_token(forged, token)
