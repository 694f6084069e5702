"""``kpybroker metadata``: look around in a cluster's metadata on disk, as in kafka-metadata-shell."""

import shlex
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from kpybroker.cli import metadata_tree
from kpybroker.cli.metadata_source import NoMetadata, read_image
from kpybroker.cli.metadata_tree import NoSuchNode, Tree
from kpybroker.cli.options import quiet_end
from kpybroker.cli.tables import printable, show_json
from kpystorage.reading_disk import ReadingDisk

COMMANDS = "ls, cat, tree, find [PATH], cd, pwd, exit"


@click.group(name="metadata", invoke_without_command=True)
@click.option("-d", "--directory", type=click.Path(path_type=Path), help="A log directory, or its metadata log.")
@click.option("-s", "--snapshot", type=click.Path(path_type=Path), help="A single snapshot or segment.")
@click.pass_context
def command(context: click.Context, directory: Path | None, snapshot: Path | None) -> None:
    """Look around in the metadata of a cluster on disk: ls, cat, tree, find; without any of them, a small shell.

    The log directory is ./data if nothing else is said.
    """
    if directory is not None and snapshot is not None:
        raise click.UsageError("--directory and --snapshot exclude each other")
    try:
        image = read_image(ReadingDisk(), snapshot or directory or Path("data"))
        context.obj = metadata_tree.tree_of(image)
    except NoMetadata as error:
        raise click.ClickException(str(error)) from None
    if context.invoked_subcommand is None:
        with quiet_end():
            _shell(context.obj)


@command.command()
@click.argument("paths", metavar="[PATH]...", nargs=-1)
@click.pass_obj
def ls(tree: Tree, paths: tuple[str, ...]) -> None:
    """List what is in directories."""
    _print("ls", (line for path in paths or ("/",) for line in metadata_tree.listing(tree, path)))


@command.command()
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@click.pass_obj
def cat(tree: Tree, paths: tuple[str, ...]) -> None:
    """Print what leaves say."""
    _print("cat", (metadata_tree.content(tree, path) for path in paths))


@command.command("tree")
@click.argument("paths", metavar="[PATH]...", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def tree_(tree: Tree, paths: tuple[str, ...], as_json: bool) -> None:
    """Print everything from a path down."""
    if as_json:
        try:
            found = [metadata_tree.walk(tree, path) for path in paths or ("/",)]
        except NoSuchNode as error:
            raise click.ClickException(str(error)) from None
        show_json(dict(found))
    else:
        _print("tree", (line for path in paths or ("/",) for line in metadata_tree.drawing(tree, path)))


@command.command()
@click.argument("paths", metavar="[PATH]...", nargs=-1)
@click.option("--name", metavar="GLOB", default="*", help="Print only paths whose last part matches, such as '*.ms'.")
@click.pass_obj
def find(tree: Tree, paths: tuple[str, ...], name: str) -> None:
    """Print every path from here down."""
    _print("find", (line for path in paths or ("/",) for line in metadata_tree.find(tree, path, name)))


def _print(word: str, lines: Iterable[str]) -> None:
    with quiet_end():
        try:
            for line in lines:
                click.echo(printable(line))
        except NoSuchNode as error:
            raise click.ClickException(f"{word}: {error}") from None


def _shell(tree: Tree) -> None:
    """Read commands until the end of the input."""
    here = "/"
    asks = sys.stdin.isatty()
    if asks:
        click.echo(COMMANDS, err=True)
    while True:
        if asks:
            click.echo(f"{here}> ", nl=False, err=True)
        line = sys.stdin.readline()
        if not line:
            return
        try:
            words = shlex.split(line)
            if words[:1] in (["exit"], ["quit"]):
                return
            if words[:1] == ["cd"]:
                here = _directory(tree, _absolute(here, (words[1:] or ["/"])[0]))
            elif words:
                for shown in _answer(tree, here, words):
                    click.echo(printable(shown))
        except (NoSuchNode, ValueError) as error:
            click.echo(str(error), err=True)


def _answer(tree: Tree, here: str, words: list[str]) -> Iterator[str]:
    """The output of one command of the shell. NoSuchNode; ValueError for an unknown command."""
    word, *named = words
    paths = [_absolute(here, path) for path in named] or [here]
    if word == "pwd":
        yield here
    elif word == "ls":
        yield from (line for path in paths for line in metadata_tree.listing(tree, path))
    elif word == "cat":
        yield from (metadata_tree.content(tree, path) for path in paths)
    elif word == "tree":
        yield from (line for path in paths for line in metadata_tree.drawing(tree, path))
    elif word == "find":
        yield from (line for path in paths for line in metadata_tree.find(tree, path))
    else:
        raise ValueError(f"{word} is not a command; the commands are {COMMANDS}")


def _absolute(here: str, path: str) -> str:
    return path if path.startswith("/") else f"{here}/{path}"


def _directory(tree: Tree, path: str) -> str:
    where, node = metadata_tree.walk(tree, path)
    if not isinstance(node, dict):
        raise NoSuchNode(f"{where}: Not a directory")
    return where
