"""Clients whose principal is their client id, on a node without logins: ``as:alice`` is ``User:alice``."""

from typing import Any

import pytest

from kpybroker.requests.dispatching import dispatcher
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.principal import USER, Principal

PREFIX = "as:"
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
"""A node on which everybody without such a name is a super user."""


class NamedCall(Call):
    """A call whose sender is named by its client id."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        if self.client_id is not None and self.client_id.startswith(PREFIX):
            self.principal = Principal(USER, self.client_id.removeprefix(PREFIX))


def name_clients(patch: pytest.MonkeyPatch) -> None:
    """Name all clients of nodes in this process like this, until the patch is undone."""
    patch.setattr(dispatcher, "Call", NamedCall)
