"""The names in a certificate: its distinguished names as Java writes them, and its other names.

``X500Principal.getName()`` writes RFC 2253: the last part first, keywords of RFC 2253 only, all other types as numbers
with the value in hexadecimal. ACLs and mapping rules of existing clusters contain names in exactly this form.
"""

from typing import Final, NamedTuple

from kpybroker.security.tls.der import (
    INTEGER,
    OBJECT_IDENTIFIER,
    OCTET_STRING,
    SEQUENCE,
    SET,
    MalformedDer,
    Value,
    object_identifier,
    only,
)

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
_SUBJECT_ALTERNATIVE_NAME: Final = "2.5.29.17"
_UTF8, _PRINTABLE, _T61, _IA5, _GENERAL, _BMP = 0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E
_TEXTS: Final = frozenset({_UTF8, _PRINTABLE, _T61, _IA5, _GENERAL, _BMP})
_ESCAPED: Final = frozenset(',+<>#;"\\=')
_EDGES: Final = " \r"
_VERSION, _EXTENSIONS = 0xA0, 0xA3


class CertificateNames(NamedTuple):
    """The names of a certificate and of its issuer, and the subject alternative names as their DER."""

    subject: str
    issuer: str
    alternatives: frozenset[bytes]


def names_of(certificate: bytes) -> CertificateNames:
    """The names of a certificate, which is given as DER. Raises MalformedDer."""
    fields = _fields(certificate)
    alternatives: frozenset[bytes] = frozenset()
    for field in fields[5:]:
        if field.tag == _EXTENSIONS:
            alternatives = _alternatives(field)
    return CertificateNames(_in_words(fields[4]), _in_words(fields[2]), alternatives)


def subject_of(certificate: bytes) -> str:
    """The distinguished name of a certificate's owner, as Java writes it. Raises MalformedDer."""
    return _in_words(_fields(certificate)[4])


def _fields(certificate: bytes) -> list[Value]:
    """Serial number, algorithm, issuer, validity, subject and what follows them."""
    parts = only(certificate, SEQUENCE).values()
    fields = parts[0].values() if parts and parts[0].tag == SEQUENCE else []
    if fields and fields[0].tag == _VERSION:
        del fields[0]
    if len(fields) < 6 or fields[0].tag != INTEGER or any(field.tag != SEQUENCE for field in fields[1:6]):
        raise MalformedDer("no certificate")
    return fields


def _alternatives(extensions: Value) -> frozenset[bytes]:
    for extension in only(extensions.content, SEQUENCE).values():
        parts = extension.values()
        if len(parts) < 2 or parts[0].tag != OBJECT_IDENTIFIER or parts[-1].tag != OCTET_STRING:
            raise MalformedDer("no extension")
        if object_identifier(parts[0].content) == _SUBJECT_ALTERNATIVE_NAME:
            return frozenset(name.encoded for name in only(parts[-1].content, SEQUENCE).values())
    return frozenset()


def _in_words(name: Value) -> str:
    relative = []
    for part in name.values():
        if part.tag != SET:
            raise MalformedDer("no distinguished name")
        relative.append("+".join(map(_assertion, part.values())))
    return ",".join(reversed(relative))


def _assertion(pair: Value) -> str:
    parts = pair.values()
    if len(parts) != 2 or parts[0].tag != OBJECT_IDENTIFIER:
        raise MalformedDer("no attribute of a distinguished name")
    kind, value = object_identifier(parts[0].content), parts[1]
    keyword = _KEYWORDS.get(kind)
    if keyword is None or value.tag not in _TEXTS:
        return f"{keyword or kind}=#{value.encoded.hex()}"
    return f"{keyword}={_escaped(value.content.decode('utf-8', 'replace'))}"


def _escaped(text: str) -> str:
    """A value with a backslash before special characters and before blanks at both ends."""
    pieces = ["\\" + char if char in _ESCAPED else "\\00" if char == "\0" else char for char in text]
    written = "".join(pieces)
    lead = len(written) - len(written.lstrip(_EDGES))
    trail = len(written.rstrip(_EDGES))
    if lead == 0 and trail == len(written):
        return written
    before = "".join("\\" + char for char in written[:lead])
    return before + written[lead:trail] + "".join("\\" + char for char in written[max(lead, trail) :])
