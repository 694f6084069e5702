"""``kpybroker bug-report``: what a maintainer needs, in one text file that its owner reads before sending it.

Only this machine is asked: files, the process, the second port of a node. No key file is opened, and of the metadata
only counts are written. `Redactor` keeps secrets out of everything else.
"""

import os
import platform
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import BinaryIO

import click

from kpybroker import __version__
from kpybroker.cli import command_config, form, scrape
from kpybroker.cli.metadata_source import NoMetadata, read_image
from kpybroker.cli.redaction import Redactor
from kpybroker.cli.tables import printable
from kpybroker.config.broker import BrokerConfig
from kpybroker.config.login_file import login_file_of
from kpybroker.config.properties import read_properties
from kpybroker.machines.config_def import ConfigError
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.machines.metadata.metadata_version import name_of
from kpybroker.machines.metadata.topic import NO_LEADER
from kpybroker.runtime.io.private_files import write_private
from kpystorage.reading_disk import ReadingDisk

LARGEST_DIRECTORIES = 20
MOST_BYTES = 1_000_000
"""The most bytes of a report: what mail and issue trackers take. The log and the metrics may take most of them."""
SHARES = {"Log": 400_000, "Metrics": 400_000}
OTHER_SHARE = 20_000
CUT = "... {} more lines are left out"
METRICS_TIMEOUT_S = 3.0
TAIL_BYTES = 1 << 20
USUAL_HTTP = "127.0.0.1:9404"
_VARIABLE = re.compile(r"(KAFKA|KPYBROKER|SPARK|JAVA|PYTHON)_?[A-Z0-9_]*")
HEAD = """\
kpybroker bug report, {now}

Secrets are left out. Names of topics, hosts and clients may be in it: read it before you send it.
"""


@click.command(name="bug-report")
@click.argument("properties", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--data", metavar="DIR", help="The directory of the data. [default: log.dirs of PROPERTIES, or ./data]")
@click.option("--log", "log", type=click.File("rb"), help="The node's log; '-' reads it from the standard input.")
@click.option("--log-lines", type=click.IntRange(0), default=500, show_default=True, help="The last lines of the log.")
@click.option("-b", "--bootstrap-server", "server", metavar="HOST:PORT", help="Also ask the cluster what doctor asks.")
@command_config.option
@click.option("--http", metavar="HOST:PORT", help=f"The node's second port, for its metrics. [default: {USUAL_HTTP}]")
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("kpybroker-bug-report.txt"),
    show_default=True,
    help="The file to write; '-' prints it.",
)
def command(
    properties: Path | None,
    data: str | None,
    log: BinaryIO | None,
    log_lines: int,
    server: str | None,
    http: str | None,
    output: Path,
) -> None:
    """Write what a maintainer needs to know of a node into one file.

    PROPERTIES is the node's server.properties. The file has versions, the platform, the configuration, sizes of
    directories, a summary of the metadata, the metrics and the last lines of the log, and no secret. It is at most
    1 MB: from metrics and logs that are longer, lines are left out.
    """
    redactor = Redactor()
    redactor.remember(os.environ)
    configs = _configs(properties)
    shown = redactor.configs(configs)
    directories = _directories(configs, data)
    sections: dict[str, Callable[[], Iterator[str]]] = {
        "Versions": _versions,
        "Platform": _platform,
        "Environment": lambda: _environment(redactor),
        "Configuration": lambda: _configuration(configs, shown),
        "Directories": lambda: (redactor.text(line) for each in directories for line in _sizes(each)),
        "Metadata": lambda: _metadata(directories[0]),
        "Metrics": lambda: (redactor.text(line) for line in _metrics(http or configs.get("kpybroker.http.listener"))),
        "Log": lambda: iter(_last_lines(log, log_lines, redactor)),
    }
    if server is not None:
        sections["Cluster"] = lambda: (redactor.text(line) for line in _cluster(server, http))
    parts = [HEAD.format(now=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))]
    for title, section in sections.items():
        lines = bounded([printable(line) for line in section()], SHARES.get(title, OTHER_SHARE), last=title == "Log")
        parts.append("\n".join([f"\n## {title}\n", *lines, ""]))
    _write(output, "".join(parts))


