"""Differences that Java's tools and Admin find on kpybroker: recorded results, and docs/parity.md made from them.

``expected/`` holds what Apache Kafka did in full, and of kpybroker what is not the same. The page is written by
``python -m support.parity``; a test holds it against the results. Nothing here talks to a broker.
"""

import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from kpybroker.requests.handlers import served_versions
from kpywire.api import API_KEYS
from support.java_commands import API_VERSIONS, NEEDS, RUN_ELSEWHERE, WITHOUT_A_BROKER, transcript, written
from support.java_tools import TOOLS

EXPECTED: Final = Path(__file__).resolve().parents[1] / "expected"
COMMANDS: Final = "java_commands"
SECURED_COMMANDS: Final = "secured_commands"
WALK: Final = "admin_walk"
KPYBROKER: Final = "kpybroker"
APACHE_KAFKA: Final = "apache-kafka"
LAYERS: Final[Mapping[str, tuple[str, ...]]] = {
    APACHE_KAFKA: ("",),
    KPYBROKER: ("", "_kpybroker"),
    "apache-kafka-zookeeper": ("", "_zookeeper"),
    "kpybroker-zookeeper": ("", "_zookeeper", "_kpybroker_zookeeper"),
}
"""The ends of the names of a target's files. Each file holds what is not as in those before it."""
PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "parity.md"
HOW_TO_RECORD: Final = "if it is meant, or became equal: make parity"
UNSUPPORTED: Final = re.compile(r"does not support ([A-Z_]{4,})|share group protocol using (\w+) API")


class Step(NamedTuple):
    """One step of the walk through Admin."""

    methods: tuple[str, ...]
    outcome: str


def layers_of(recording: str, target: str) -> list[Path]:
    """The files of a target. Targets that have none, such as a container, are Apache Kafka."""
    ends = LAYERS.get(target, LAYERS[APACHE_KAFKA])
    return [EXPECTED / f"{recording}{end}.txt" for end in ends]


def commands_expected(target: str, recording: str = COMMANDS) -> dict[str, str]:
    """The output that each command leaves on this target."""
    *before, last = layers_of(recording, target)
    return {**_commands_before(before, target), **_commands_in(last)}


def _commands_before(files: Iterable[Path], target: str) -> dict[str, str]:
    """The expected outputs of a target, unless its own file has others."""
    found: dict[str, str] = {}
    for file in files:
        found |= _commands_in(file)
    if target == KPYBROKER and API_VERSIONS in found:
        found[API_VERSIONS] = _of_what_is_served(found[API_VERSIONS])
    return found


def _commands_in(file: Path) -> dict[str, str]:
    return transcript(file.read_text()) if file.exists() else {}


def _of_what_is_served(listed: str) -> str:
    """The output of a broker's list without the APIs that are not served here: those are in docs/support.md."""
    served = {API_KEYS[key].name for key in served_versions()}
    lines = (line for line in listed.splitlines() if not (named := re.match(r"\t(\w+)\(", line)) or named[1] in served)
    return "\n".join(lines)


def record_commands(target: str, found: Mapping[str, str], recording: str = COMMANDS) -> None:
    """Write what is not as before into the target's own file."""
    *before, last = layers_of(recording, target)
    known = _commands_before(before, target)
    last.write_text(written({line: outcome for line, outcome in found.items() if known.get(line) != outcome}))


def secured_commands_expected(target: str) -> dict[str, str]:
    """The same for the commands on a broker with logins and an authorizer."""
    return commands_expected(target, SECURED_COMMANDS)


def all_commands_expected(target: str) -> dict[str, str]:
    """The output of all commands."""
    return {**commands_expected(target), **secured_commands_expected(target)}


def steps_expected(target: str) -> dict[str, Step]:
    """The result of each step of the walk on this target."""
    return _steps_in(layers_of(WALK, target))


def _steps_in(files: Iterable[Path]) -> dict[str, Step]:
    found: dict[str, Step] = {}
    for file in files:
        found |= steps_of(file.read_text()) if file.exists() else {}
    return found


def steps_of(text: str) -> dict[str, Step]:
    lines = (line.split("\t", 2) for line in text.splitlines())
    return {name: Step(tuple(methods.split()), outcome) for name, methods, outcome in lines}


def record_steps(target: str, found: Mapping[str, Step]) -> None:
    *before, last = layers_of(WALK, target)
    known = _steps_in(before)
    steps = ((name, step) for name, step in found.items() if known.get(name) != step)
    last.write_text("".join(f"{name}\t{' '.join(step.methods)}\t{step.outcome}\n" for name, step in steps))


# The page


class Verdict(NamedTuple):
    """``missing``: the APIs that the client does not find; ``differing``: what else is not the same."""

    steps: int
    missing: tuple[str, ...]
    differing: tuple[str, ...]

    def __str__(self) -> str:
        if not self.missing and not self.differing:
            return "equal"
        reported = []
        if self.missing:
            reported.append(f"not advertised yet: {', '.join(f'`{name}`' for name in sorted({*self.missing}))}")
        if self.differing:
            reported.append(f"differs: {'; '.join(self.differing)}")
        return "; ".join(reported)


