"""``kpybroker doctor``: what is wrong with a cluster, seen from here, and how to mend it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import click

from kpybroker.cli import broker_looks, command_config, diagnoses, examination
from kpybroker.cli.diagnoses import GOOD, HINT, LEVELS, PROBLEM, UNKNOWN, WARNING, Diagnosis
from kpybroker.cli.options import NOT_IN_ORDER, bootstrap_server, connected, error_text, json_output
from kpybroker.cli.scrape import PageLogin, Way
from kpybroker.cli.tables import plural, printable, show_json
from kpybroker.client.client import Client
from kpybroker.client.connection import Unreachable
from kpybroker.machines.errors import KafkaError
from kpywire.messages.metadata import MetadataResponseBroker

MARKS = {PROBLEM: "PROBLEM", WARNING: "warning", HINT: "hint", UNKNOWN: "?", GOOD: "ok"}
COLOURS = {PROBLEM: "red", WARNING: "yellow", HINT: "cyan", UNKNOWN: "bright_black", GOOD: "green"}
INDENT = 9
CAUSES = ("brokers", "advertised address", "log directories", "corrupt batches")
"""Checks whose findings explain those of others, the deeper cause first."""

ORDER = (
    "metrics page",
    "listeners",
    "clients that never come back",
    "process",
    "log directories",
    "configs",
    "ACLs",
    "partitions",
    "corrupt batches",
    "groups",
    "metadata requests",
    "clock",
)
"""The checks as their findings are listed. They are made in another order: pages take longest to come."""

Check = Callable[[], Iterable[Diagnosis]]


@click.command(name="doctor")
@click.option(
    "--http",
    metavar="HOST:PORT",
    help="The address where the broker serves /metrics. [default: port 9404 of each broker]",
)
@click.option(
    "--http-login",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A file with a line name=password, for a /metrics that demands a login. An https port is trusted as "
    "--command-config says.",
)
@click.option("--write", is_flag=True, help="Also write a record to a topic made for it, to compare clocks.")
@click.option("--patience", "patience_s", type=click.FloatRange(0), default=5.0, show_default=True, metavar="SECONDS")
@json_output
@bootstrap_server
def command(
    http: str | None, http_login: Path | None, write: bool, patience_s: float, as_json: bool, server: str
) -> None:
    """Say what is wrong with a cluster as it is seen from here, and how to mend it.

    Looks at its own files with passwords, advertised addresses, certificates and logins of listeners, clients that do
    not come back, clocks, limits on files and connections, disks and log directories, corrupt batches, configs and
    ACLs without effect, partitions, groups that rebalance without an end and clients that ask for metadata without a
    pause. A group that rebalances gets some PATIENCE before it counts as stuck; groups with members are watched for
    that long. The exit code is 4 if there is a problem.
    """
    http = None if http is None else http.removeprefix("https://").removeprefix("http://").rstrip("/")
    if http is not None and not http.rpartition(":")[2].isdecimal():
        raise click.BadParameter(f"{http!r} is not HOST:PORT", param_hint="--http")
    findings = examined(server, http, http_login, write=write, patience_s=patience_s)
    if as_json:
        show_json([each._asdict() for each in findings])
    else:
        click.echo(as_text(findings))
    if any(each.level == PROBLEM for each in findings):
        raise SystemExit(NOT_IN_ORDER)


def examined(
    server: str,
    http: str | None,
    http_login: Path | None = None,
    *,
    write: bool = False,
    patience_s: float = 0.0,
) -> list[Diagnosis]:
    """The findings about a cluster, the worst first, and causes before what follows from them."""
    login, own_files = _login(http_login), _own_files(http_login)
    with connected(server) as client:
        protection = client.settings.protection
        has_tls = protection is not None and protection.has_tls
        way = Way(lambda: protection.context, login) if protection is not None and has_tls else Way(login=login)
        findings = [*own_files, *_findings(client, http, way, write=write, patience_s=patience_s)]
    return ranked(findings)


def ranked(findings: Iterable[Diagnosis]) -> list[Diagnosis]:
    """Findings, the worst first, and among those of a level first what explains others."""

    def place(finding: Diagnosis) -> tuple[int, int]:
        cause = CAUSES.index(finding.check) if finding.check in CAUSES else len(CAUSES)
        return LEVELS.index(finding.level), cause

    return sorted(findings, key=place)


def _login(path: Path | None) -> PageLogin | None:
    """The first user of a file such as that of ``kpybroker.http.users``."""
    if path is None:
        return None
    from kpybroker.config.properties import read_properties
    from kpybroker.machines.config_def import ConfigError

    try:
        users = read_properties(path)
    except ConfigError as error:
        raise click.BadParameter(str(error), param_hint="--http-login") from None
    for name, each in users.items():
        if each.value:
            return PageLogin(name, each.value)
    raise click.BadParameter(f"{path} has no line name=password", param_hint="--http-login")


def _own_files(http_login: Path | None) -> list[Diagnosis]:
    """The files with secrets that this command reads, where other users of the machine may read them too."""
    context = click.get_current_context()
    named = command_config.path_of(context)
    paths = {} if http_login is None else {str(http_login): "a password"}
    if not paths and named is None:
        return []
    from kpybroker.cli.exposed_files import exposed, secrets_in

    if named is not None:
        paths |= secrets_in(named, command_config.properties(context))
    return [
        Diagnosis(
            "files with secrets", WARNING, f"other users can read {path}, which holds {secret}", f"chmod 600 {path}"
        )
        for path, secret in exposed(paths)
    ]


def _findings(client: Client, http: str | None, way: Way, *, write: bool, patience_s: float) -> Iterator[Diagnosis]:
    usual_s, client.timeout_s = client.timeout_s, max(patience_s, broker_looks.CONNECT_TIMEOUT_S)
    try:
        nodes = client.nodes()
    except Unreachable:  # nothing else can be said of a cluster that does not answer at all
        why = list(examination.full(client.servers, http, way))
        if not why:
            raise
        yield from why
        return
    client.timeout_s = usual_s
    looks = _begun(client, nodes, http, way)
    facts = examination.ClusterFacts(client)
    yield from _examine("advertised address", lambda: examination.advertised(client, facts, looks))
    silent = {f"{each.host}:{each.port}": each.node_id for each in looks if each.probed.value.problem}
    registered: set[int] = set()
    holders: set[int] = set()
    try:
        registered, holders = examination.away(facts, {each.node_id for each in looks})
        yield from diagnoses.dead(registered, holders)
    except (KafkaError, Unreachable) as error:
        yield _unknown("brokers", error)
    away = registered | holders | set(silent.values())
    checks: dict[str, Check] = {
        "listeners": lambda: examination.listeners(looks, client.settings.protocol),
        "configs": lambda: examination.configuration(looks, away),
        "ACLs": lambda: examination.acls(client),
        "partitions": lambda: examination.partitions(facts, away),
        "groups": lambda: examination.groups(client, patience_s),
    }
    if write:
        checks["clock"] = lambda: examination.clock_by_record(client)
    by_check = {name: list(_examine(name, check)) for name, check in checks.items()}
    found = examination.brokers(looks)
    later: dict[str, Check] = {
        "metrics page": lambda: examination.unread(looks, http),
        "clients that never come back": lambda: examination.newcomers(found),
        "process": lambda: examination.process(found),
        "corrupt batches": lambda: examination.damage(found),
        "log directories": lambda: examination.storage(looks),
        "metadata requests": lambda: examination.over_time(found, patience_s, way),
    }
    by_check |= {name: list(_examine(name, check)) for name, check in later.items()}
    for name in ORDER:
        for each in by_check.get(name, []):
            yield explained(each, silent)


def _begun(
    client: Client, nodes: Sequence[MetadataResponseBroker], http: str | None, way: Way
) -> list[broker_looks.BrokerLook]:
    """The looks at brokers, which go on while other questions are asked. If there is one broker, it is the one that
    answered."""
    instead = client.servers[0] if len(nodes) == 1 else None
    looks = [broker_looks.BrokerLook(node, client, way, http, instead) for node in nodes]
    broker_looks.begin(looks)
    return looks


def explained(finding: Diagnosis, silent: Mapping[str, int]) -> Diagnosis:
    """A check that could not be made since a broker does not answer, with this broker as the reason."""
    if finding.level != UNKNOWN:
        return finding
    broker = next((number for address, number in silent.items() if address in finding.message), None)
    return finding if broker is None else finding._replace(message=f"broker {broker} does not answer, see above")


def _examine(name: str, check: Check) -> Iterator[Diagnosis]:
    try:
        yield from check()
    except (KafkaError, Unreachable) as error:
        yield _unknown(name, error)


def _unknown(name: str, error: KafkaError | Unreachable) -> Diagnosis:
    return Diagnosis(
        name, UNKNOWN, f"could not be checked: {error_text(error) if isinstance(error, KafkaError) else error}"
    )


def as_text(findings: Sequence[Diagnosis]) -> str:
    """Findings for people, the worst first, each with its remedy below."""
    lines = []
    for each in findings:
        mark = click.style(MARKS[each.level].rjust(INDENT - 2), fg=COLOURS[each.level])
        lines.append(f"{mark}  {each.check}: {printable(each.message)}")
        if each.remedy:
            lines.append(click.wrap_text(printable(each.remedy), 110, " " * INDENT, " " * INDENT))
    return "\n".join([*lines, summary(findings)])


def summary(findings: Sequence[Diagnosis]) -> str:
    """``Nothing was found wrong; 2 checks could not be made: clock, open files (no metrics page could be read).``"""
    levels = [each.level for each in findings]
    bad, doubtful = levels.count(PROBLEM), levels.count(WARNING)
    unseen: dict[str, list[str]] = {}
    for each in findings:
        if each.level == UNKNOWN:
            unseen.setdefault(each.message, []).append(each.check)
    text = f"{plural(bad, 'problem')}, {plural(doubtful, 'warning')}" if bad or doubtful else "Nothing was found wrong"
    if not unseen:
        return f"{text}."
    named = "; ".join(f"{', '.join(checks)} ({why})" for why, checks in unseen.items())
    return f"{text}; {plural(levels.count(UNKNOWN), 'check')} could not be made: {named}."