def bounded(lines: Sequence[str], most_bytes: int, *, last: bool = False) -> list[str]:
    """The first lines that fit, or the last ones, and the number of the others."""
    kept: list[str] = []
    room = most_bytes - len(CUT) - 20
    for line in reversed(lines) if last else lines:
        room -= len(line.encode()) + 1
        if room < 0:
            kept.append(CUT.format(len(lines) - len(kept)))
            break
        kept.append(line)
    return kept[::-1] if last else kept


def _cluster(server: str, http: str | None) -> Iterator[str]:
    """The findings of `kpybroker doctor`, or the reason why the cluster cannot be asked."""
    from kpybroker.cli import doctor

    try:
        yield from click.unstyle(doctor.as_text(doctor.examined(server, http))).splitlines()
    except click.ClickException as error:
        yield error.format_message()


def _write(output: Path, text: str) -> None:
    if str(output) == "-":
        click.echo(text, nl=False)
        return
    try:
        if output.is_symlink() or (output.exists() and not output.is_file()):
            raise click.ClickException(f"{output} is a link, or no file; name another place by --output, or '-'")
        write_private(output, text)
    except OSError as error:
        raise click.ClickException(f"{output} cannot be written: {error.strerror}") from None
    click.echo(f"{output} is written, {len(text):,} characters. Read it before you send it.", err=True)


def _configs(properties: Path | None) -> dict[str, str]:
    try:
        return {} if properties is None else {name: each.value for name, each in read_properties(properties).items()}
    except ConfigError as error:
        raise click.ClickException(str(error)) from None


def _directories(configs: Mapping[str, str], data: str | None) -> list[Path]:
    """The log directories, first the one with the metadata log."""
    places = [] if data is not None else [configs.get("metadata.log.dir", "")]
    places += (data or configs.get("log.dirs") or configs.get("log.dir") or "./data").split(",")
    return list(dict.fromkeys(Path(place.strip()) for place in places if place.strip()))


def _versions() -> Iterator[str]:
    yield f"kpybroker {__version__}, {form()}"
    yield f"Python {sys.version.splitlines()[0]}"
    for requirement in metadata.requires("kpybroker") or ():
        name = re.split(r"[<>=!~;\[ ]", requirement)[0]
        try:
            yield f"{name} {metadata.version(name)}"
        except metadata.PackageNotFoundError:
            if "extra ==" not in requirement:
                yield f"{name} is missing"


def _platform() -> Iterator[str]:
    yield platform.platform()
    yield f"{os.cpu_count()} CPUs, {platform.machine()}"
    if "SC_PHYS_PAGES" in os.sysconf_names:
        yield f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE'):,} bytes of memory"
    try:
        import resource
    except ImportError:
        return
    yield "open files: at most {:,}, or {:,} if raised".format(*resource.getrlimit(resource.RLIMIT_NOFILE))


def _environment(redactor: Redactor) -> Iterator[str]:
    """The variables that change what a node or a client does. Their values may be anything, so only names are shown."""
    yield from (redactor.text(name) for name in sorted(os.environ) if _VARIABLE.fullmatch(name))


def _configuration(configs: Mapping[str, str], shown: Mapping[str, str]) -> Iterator[str]:
    yield from (f"{name}={value}" for name, value in sorted(shown.items()))
    if not configs:
        yield "No file was named: the defaults."
        return
    try:
        config = BrokerConfig(configs, login_file=login_file_of(os.environ.get("KAFKA_OPTS", "")))
        yield from (f"warning: {warning.partition(':')[0]}" for warning in config.warnings)
    except ConfigError as error:
        yield f"It is refused with error {error.code}: `kpybroker start` says why."


