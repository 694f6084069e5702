"""The library of signatures is loaded only where signed tokens are checked, and its absence is one line."""

import subprocess
import sys
from pathlib import Path

import pytest
from running_node import RunningNode

from kpybroker.config.oauth import HANDLER, UNSECURED_HANDLER
from kpybroker.hosts.quorum.recovery import StartRefused
from kpybroker.testing.oidc import OidcProvider
from support import oauth_wire

PROGRAM = """
import sys
from kpybroker.config.broker import BrokerConfig
import kpybroker.node, kpybroker.testing, kpybroker.client.client
unwanted = ("joserfc", "cryptography", "kpybroker.security.oauth", "http.client")
found = [name for name in sys.modules if name.startswith(unwanted)]
assert not found, found
"""


def test_a_plain_node_loads_nothing_of_oauth() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_signed_tokens_without_the_library_refuse_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with OidcProvider(algorithm="ES256") as provider:
        settings = {**provider.broker_config(), "log.dirs": str(tmp_path)}
        for name in list(sys.modules):
            if name.startswith("joserfc") or name in (
                "kpybroker.node.assembly.provider_keys",
                "kpybroker.security.oauth.key_set",
            ):
                monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, "joserfc", None)
        with pytest.raises(StartRefused, match=r"needs the package joserfc\S*: pip install 'kpybroker\[security\]'"):
            RunningNode(settings)
        unsigned = {**settings, f"listener.name.oidc.oauthbearer.{HANDLER}": UNSECURED_HANDLER}
        node = RunningNode(unsigned)
        try:
            with oauth_wire.Wire(node.node.ports["OIDC"]) as wire:
                client = oauth_wire.Session(wire, provider)
                client.shake()
                assert client.show(oauth_wire.unsigned()) == oauth_wire.ENTERED
        finally:
            node.stop()
