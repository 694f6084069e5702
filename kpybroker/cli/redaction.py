"""Secrets kept out of texts that leave the machine: values of configs by their type, everything else by its form.

Pure. A value is shown only if its key is one of Kafka's or ours and no secret; a key that nobody knows may hold
anything. Values that are hidden once are hidden wherever they occur again, such as in a log line.
"""

import re
from collections.abc import Mapping

from kpybroker.config.authorizer_configs import ALLOWS_WITHOUT_ACL, SUPER_USERS
from kpybroker.config.broker import KNOWN
from kpybroker.config.definition import HIDDEN
from kpybroker.config.synonyms import base_of_listener_config

LEAST_LETTERS = 4
"""A shorter value, such as ``no``, also occurs where it is no secret."""
_SECRET_NAME = re.compile(r"password|passwd|passphrase|secret|credential|token|jaas|keystore\.key|api[._-]?key", re.I)
_NAMES_A_PLACE = re.compile(r"\.(location|url|urls|class|type|ms|seconds|mechanism|endpoint\.url)$")
_OF_LOGIN = re.compile(r"([\w.-]+)\s*=\s*(?:\"((?:[^\"\\]|\\.)*)\"|'([^']*)'|([^\s;\"']+))")
_NEVER_SECRET = frozenset({"true", "false", "none", "null", "required", "scram"})
_FORMS = (
    (re.compile(r"-----BEGIN ([A-Z ]+)-----.*?(?:-----END \1-----|\Z)", re.DOTALL), HIDDEN),
    (re.compile(r"(\b[a-z][a-z0-9+.-]*://)[^\s/@:]*:[^\s/@]*@", re.I), rf"\1{HIDDEN}@"),
    (re.compile(r"(\b(?:Authorization|Proxy-Authorization)\b[\"']?\s*[:=]\s*[\"']?)[^\n\"']*", re.I), rf"\1{HIDDEN}"),
    (re.compile(r"\b((?:Basic|Bearer)\s+)[A-Za-z0-9+/_=.~-]{6,}"), rf"\1{HIDDEN}"),
    (re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*\.?[A-Za-z0-9_-]*"), HIDDEN),
    (
        re.compile(
            r"([\w.-]*(?:password|passwd|passphrase|secret|api[_-]?key|access[_-]?key|token)[\w.-]*[\"']?\s*[:=]\s*)"
            r"(?!\[hidden\])(?:\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*'|[^\s,;}\])]+)",
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

    def configs(self, configs: Mapping[str, str]) -> dict[str, str]:
        """The configs as they may be shown. Their secrets are remembered."""
        return {name: self._value(name, value) for name, value in configs.items()}

    def remember(self, variables: Mapping[str, str]) -> None:
        """Remember the secrets among environment variables, by their names."""
        for name, value in variables.items():
            if _SECRET_NAME.search(name.replace("_", ".")):
                self._keep(value)

    def text(self, text: str) -> str:
        """A text without the secrets that were seen, and without what looks like one."""
        for secret in sorted(self._seen, key=len, reverse=True):
            text = text.replace(secret, HIDDEN)
        for form, shown in _FORMS:
            text = form.sub(shown, text)
        return text

    def _value(self, name: str, value: str) -> str:
        if name in (SUPER_USERS, ALLOWS_WITHOUT_ACL):
            return self.text(value)
        key = KNOWN.get(name) or KNOWN.get(base_of_listener_config(name) or "")
        is_secret = _SECRET_NAME.search(name) is not None and not _NAMES_A_PLACE.search(name)
        if key is None or key.sensitive or (is_secret and key.type in ("string", "list")):
            if value:
                self._keep(value)
            return HIDDEN if value else ""
        return self.text(value)

    def _keep(self, value: str) -> None:
        quoted = [max(texts) for option, *texts in _OF_LOGIN.findall(value) if option != "username"]
        for secret in (value, value.strip(), *quoted, *value.splitlines()):
            if len(secret) >= LEAST_LETTERS and secret.lower() not in _NEVER_SECRET and not secret.isdecimal():
                self._seen.add(secret)