def _sizes(directory: Path) -> Iterator[str]:
    """The size of a log directory and of the largest directories in it. Links are not followed."""
    sizes: Counter[str] = Counter()
    files = 0
    try:
        for place, _, names in os.walk(directory):
            for name in names:
                child = os.path.relpath(place, directory)
                try:
                    sizes[child] += os.lstat(os.path.join(place, name)).st_size
                except FileNotFoundError:
                    continue  # it was deleted meanwhile
                files += 1
        free = os.statvfs(directory)
    except OSError as error:
        yield f"{directory}: {error.strerror}"
        return
    yield f"{directory}: {sizes.total():,} bytes in {files:,} files, {free.f_bavail * free.f_frsize:,} bytes are free"
    yield from (f"  {size:>16,}  {name}" for name, size in sizes.most_common(LARGEST_DIRECTORIES))
    if len(sizes) > LARGEST_DIRECTORIES:
        yield f"  and {len(sizes) - LARGEST_DIRECTORIES:,} smaller ones"


def _metadata(directory: Path) -> Iterator[str]:
    """Counts alone: the metadata hold names, credentials and tokens."""
    try:
        image = read_image(ReadingDisk(), directory)
    except NoMetadata as error:
        yield str(error)
        return
    yield from _summary(image)


def _summary(image: MetadataImage) -> Iterator[str]:
    partitions = [each for topic in image.topics.values() for each in topic.partitions.values()]
    yield f"cluster {image.cluster_id}, metadata up to offset {image.next_offset}, epoch {image.epoch}"
    version = image.metadata_version
    yield f"metadata.version {version if version is None else name_of(version)}, features {image.features}"
    yield f"{len(image.brokers)} brokers, {sum(each.fenced for each in image.brokers.values())} of them fenced"
    yield f"{len(image.controllers)} controllers"
    yield f"{len(image.topics)} topics, {len(partitions)} partitions"
    yield f"{sum(each.leader == NO_LEADER for each in partitions)} partitions without a leader"
    yield f"{sum(len(each.isr) < len(each.replicas) for each in partitions)} partitions under-replicated"
    yield f"{len(image.acls)} ACLs, {len(image.client_quotas)} quotas, {len(image.configs)} resources with configs"
    yield f"{len(image.scram_credentials)} SCRAM credentials, {len(image.delegation_tokens)} delegation tokens"


def _metrics(address: str | None) -> Iterator[str]:
    host, _, port = (address or USUAL_HTTP).rpartition(":")
    host = "127.0.0.1" if host in ("", "0.0.0.0", "[::]") else host.strip("[]")
    if not port.isdecimal():
        yield f"{address} is not HOST:PORT"
        return
    try:
        page = scrape.fetch(host, int(port), METRICS_TIMEOUT_S, scrape.Way())
    except scrape.PageRefused as refused:
        yield f"The page at {host}:{port} cannot be read: {refused}"
        return
    if page is None:
        yield f"Nothing like metrics answers at {host}:{port}; --http names another place."
        return
    for name, labels, value in page.named_from(""):
        inside = ",".join(f'{label}="{text}"' for label, text in labels.items())
        yield f"{name}{{{inside}}} {value:g}" if inside else f"{name} {value:g}"


def _last_lines(log: BinaryIO | None, count: int, redactor: Redactor) -> list[str]:
    """The last lines of a log. Secrets are taken out first: one may begin before these lines."""
    if log is None:
        return ["No log was named: --log FILE, or journalctl -u kpybroker | kpybroker bug-report --log -"]
    content, is_cut = b"", False
    while chunk := log.read(TAIL_BYTES):
        content += chunk
        is_cut = is_cut or len(content) > TAIL_BYTES
        content = content[-TAIL_BYTES:]
    text = content.decode("utf-8", "replace")
    lines = redactor.text(text.partition("\n")[2] if is_cut else text).splitlines()
    return lines[len(lines) - min(count, len(lines)) :]
