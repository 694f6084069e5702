"""Writes docs/cli.md: every command with its options, from the commands. ``python -m kpybroker.cli.document``.

A test holds the file against it.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from kpybroker.cli import main

SERVER = "server"
"""Said once for all commands that have it."""
_HEAD = """\
# The command line

Written by `python -m kpybroker.cli.document` from the commands; edit `kpybroker/cli/` instead.

`kpybroker start` and `format` run a node, `check`, `dump-log` and `metadata` read its files. All others are clients
of any Kafka cluster: `-b, --bootstrap-server HOST:PORT` or `KPYBROKER_BOOTSTRAP_SERVER` names it, 127.0.0.1:9092 if
nothing does. Options are called as in Kafka's tools, kcat and rpk. People get tables, programs `--json`: one document
on stdout, of `consume`, `produce` and `dump-log` a line for each record. What is said beside the result goes to
stderr.

| exit code | |
|---:|---|
| 0 | fine |
| 1 | the cluster refused; the line ends with Kafka's name of the error. Of `check`: something is damaged |
| 2 | wrong usage |
| 3 | no broker could be reached, or the connection was lost |
| 4 | what was looked at is not in order: `doctor` found a problem, `dump-log` damage |
| 130 | Ctrl-C |

Tab completes commands, options, topics, groups and names of configs, asking the cluster for up to a second:

```sh
eval "$(_KPYBROKER_COMPLETE=bash_source kpybroker)"                       # in ~/.bashrc
eval "$(_KPYBROKER_COMPLETE=zsh_source kpybroker)"                        # in ~/.zshrc
_KPYBROKER_COMPLETE=fish_source kpybroker > ~/.config/fish/completions/kpybroker.fish
```

[from-apache-kafka.md](from-apache-kafka.md#commands) has them beside Kafka's tools.
"""


def document() -> str:
    """The content of docs/cli.md."""
    parts = [_HEAD]
    with click.Context(main, info_name="kpybroker") as context:
        for name in main.list_commands(context):
            command = main.get_command(context, name)
            assert command is not None
            parts.extend(_section(command, context, name, 2))
    return "".join(parts)


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


def _text(text: str) -> str:
    """A docstring's paragraphs, their lines joined."""
    paragraphs = re.split(r"\n\s*\n", text.strip())
    return "\n\n".join(re.sub(r"\s+", " ", paragraph) for paragraph in paragraphs)


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip().replace("|", "\\|").replace("<", "\\<")


def write() -> None:
    """Write the file whose path is the argument, docs/cli.md by default."""
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/cli.md")
    path.write_text(document(), encoding="utf-8")


if __name__ == "__main__":
    write()
