"""Renders the Helm chart: by helm, and without it by a stand-in for the few forms of templates that the chart uses.

helm is the one on the path, or the one that ``make helm`` has built. A test holds the stand-in to what helm makes of
the same values.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml
from sources import ROOT

CHART = ROOT / "release" / "helm" / "kpybroker"
BUILT = ROOT / "build" / "helm" / "helm"
RELEASE, NAMESPACE = "kafka", "streams"
Manifests = list[dict[str, Any]]
Names = Mapping[str, Any]
Node = str | tuple[str, list["Node"], list["Node"]]
"""Text, or an action with what is between it and its end, before and after ``else``."""


class Refused(Exception):
    """The chart does not take these values; the text is its reason."""


def values_of(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text())
    return found


def merged(values: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Values with others over them, as helm merges them: maps key by key."""
    both = {
        name: merged(values[name], over[name]) for name in values.keys() & over.keys() if isinstance(over[name], dict)
    }
    return {**values, **over, **both}


def defaults() -> dict[str, Any]:
    return values_of(CHART / "values.yaml")


# helm


def helm() -> Path | None:
    """The program; None where there is none."""
    on_path = shutil.which("helm")
    return Path(on_path) if on_path else BUILT if BUILT.exists() else None


def ask_helm(program: Path, *words: str | Path) -> str:
    """The output of helm. Refused where it fails."""
    command = [str(program), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        raise Refused(done.stderr + done.stdout)
    return done.stdout


def by_helm(program: Path, *words: str | Path) -> Manifests:
    """The manifests that ``helm template`` makes with these options."""
    text = ask_helm(program, "template", RELEASE, CHART, "--namespace", NAMESPACE, *words)
    return [each for each in yaml.safe_load_all(text) if each]


# The stand-in


def rendered(over: Mapping[str, Any] | None = None) -> Manifests:
    """The manifests with these values over the defaults. Refused where the chart fails."""
    scope = {
        "Values": merged(defaults(), over or {}),
        "Release": {"Name": RELEASE, "Namespace": NAMESPACE},
        "Chart": {"AppVersion": values_of(CHART / "Chart.yaml")["appVersion"]},
    }
    texts = (path.read_text() for path in sorted((CHART / "templates").glob("*.yaml")))
    return [each for text in texts for each in yaml.safe_load_all(_text(_parsed(text), scope, {})) if each]


ACTION = re.compile(r"(\s*\{\{- |\{\{ )(.*?)( -\}\}\s*| \}\})", re.DOTALL)


def _parsed(template: str) -> list[Node]:
    top: list[Node] = []
    parts, opened, end = top, [], 0
    for found in ACTION.finditer(template):
        parts.append(template[end : found.start()])
        end, action = found.end(), found[2]
        word = action.partition(" ")[0]
        if word in ("if", "range"):
            node: Node = (action, [], [])
            parts.append(node)
            opened.append((parts, node))
            parts = node[1]
        elif word == "else":
            parts = opened[-1][1][2]
        elif word == "end":
            parts = opened.pop()[0]
        else:
            parts.append((action, [], []))
    parts.append(template[end:])
    assert parts is top
    return top


def _text(nodes: list[Node], scope: Names, names: Names) -> str:
    made = ""
    for node in nodes:
        if isinstance(node, str):
            made += node
            continue
        action, body, otherwise = node
        word, _, argument = action.partition(" ")
        if word == "if":
            made += _text(body if _value(argument, scope, names) else otherwise, scope, names)
        elif word == "range":
            variables, _, source = argument.partition(" := ")
            items = _value(source, scope, names)
            pairs = sorted(items.items()) if isinstance(items, dict) else [(each,) for each in items]
            bound = re.findall(r"\$\w+", variables)
            made += "".join(_text(body, scope, {**names, **dict(zip(bound, pair, strict=True))}) for pair in pairs)
        else:
            made += _go(_value(action, scope, names))
    return made


def _go(value: Any) -> str:
    """A value as Go prints it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _fail(reason: str) -> None:
    raise Refused(reason)


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "add": lambda one, other: one + other,
    "default": lambda instead, value: value or instead,
    "fail": _fail,
    "gt": lambda one, other: one > other,
    "hasSuffix": lambda suffix, text: text.endswith(suffix),
    "int": int,
    "kindIs": lambda kind, value: {"string": isinstance(value, str)}[kind],
    "nindent": lambda count, text: "".join(f"\n{' ' * count}{line}" for line in text.splitlines()),
    "printf": lambda form, *values: form.replace("%v", "{}").format(*map(_go, values)),
    "quote": lambda value: json.dumps(_go(value)),
    "toJson": json.dumps,
    "toYaml": yaml.safe_dump,
    "until": range,
}


def _value(expression: str, scope: Names, names: Names) -> Any:
    """The value of a pipeline: each part gets the one before it as its last argument."""
    given: list[Any] = []
    for part in expression.split(" | "):
        words = re.findall(r'"[^"]*"|[()]|[^\s()]+', part)
        given = [_called(words, scope, names, given)]
        assert not words
    return given[0]


def _called(words: list[str], scope: Names, names: Names, last: list[Any]) -> Any:
    """The value of the next words, up to a closing bracket."""
    terms: list[Any] = []
    while words and words[0] != ")":
        word = words.pop(0)
        if word == "(":
            terms.append(_called(words, scope, names, []))
            words.pop(0)
        else:
            terms.append(_term(word, scope, names))
    terms += last
    return terms[0](*terms[1:]) if callable(terms[0]) else terms[0]


def _term(word: str, scope: Names, names: Names) -> Any:
    if word in FUNCTIONS:
        return FUNCTIONS[word]
    if word in names:
        return names[word]
    if word[0] == '"' or word.isdigit():
        return json.loads(word)
    path = re.fullmatch(r"\$?\.(\w+(?:\.\w+)*)", word)
    assert path is not None, f"the chart uses {word}: teach it to this stand-in"
    value: Any = scope
    for name in path[1].split("."):
        value = value[name]
    return value
