"""RemoveUserScramCredentialRecord: type 22 in the metadata log."""

from __future__ import annotations

from kpywire.schema import i8, message, string


@message(key=22, versions="0", flexible="0+")
class RemoveUserScramCredentialRecord:
    name: string  # The user name.
    mechanism: i8  # The SCRAM mechanism.
