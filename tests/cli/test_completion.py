"""The completion behind Tab, without a cluster: names of configs, and silence where nobody answers."""

import socket
import threading
from collections.abc import Iterator

import click
import pytest

from kpybroker.cli import completion, main


def offered(command: str, argument: str, begun: str, **given: object) -> list[str]:
    """The completions of a parameter of a command, given what stands before it."""
    names = command.split()
    found: click.Command | None = main
    context = click.Context(main)
    for name in names:
        assert isinstance(found, click.Group)
        found = found.get_command(context, name)
    assert found is not None
    inner = click.Context(found, info_name=names[-1])
    inner.params = dict(given)
    (parameter,) = (each for each in found.params if each.name == argument)
    return [each.value for each in parameter.shell_complete(inner, begun)]


def test_names_of_configs_are_those_of_the_named_kind_of_resource() -> None:
    assert offered("configs describe", "names", "retention.m", topic="t") == ["retention.ms"]
    assert offered("configs describe", "names", "log.retention.m", broker="1") == [
        "log.retention.minutes",
        "log.retention.ms",
    ]
    assert offered("configs describe", "names", "log.retention.ho", broker_defaults=True) == ["log.retention.hours"]
    assert offered("configs alter", "sets", "consumer.session", group="g") == ["consumer.session.timeout.ms"]
    assert offered("configs describe", "names", "inter", client_metrics="m") == ["interval.ms"]
    assert offered("topics create", "configs", "min.insync") == ["min.insync.replicas="]


def test_names_of_operations_are_offered_in_any_case() -> None:
    assert offered("acls explain", "operation", "des") == ["Describe", "DescribeConfigs", "DescribeTokens"]
    assert offered("acls add", "operations", "Idem") == ["IdempotentWrite"]


@pytest.fixture
def deaf() -> Iterator[str]:
    """Something that accepts connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize("command", ["topics describe", "groups describe"])
def test_completion_offers_nothing_without_a_reachable_broker(command: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    assert offered(command, "names", "", server=address) == []
    assert offered(command, "names", "", server="not an address at all:x") == []


def test_a_peer_that_says_nothing_is_given_up(deaf: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completion, "TIMEOUT_S", 0.05)
    answers: list[list[str]] = []
    asking = threading.Thread(target=lambda: answers.append(offered("topics describe", "names", "", server=deaf)))
    asking.start()
    asking.join(20)
    assert answers == [[]]


def test_completions_start_with_the_typed_prefix() -> None:
    assert [each.value for each in completion.items(["b", "ab", "aa", "ab"], "a")] == ["aa", "ab"]
