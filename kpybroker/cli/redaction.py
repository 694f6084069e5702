"""Secrets kept out of texts that leave the machine: values of configs by their type, everything else by its form.

Pure. A value is shown only if its key is one of Kafka's or ours and no secret; a key that nobody knows may hold
anything. Values that are hidden once are hidden wherever they occur again, such as in a log line, and so are parts of
secrets: a log line may be cut, and secrets may overlap.
"""

import re
from collections.abc import Mapping

from kpybroker.config.authorizer_configs import ALLOWS_WITHOUT_ACL, SUPER_USERS
from kpybroker.config.broker_values import KNOWN
from kpybroker.config.synonyms import base_of_listener_config
from kpybroker.machines.config_def import HIDDEN

LEAST_LETTERS = 4
"""A shorter value, such as ``no``, also occurs where it is no secret."""
LEAST_DIGITS = 6
"""A shorter number may be a port or a size."""
PART_LETTERS = 8
"""This number of letters of a secret, in a row, is hidden wherever it occurs."""
_SECRET_NAME = re.compile(
    r"password|passwd|passphrase|secret|credential|token|jaas|keystore\.key|api[._-]?key|access[._]key|account[._]key|connection[._]string",
    re.I,
)
_NAMES_A_PLACE = re.compile(r"\.(location|url|urls|class|type|ms|seconds|mechanism|endpoint\.url)$")
_OF_LOGIN = re.compile(r"([\w.-]+)\s*=\s*(?:\"((?:[^\"\\]|\\.)*)\"|'([^']*)'|([^\s;\"']+))")
_NEVER_SECRET = frozenset({"true", "false", "none", "null", "required", "scram"})
_ESCAPE = re.compile(r"\\(.)")
_LOGIN_MODULE = re.compile(r"\w\s+(?:required|requisite|sufficient|optional)\s", re.I)
_PEM_LINE = re.compile(r"[A-Za-z0-9+/=]{8,}")
_FORMS = (
    (re.compile(r"-----BEGIN ([A-Z ]+)-----.*?(?:-----END \1-----|\Z)", re.DOTALL), HIDDEN),
    (re.compile(r"(\b[a-z][a-z0-9+.-]*://)[^\s/@]*@", re.I), rf"\1{HIDDEN}@"),
    (re.compile(r"(\b(?:Authorization|Proxy-Authorization)\b[\"']?\s*[:=]\s*[\"']?)[^\n\"']*", re.I), rf"\1{HIDDEN}"),
    (re.compile(r"\b((?:Basic|Bearer)\s+)[\[\]A-Za-z0-9+/_=.~-]{6,}"), rf"\1{HIDDEN}"),
    (re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*\.?[A-Za-z0-9_-]*"), HIDDEN),
    (
        re.compile(
            r"(?<![\w.-])([\w.-]*(?:password|passwd|passphrase|secret|api[_-]?key|access[_-]?key|token)[\w.-]*[\"']?\s*[:=]\s*)"
            r"(?:\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*'|(?:\[hidden\]|[^\s,;}\])])+)",
            re.I,
        ),
        rf"\1{HIDDEN}",
    ),
    (re.compile(r"(sasl\.jaas\.config\s*[:=]\s*)[^\n]*", re.I), rf"\1{HIDDEN}"),
)
"""The forms of secrets in texts of unknown origin, each with its replacement."""


class Redactor:
    """Hides secrets that it has seen in configs, and texts that have the form of one."""

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._parts: set[str] = set()
        """Each `PART_LETTERS` of a secret in a row."""

    def configs(self, configs: Mapping[str, str]) -> dict[str, str]:
        """The configs as they may be shown. Their secrets are remembered."""
        return {name: self._value(name, value) for name, value in configs.items()}

    def remember(self, variables: Mapping[str, str]) -> None:
        """Remember the secrets among environment variables, by their names."""
        for name, value in variables.items():
            if _SECRET_NAME.search(name.replace("_", ".")):
                self._keep(value, is_secret=True)

    def text(self, text: str) -> str:
        """A text without the secrets that were seen, and without what looks like one."""
        text = _without_ends_of_keys(self._without_seen(text))
        for form, shown in _FORMS:
            text = form.sub(shown, text)
        return text

    def _without_seen(self, text: str) -> str:
        """The text without the secrets that were seen, and without parts of them. All are found before any is hidden:
        the end of one may be the beginning of another."""
        secret_until = [0] * (len(text) + 1)
        """For each position the end of what is secret from there on."""
        for secret in self._seen:
            at = text.find(secret)
            while at >= 0:
                secret_until[at] = max(secret_until[at], at + len(secret))
                at = text.find(secret, at + 1)
        if self._parts:
            for at in range(len(text) - PART_LETTERS + 1):
                if text[at : at + PART_LETTERS] in self._parts:
                    secret_until[at] = max(secret_until[at], at + PART_LETTERS)
        pieces, shown, hidden = [], 0, 0
        for at, until in enumerate(secret_until):
            if until > hidden:
                if at > hidden or not hidden:
                    pieces += [text[shown:at], HIDDEN]
                shown = hidden = until
        return "".join([*pieces, text[shown:]])

    def _value(self, name: str, value: str) -> str:
        if name in (SUPER_USERS, ALLOWS_WITHOUT_ACL):
            return self.text(value)
        key = KNOWN.get(name) or KNOWN.get(base_of_listener_config(name) or "")
        is_secret = _SECRET_NAME.search(name) is not None and not _NAMES_A_PLACE.search(name)
        if key is None or key.sensitive or (is_secret and key.type in ("string", "list")):
            if value:
                self._keep(value, is_secret=is_secret or (key is not None and key.sensitive))
            return HIDDEN if value else ""
        return self.text(value)

    def _keep(self, value: str, *, is_secret: bool) -> None:
        """Remember a value that is hidden. Its parts are hidden too if it is a secret for sure, and no login: the names
        of a login's module and options are everywhere."""
        values = [max(texts) for option, *texts in _OF_LOGIN.findall(value) if option != "username"]
        options = [*values, *(_ESCAPE.sub(r"\1", each) for each in values)]
        secrets = [each for each in (*options, *value.splitlines()) if _is_long(each)]
        self._seen.update(each for each in (value, value.strip(), *secrets) if _is_long(each))
        for secret in secrets if is_secret else ():
            if secret in value.splitlines() and _LOGIN_MODULE.search(secret):
                continue
            self._parts |= {secret[at : at + PART_LETTERS] for at in range(len(secret) - PART_LETTERS + 1)}


def _is_long(value: str) -> bool:
    """Whether a value is long enough to be found elsewhere by no accident."""
    if value.isdecimal():
        return len(value) >= LEAST_DIGITS
    return len(value) >= LEAST_LETTERS and value.lower() not in _NEVER_SECRET


def _without_ends_of_keys(text: str) -> str:
    """The text without the lines before an end of a PEM whose beginning is not in it."""
    lines = text.split("\n")
    for number, line in enumerate(lines):
        before = number if line.find("-----BEGIN ") < 0 <= line.find("-----END ") else 0
        while before and _PEM_LINE.fullmatch(lines[before - 1].rstrip().rpartition(" ")[2]):
            before -= 1
            lines[before] = HIDDEN
    return "\n".join(lines)
