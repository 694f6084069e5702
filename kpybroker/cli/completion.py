"""Completion in the shell: topics, groups and names of configs; nothing if the cluster does not answer soon.

Invariant: completing never fails and never takes longer than its time-out; the terminal is the user's.
"""

from collections.abc import Callable, Iterable

import click
from click.shell_completion import CompletionItem

from kpybroker.cli import DEFAULT_SERVER, command_config
from kpybroker.client.client import Client, ClientSettings
from kpybroker.client.connection import Unreachable
from kpybroker.machines.errors import KafkaError
from kpywire.errors import Malformed

TIMEOUT_S = 1.0

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def _from_cluster(names_of: Callable[[Client], Iterable[str]]) -> Complete:
    def complete(context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
        try:
            with Client(*_asked(context)) as client:
                return items(names_of(client), begun)
        except (KafkaError, Unreachable, Malformed, ValueError, click.ClickException):
            return []

    return complete


def _asked(context: click.Context) -> tuple[str, float, ClientSettings | None]:
    """The servers to ask, the time-out, and what ``--command-config`` sets."""
    server = str(context.params.get("server") or DEFAULT_SERVER)
    if command_config.path_of(context) is None:
        return server, TIMEOUT_S, None
    from kpybroker.cli.client_settings import admin_settings

    return command_config.server_of(context, server), TIMEOUT_S, admin_settings(context)[1]


def items(names: Iterable[str], begun: str) -> list[CompletionItem]:
    """The names with this beginning, in order."""
    return [CompletionItem(name) for name in sorted(set(names)) if name.startswith(begun)]


def _topic_names(client: Client) -> Iterable[str]:
    return (topic.name or "" for topic in client.topics())


def _group_names(client: Client) -> Iterable[str]:
    from kpybroker.client.group_listing import list_groups

    return (group.group_id for group in list_groups(client))


def _principal_names(client: Client) -> Iterable[str]:
    from kpybroker.client.acl_requests import describe

    return (acl.principal for acl in describe(client))


def _resource_names(client: Client) -> Iterable[str]:
    yield "cluster"
    yield from (f"topic:{name}" for name in _topic_names(client))
    yield from (f"group:{name}" for name in _group_names(client))


topics = _from_cluster(_topic_names)
groups = _from_cluster(_group_names)
principals = _from_cluster(_principal_names)
"""The principals of the ACLs that are there."""
resources = _from_cluster(_resource_names)
"""Resources as ``kpybroker acls explain`` takes them."""


def operations(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Names of operations that ACLs allow or deny."""
    from kpybroker.cli.acl_options import OPERATIONS

    return [CompletionItem(name) for name in OPERATIONS if name.lower().startswith(begun.lower())]


def topic_configs(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Names of topic configs, with the ``=`` that a value follows."""
    from kpybroker.config.topic_configs import TOPIC_CONFIGS

    return items((f"{name}=" for name, key in TOPIC_CONFIGS.items() if not key.internal), begun)


def config_names(context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Names of the configs of the kind of resource that the command line names so far."""
    from kpybroker.config.broker_configs import BROKER_CONFIGS
    from kpybroker.config.group_configs import CLIENT_METRICS_CONFIGS, GROUP_CONFIGS
    from kpybroker.config.topic_configs import TOPIC_CONFIGS

    named = context.params
    if named.get("broker") is not None or named.get("broker_defaults"):
        table = BROKER_CONFIGS
    elif named.get("group"):
        table = GROUP_CONFIGS
    elif named.get("client_metrics"):
        table = CLIENT_METRICS_CONFIGS
    else:
        table = TOPIC_CONFIGS
    return items((name for name, key in table.items() if not key.internal), begun)
