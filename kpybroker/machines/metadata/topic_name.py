"""The rules for names of topics (Kafka's ``Topic`` in clients' ``common.internals``)."""

import re
from typing import Final

MAX_NAME_LENGTH = 249
CLUSTER_METADATA: Final = "__cluster_metadata"
GROUP_OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTION_STATE_TOPIC = "__transaction_state"
SHARE_GROUP_STATE_TOPIC = "__share_group_state"
INTERNAL = frozenset((GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_GROUP_STATE_TOPIC))
NEVER_TIERED = INTERNAL | {"__remote_log_metadata"}
"""The topics that have all of their records on disks, whatever is configured."""

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+", re.ASCII)


def reason_invalid(name: str) -> str | None:
    """Explain in Kafka's words why this name is invalid; None if it is valid."""
    if not name:
        reason = "the empty string is not allowed"
    elif name in (".", ".."):
        reason = f"'{name}' is not allowed"
    elif len(name) > MAX_NAME_LENGTH:
        reason = f"the length of '{name}' is longer than the max allowed length {MAX_NAME_LENGTH}"
    elif not _LEGAL.fullmatch(name):
        reason = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    else:
        return None
    return f"Topic name is invalid: {reason}"


def may_collide(name: str) -> bool:
    """Whether metrics could confuse this name with another one, since they write ``_`` for ``.``."""
    return "_" in name or "." in name


def unify_collisions(name: str) -> str:
    """The name as metrics write it: equal for names that collide."""
    return name.replace(".", "_")
