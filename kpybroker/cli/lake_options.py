"""The arguments and options that commands of ``kpybroker lake`` share, and their errors as one line."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kpybroker.cli import completion
from kpybroker.cli.contact import say
from kpybroker.cli.options import remote_store

if TYPE_CHECKING:
    from kpybroker.client.client import Client
    from kpybroker.machines.lake.naming import NamingRule
    from kpybroker.pipeline.lake.target import Target
    from kpybroker.pipeline.lake.values import Values
    from kpybroker.pipeline.lake.writing import CommitOutcome
    from kpybroker.pipeline.scan.old_records import OldRecords

Command = Callable[..., Any]


def topic_argument(command: Command) -> Command:
    return click.argument("topic_name", metavar="TOPIC", shell_complete=completion.topics)(command)


def table_options(command: Command) -> Command:
    """The argument TABLE and the options of its place; the command gets ``target``."""

    @wraps(command)
    def with_target(table_text: str, options: dict[str, str], catalog: str, **given: Any) -> Any:
        return command(target=_target(table_text, options, catalog), **given)

    argument = click.argument("table_text", metavar="TABLE")
    option = click.option(
        "--option",
        "options",
        metavar="KEY=VALUE",
        multiple=True,
        callback=_pairs,
        help="A setting of delta-rs' storage or of PyIceberg's catalog, such as uri=sqlite:///lake.db. Repeatable.",
    )
    name = click.option(
        "--catalog",
        default="default",
        show_default=True,
        metavar="NAME",
        help="The Iceberg catalog, as in PyIceberg's configuration.",
    )
    return argument(option(name(with_target)))


def _pairs(_context: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    if any(not name or not sign for name, sign, _ in (text.partition("=") for text in texts)):
        raise click.BadParameter("write KEY=VALUE", param=option)
    return dict(text.partition("=")[::2] for text in texts)


def _target(text: str, options: dict[str, str], catalog: str) -> "Target":
    from kpybroker.pipeline.lake.target import target_of

    try:
        return target_of(text, options, catalog)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="TABLE") from None


def schema_options(command: Command) -> Command:
    """The options of schemas; the command gets ``values_of``, which makes a format of values from its name and the rule
    for names of columns."""

    @wraps(command)
    def with_values(schema_registry: str | None, schema: Path | None, message: str | None, **given: Any) -> Any:
        if message is not None and schema is None:
            raise click.UsageError("--message needs --schema")
        return command(
            values_of=cache(lambda kind, rule: _values(kind, rule, schema_registry, schema, message)), **given
        )

    registry = click.option(
        "--schema-registry",
        metavar="URL",
        envvar="KPYBROKER_SCHEMA_REGISTRY",
        help="The registry of schemas, for --values avro, json-schema and protobuf.",
    )
    file = click.option(
        "--schema",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="FILE",
        help="The one schema of all values instead of a registry: an .avsc, a JSON Schema, or descriptors of protoc.",
    )
    name = click.option("--message", metavar="NAME", help="The Protobuf message in the file of --schema.")
    return registry(file(name(with_values)))


def _values(kind: str, rule: "NamingRule", url: str | None, path: Path | None, message: str | None) -> "Values":
    from kpybroker.client.schemas.registry import Registry
    from kpybroker.pipeline.lake.formats import SchemaFile, values_of

    try:
        file = None if path is None else SchemaFile(path.read_bytes(), message)
    except OSError as error:
        raise click.ClickException(f"{path} cannot be read: {error.strerror}") from None
    return values_of(kind, None if url is None else Registry(url), file, rule)


store_option = remote_store(
    "The server.properties of a broker: records that only its store has are read there, not by the broker."
)


def old_records(path: Path, connect: "Callable[[], Client]", *, committed_only: bool) -> "OldRecords":
    """The reader of the store that a file names. click.UsageError."""
    from kpybroker.pipeline.scan.old_records import OldRecords
    from kpybroker.pipeline.tiers.stores import BadStore, store_of_file

    try:
        return OldRecords(store_of_file(path), connect, committed_only=committed_only)
    except BadStore as error:
        raise click.UsageError(str(error)) from None


def say_all_dead(committed: "CommitOutcome", target: "Target") -> None:
    """Say that no record became a row, also where progress is not shown: the format of values is mostly wrong then."""
    say(
        f"All records of the first commit are dead letters, one of them since: {committed.reason}. "
        f"kpybroker lake show {target!r} counts the reasons; after a remedy, kpybroker lake replay tries them again."
    )


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Inside the block, errors of the lake end the command with one line."""
    try:
        from kpybroker.machines.schemas.errors import SchemaError
        from kpybroker.pipeline.lake.errors import LakeError
    except ImportError as error:  # pragma: no cover
        raise _without_extra(error) from None
    try:
        yield
    except ImportError as error:
        raise _without_extra(error) from None
    except (LakeError, SchemaError) as error:
        raise click.ClickException(str(error)) from None


def _without_extra(error: ImportError) -> click.ClickException:
    return click.ClickException(f"{error.name} is not installed: pip install 'kpybroker[lake]'")
