"""The identity of the user or program that sends a request (``KafkaPrincipal``)."""

from typing import Final

USER: Final = "User"


class Principal:
    """A type and a name, such as ``User:alice``. Two are equal if both are; how somebody logged in does not count."""

    __slots__ = ("_hash", "name", "principal_type", "token_authenticated")

    def __init__(self, principal_type: str, name: str, *, token_authenticated: bool = False) -> None:
        """``token_authenticated``: whether the login was by delegation token."""
        self.principal_type = principal_type
        self.name = name
        self.token_authenticated = token_authenticated
        self._hash = hash((principal_type, name))  # permissions are found by it

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Principal):
            return NotImplemented
        return self.principal_type == other.principal_type and self.name == other.name

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return f"{self.principal_type}:{self.name}"

    def __repr__(self) -> str:
        return f"Principal({self.principal_type!r}, {self.name!r})"


ANONYMOUS: Final = Principal(USER, "ANONYMOUS")
"""The principal of clients that are not authenticated (``KafkaPrincipal.ANONYMOUS``)."""
EVERYONE: Final = "User:*"
"""The principal of an ACL that holds for everybody."""


def parse_principal(text: str) -> Principal:
    """The principal of ``Type:name``; the name may contain colons (``SecurityUtils.parseKafkaPrincipal``). Raises
    ValueError."""
    principal_type, colon, name = text.partition(":")
    if not (principal_type and colon and name):
        raise ValueError(f"expected a string in format principalType:principalName but got {text}")
    return Principal(principal_type, name)
