"""The token by which a node logs in follows its source."""

import json
import random
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kpybroker.node.assembly import node_tokens
from kpybroker.node.assembly.node_tokens import AGAIN_AFTER_MS, NodeToken
from kpybroker.runtime.io.scheduler import ManualScheduler
from kpybroker.security.oauth.fetching import FetchFailed
from kpybroker.security.oauth.token_login import TOKEN_URL, TokenLogin, read_token_login


def write_token(file: Path, user: str) -> None:
    expires_s = ManualScheduler().now_ms() // 1000 + 3600
    parts = ({"alg": "ES256"}, {"sub": user, "exp": expires_s, "iat": expires_s - 3600})
    encoded = [urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    file.write_text(".".join([*encoded, "c2ln"]))


def source_of(file: Path, **options: str) -> TokenLogin:
    return read_token_login({TOKEN_URL: f"file://{file}"}.get, options, None)


def shown(token: NodeToken) -> tuple[str, dict[str, str]]:
    """The user and the extensions of the login that would begin now."""
    first = token.account.new_login("host")._exchange.first().decode()  # type: ignore[attr-defined]
    _, *pairs = first.strip("\x01").split("\x01")
    found = dict(pair.split("=", 1) for pair in pairs)
    claims = found.pop("auth").split(".")[1]
    user: str = json.loads(urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["sub"]
    return user, found


@pytest.fixture(autouse=True)
def _without_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    def at_once(
        loop: ManualScheduler, work: Callable[[], Any], done: Callable[[Any, BaseException | None], object], _name: str
    ) -> None:
        try:
            result = work()
        except FetchFailed as error:
            loop.call_soon(done, None, error)
        else:
            loop.call_soon(done, result, None)

    monkeypatch.setattr(node_tokens, "in_thread", at_once)


def test_another_source_counts_as_soon_as_its_first_token_is_there(tmp_path: Path) -> None:
    before, after, scheduler = tmp_path / "before", tmp_path / "after", ManualScheduler()
    write_token(before, "before")
    token = NodeToken(source_of(before), scheduler, random.Random(1))
    token.load()
    token.start()
    assert not token.follow(source_of(before))
    assert token.follow(source_of(after, extension_trace="1"))
    scheduler.run()
    assert shown(token) == ("before", {}), "nothing is there yet"
    write_token(after, "after")
    scheduler.advance(AGAIN_AFTER_MS)
    assert shown(token) == ("after", {"trace": "1"})


def test_a_token_of_the_former_source_that_comes_late_is_dropped(tmp_path: Path) -> None:
    before, after, scheduler = tmp_path / "before", tmp_path / "after", ManualScheduler()
    write_token(before, "before")
    write_token(after, "after")
    token = NodeToken(source_of(before), scheduler, random.Random(1))
    token.load()
    token._renew()  # its answer is on the way
    token.follow(source_of(after))
    write_token(before, "late")
    scheduler.run()
    assert shown(token)[0] == "after"
