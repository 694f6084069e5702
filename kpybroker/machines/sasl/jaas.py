"""The texts of ``sasl.jaas.config``: a login module with options, as in Java's login configuration files (KIP-85).

The syntax is that of Kafka's ``JaasConfig``, with the words, strings and comments of Java's ``StreamTokenizer``. Files
with several sections of such texts are read by `jaas_file`. Kafka's own login modules are known by name. Nothing is
loaded, and all others are refused (CVE-2023-25194). The texts hold passwords, so messages about them give positions and
no part of the text but the name of a module.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTHBEARER_MODULE: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
KRB5_MODULE: Final = "com.sun.security.auth.module.Krb5LoginModule"
MODULES: Final = {
    "PLAIN": PLAIN_MODULE,
    "SCRAM-SHA-256": SCRAM_MODULE,
    "SCRAM-SHA-512": SCRAM_MODULE,
    "OAUTHBEARER": OAUTHBEARER_MODULE,
    "GSSAPI": KRB5_MODULE,
}
"""The login module of each mechanism."""
LONGEST_CHARS: Final = 1 << 20
_FLAGS: Final = frozenset(("required", "requisite", "sufficient", "optional"))
# Words may also hold "-", "_" and "$". A slash that begins nothing else begins a comment.
_TOKEN: Final = r"""
    (?P<space>[\x00-\x20]+ | //[^\r\n]* | /\*.*?\*/ | /(?!\*)[^\r\n]*)
  | (?P<word>[A-Za-z_$\u00a0-\U0010ffff][A-Za-z0-9_$.\-\u00a0-\U0010ffff]*)
  | "(?P<double>[^"\\\r\n]*(?:\\.[^"\\\r\n]*)*)" | '(?P<single>[^'\\\r\n]*(?:\\.[^'\\\r\n]*)*)'
  | (?P<sign>[=;{}])"""
_ESCAPE: Final = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)
_ESCAPING: Final = re.compile(r'[\x00-\x1f"\\]')
_ESCAPED: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class JaasEntry(NamedTuple):
    """One login module. Its options may be secrets."""

    module: str
    """The name of its Java class; one of `MODULES`."""
    options: Mapping[str, str]

    def __repr__(self) -> str:
        return f"Entry({self.module!r}, options={sorted(self.options)})"


class BrokenJaas(ValueError):
    """A text that is not the configuration of one known login module. The message holds no secret."""


class JaasToken(NamedTuple):
    """A word, a string or a sign of a text."""

    kind: str
    """``text`` for words and strings, else the sign itself; ``end`` behind the last one."""
    text: str
    place: str


def parse(text: str) -> JaasEntry:
    """The login module of a ``sasl.jaas.config``. Raises `BrokenJaas`."""
    if len(text) > LONGEST_CHARS:
        raise BrokenJaas(f"the JAAS config is longer than {LONGEST_CHARS} characters")
    tokens = tokens_of(text)
    module = next(tokens)
    if module.kind == "end":
        raise BrokenJaas("the JAAS config is empty; it needs a login module, a flag, options and a ';'")
    if module.text not in MODULES.values():
        known = ", ".join(sorted(set(MODULES.values())))
        raise BrokenJaas(f"the login module {module.text[:128]!r} is not one that is known here: {known}")
    options = options_of(tokens)
    further = next(tokens)
    if further.kind != "end":
        raise BrokenJaas(f"the JAAS config must hold one login module; another one begins, {further.place}")
    return JaasEntry(module.text, options)


def options_of(tokens: Iterator[JaasToken]) -> dict[str, str]:
    """The options of a login module, from its control flag to its semicolon. Raises `BrokenJaas`."""
    flag = next(tokens)
    if flag.text.lower() not in _FLAGS:
        raise BrokenJaas(f"expected a control flag such as 'required' behind the login module, {flag.place}")
    options: dict[str, str] = {}
    for key in tokens:
        if key.kind == ";":
            break
        if key.kind == "end":
            raise BrokenJaas("the JAAS config does not end with a ';'")
        if key.kind != "text":
            raise BrokenJaas(f"expected an option, {key.place}")
        if next(tokens).kind != "=" or (value := next(tokens)).kind != "text":
            raise BrokenJaas(
                f'the option has no value, {key.place}; options are written key="value", numbers with the quotes, too'
            )
        options[key.text] = value.text
    return options


def text_of(entry: JaasEntry) -> str:
    """A text that `parse` reads as this login module."""
    options = "".join(f' {key}="{_ESCAPING.sub(_escaped, value)}"' for key, value in entry.options.items())
    return f"{entry.module} required{options};"


def tokens_of(text: str) -> Iterator[JaasToken]:
    """The tokens of a text. The end is repeated for as long as somebody asks."""
    token = re.compile(_TOKEN, re.VERBOSE | re.DOTALL)  # takes 5 ms, which a start without logins does not pay
    position = 0
    while position < len(text):
        place = f"at character {position + 1}"
        found = token.match(text, position)
        if found is None:
            quoted = text[position] in "\"'"
            raise BrokenJaas(
                f"{'a string that does not end' if quoted else 'a character that has no meaning'}, {place}"
            )
        position = found.end()
        kind = found.lastgroup
        if kind == "sign":
            yield JaasToken(found[0], "", place)
        elif kind != "space":
            string = found[found.lastgroup or 0]
            yield JaasToken("text", string if kind == "word" else _ESCAPE.sub(_unescaped, string), place)
    while True:
        yield JaasToken("end", "", "at its end")


def _unescaped(escape: re.Match[str]) -> str:
    letter = escape[1]
    return chr(int(letter, 8)) if letter[0] in "01234567" else _ESCAPED.get(letter, letter)


def _escaped(character: re.Match[str]) -> str:
    return f"\\{character[0]}" if character[0] in '"\\' else f"\\{ord(character[0]):03o}"