def unserved_of(name: str, outcome: str) -> str | None:
    """The API whose absence made this outcome; None if it was something else."""
    refused = UNSUPPORTED.search(outcome)
    if refused is not None:
        return refused[1] or re.sub(r"(?<=[a-z])(?=[A-Z])", "_", refused[2]).upper()
    served = {API_KEYS[key].module.upper() for key in served_versions()}
    needed = (api for begin, api in NEEDS.items() if name.strip("`").startswith(begin))
    return next((api for api in needed if api not in served), None)


def verdict(steps: Iterable[tuple[str, str, str]]) -> Verdict:
    """The verdict on steps, each a (name, outcome on Apache Kafka, outcome here)."""
    count, missing, differing = 0, [], []
    for name, kafka, here in steps:
        count += 1
        if kafka == here:
            continue
        unserved = unserved_of(name, here)
        if unserved is None:
            differing.append(name)
        else:
            missing.append(unserved)
    return Verdict(count, tuple(missing), tuple(differing))


HEAD: Final = """# Java's tools and Java's Admin, on kpybroker and on Apache Kafka

Made by `make parity` from what both did, step by step, with the jars of Apache Kafka 4.4.0; do not edit. *Equal* means:
the same output and exit code, or the same result or exception, but for ids, ports, paths and times. What an API that is
not advertised means for you is in [support.md](support.md).
"""


def page() -> str:
    """The content of docs/parity.md."""
    return "".join([HEAD, _tools(), _methods(), _what_differs()])


def _tools() -> str:
    kafka, here = all_commands_expected(APACHE_KAFKA), all_commands_expected(KPYBROKER)
    by_tool: dict[str, list[tuple[str, str, str]]] = {}
    for line, outcome in kafka.items():
        expected = _of_what_is_served(outcome) if line == API_VERSIONS else outcome
        by_tool.setdefault(line.split()[0], []).append((f"`{_short(line)}`", expected, here[line]))
    verdicts = {tool: verdict(steps) for tool, steps in sorted(by_tool.items())}
    equal = sum(str(each) == "equal" for each in verdicts.values())
    lines = [f"\n## Tools: {equal} of {len(verdicts)} equal\n\n| tool | class | commands | |\n|---|---|---:|---|\n"]
    for tool, found in verdicts.items():
        lines.append(f"| `{tool}` | `{TOOLS[tool].rpartition('.')[2]}` | {found.steps} | {found} |\n")
    for name, where in sorted(RUN_ELSEWHERE.items()):
        lines.append(f"| | `{name.rpartition('.')[2]}` | 1 | equal ({where}) |\n")
    lines.append("\nNot here, since they do not talk to a broker as a client: ")
    without = (f"`{name.rpartition('.')[2]}` {reason}" for name, reason in sorted(WITHOUT_A_BROKER.items()))
    lines.append("; ".join(without) + ".\n")
    return "".join(lines)


def _short(line: str, limit: int = 110) -> str:
    line = line.partition(" <<< ")[0]
    return line if len(line) <= limit else f"{line[:limit]}..."


def _methods() -> str:
    kafka, here = steps_expected(APACHE_KAFKA), steps_expected(KPYBROKER)
    by_method: dict[str, list[tuple[str, str, str]]] = {}
    for name, step in kafka.items():
        for method in step.methods:
            by_method.setdefault(method, []).append((name, step.outcome, here[name].outcome))
    verdicts = {method: verdict(steps) for method, steps in sorted(by_method.items())}
    equal = sum(str(each) == "equal" for each in verdicts.values())
    lines = [f"\n## Methods of Admin: {equal} of {len(verdicts)} equal\n\n| method | steps | |\n|---|---:|---|\n"]
    lines += [f"| `{method}` | {found.steps} | {found} |\n" for method, found in verdicts.items()]
    return "".join(lines)


def _what_differs() -> str:
    """Side by side, what is there on both and not the same."""
    rows = []
    commands, steps = all_commands_expected(KPYBROKER), steps_expected(KPYBROKER)
    kafka_commands = {**all_commands_expected(APACHE_KAFKA), API_VERSIONS: commands[API_VERSIONS]}
    pairs = [(f"`{_short(line)}`", outcome, commands[line]) for line, outcome in kafka_commands.items()]
    pairs += [(name, step.outcome, steps[name].outcome) for name, step in steps_expected(APACHE_KAFKA).items()]
    for name, kafka, ours in pairs:
        if kafka != ours and unserved_of(name, ours) is None:
            rows.append(f"| {name} | {_cell(kafka)} | {_cell(ours)} |\n")
    if not rows:
        return "\nWhere an API is there on both, nothing differs.\n"
    return "".join(
        ["\n## What differs where both answer\n\n| step | Apache Kafka | kpybroker |\n|---|---|---|\n", *rows]
    )


def _cell(text: str, limit: int = 300) -> str:
    text = " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
    return text if len(text) <= limit else f"{text[:limit]}..."


def main() -> None:
    """Write the page."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else PAGE
    path.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
