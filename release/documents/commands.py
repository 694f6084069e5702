"""docs/cli.md: every command with its options, from the commands.

A test compares the file with it.
"""

import re
from collections.abc import Iterator

import click

from kpybroker.cli import main
from kpybroker.client import client_configs
from release.documents import kafka_tools

SERVER = "server"
"""The option that is described once for all commands that have it."""
_HEAD = """\
# The command line

Written by `make tables` from the commands; edit `kpybroker/cli/` instead.

`kpybroker start` and `format` run a node, `check`, `dump-log` and `metadata` read its files, and `audit` reads files or
asks a cluster. All others are clients of any Kafka cluster: `-b, --bootstrap-server HOST:PORT` or
`KPYBROKER_BOOTSTRAP_SERVER` names it, 127.0.0.1:9092 if neither does. Options have the names that they have in Kafka's
tools, kcat and rpk. Results are tables, or with `--json` one JSON document; `consume`, `produce` and `dump-log` print a
line for each record. Results go to stdout, everything else goes to stderr.

| exit code | |
|---:|---|
| 0 | fine |
| 1 | the cluster refused; the line ends with Kafka's name of the error. `check`, `audit`: something is damaged |
| 2 | wrong usage |
| 3 | no broker could be reached, the connection was lost, or records were not delivered in time |
| 4 | `doctor`, `dump-log`, `find-hanging`, `replicas verify`, `balance` or `roll-plan` found something not in order |
| 130 | Ctrl-C |

`consume` and `produce` wait for a broker that goes away: one line on stderr says so, and another one that it is back.
`-X` sets properties of Kafka's clients, under Kafka's names or librdkafka's. The tables below list the ones that have
an effect, with this client's defaults; `-X list` prints them too.

Tab completes commands, options, topics, groups and names of configs, asking the cluster for up to a second:

```sh
eval "$(_KPYBROKER_COMPLETE=bash_source kpybroker)"                       # in ~/.bashrc
eval "$(_KPYBROKER_COMPLETE=zsh_source kpybroker)"                        # in ~/.zshrc
_KPYBROKER_COMPLETE=fish_source kpybroker > ~/.config/fish/completions/kpybroker.fish
```

[From Kafka's tools](#from-kafkas-tools) at the end has the command for each tool of Apache Kafka.
"""
_TOOLS = """
## From Kafka's tools

Each script of Kafka's `bin/`. Those that talk to a cluster work with kpybroker, and our commands with Apache Kafka.

"""


def document() -> str:
    """The content of docs/cli.md."""
    parts = [_HEAD]
    with click.Context(main, info_name="kpybroker") as context:
        for name in main.list_commands(context):
            command = main.get_command(context, name)
            assert command is not None
            parts.extend(_section(command, context, name, 2))
    return "".join((*parts, _TOOLS, kafka_tools.table()))


def _section(command: click.Command, parent: click.Context, name: str, depth: int) -> Iterator[str]:
    context = click.Context(command, parent=parent, info_name=name)
    yield f"\n{'#' * depth} {context.command_path}\n\n{_text(command.help or '')}\n"
    if isinstance(command, click.Group):
        yield from _options(command, context)
        for child in sorted(command.list_commands(context)):
            found = command.get_command(context, child)
            assert found is not None
            yield from _section(found, context, child, depth + 1)
        return
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"\n    {context.command_path} {usage}\n"
    yield from _options(command, context)
    if name in client_configs.WITH_OPTION:
        yield from _properties(name)


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    rows = [
        record
        for each in command.params
        if isinstance(each, click.Option)
        and each.name != SERVER
        and (record := each.get_help_record(context)) is not None
    ]
    if rows:
        yield "\n| option | |\n|---|---|\n"
        yield from (f"| `{_cell(names)}` | {_cell(text)} |\n" for names, text in rows)


def _properties(command: str) -> Iterator[str]:
    yield "\n| `-X` | default | value | |\n|---|---|---|---|\n"
    for each in client_configs.of_command(command).values():
        cells = f"{client_configs.shown(each)} | {each.type.text} | {_cell(client_configs.meaning(each))}"
        yield f"| `{each.name}` | {cells} |\n"


def _text(text: str) -> str:
    """A docstring's paragraphs, their lines joined."""
    paragraphs = re.split(r"\n\s*\n", text.strip())
    return "\n\n".join(re.sub(r"\s+", " ", paragraph) for paragraph in paragraphs)


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip().replace("|", "\\|").replace("<", "\\<")
