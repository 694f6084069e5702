"""Every command line of ours that a document shows is one that our program understands."""

import itertools
import re
import shlex

import click
import pytest
from sources import ROOT, project_files

from kpybroker.cli import main

WRITTEN = "docs/cli.md"
"""It is made from the commands."""
DOCUMENTS = [path for path in project_files() if path.suffix == ".md" and str(path.relative_to(ROOT)) != WRITTEN]
FENCE = re.compile(r"^```(?:sh|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
IN_FENCE = re.compile(r"(?:^ *|^\$ |\| |nohup )kpybroker (.+)$", re.MULTILINE)
IN_TABLE = re.compile(r"^\|.*?`kpybroker ([^`\[]+)`", re.MULTILINE)


def command_lines() -> list[str]:
    """The command lines of shell examples and of tables; what stands in prose may be a part of one."""
    found: set[str] = set()
    for path in DOCUMENTS:
        text = path.read_text()
        found.update(line for block in FENCE.findall(text) for line in IN_FENCE.findall(block))
        found.update(IN_TABLE.findall(text))
    return sorted(found)


def words_of(line: str) -> list[str]:
    """The words of a shell's command line, up to a pipe, a redirection or the like."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    return list(itertools.takewhile(lambda word: not set(word) <= set("|&;<>"), lexer))


def parse(words: list[str]) -> None:
    """Read a command line as click does, and do nothing. click.UsageError for a wrong one."""
    command: click.Command = main
    context = None
    while True:
        context = command.make_context(words[0] if words else "kpybroker", words, parent=context)
        if not isinstance(command, click.Group):
            return
        rest = [*context._protected_args, *context.args]
        if not rest and command.invoke_without_command:
            return
        _, found, words = command.resolve_command(context, rest)
        assert found is not None
        command = found


@pytest.mark.parametrize("line", command_lines())
def test_a_command_line_that_is_shown_is_understood(line: str) -> None:
    words = words_of(line)
    try:
        parse(words)
    except (click.exceptions.Exit, click.exceptions.NoArgsIsHelpError):
        return
    except click.BadParameter as error:
        if "does not exist" not in error.format_message() and "No such file" not in error.format_message():
            raise
