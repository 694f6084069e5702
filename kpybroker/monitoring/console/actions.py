"""The table of the changes that the console makes. Each has an address, and the same one under ``/api``."""

from typing import Final

from kpybroker.monitoring.console.answers.group_changes import delete, delete_positions, remove_members
from kpybroker.monitoring.console.answers.group_resets import reset
from kpybroker.monitoring.console.answers.producing import produce
from kpybroker.monitoring.console.answers.records import cancel, more, search
from kpybroker.monitoring.console.answers.topics import configure, create
from kpybroker.monitoring.console.answers.transactions import abort
from kpybroker.monitoring.console.page import PARTITION, Action, Parameter

GROUP: Final = Parameter("id", "The group", is_needed=True)

ACTIONS: Final = (
    Action(
        "/topics",
        "Create a topic",
        create,
        (
            Parameter("name", "The name", is_needed=True),
            Parameter("partitions", "How many; the broker's default without it", "integer"),
            Parameter("replication_factor", "Replicas of each; the broker's default without it", "integer"),
            Parameter("configs", "Configs by name, or lines name=value", "object"),
        ),
        shown_on="/topics",
    ),
    Action(
        "/topics/{topic}/configs",
        "Set a config of a topic; without a value it is removed",
        configure,
        (Parameter("name", "The config", is_needed=True), Parameter("value", "Its value")),
        shown_on="/topics/{topic}",
    ),
    Action(
        "/searches",
        "Begin a search",
        search,
        (
            Parameter("topic", "The topic", is_needed=True),
            Parameter("text", "What records have to contain", is_needed=True),
            Parameter("kind", "text, regex (RE2) or hex"),
            Parameter("where", "any, key, value or header"),
            Parameter("ignore_case", "Whether capitals count as small letters", "boolean"),
            PARTITION,
            Parameter("since", "The time of the first record, as in /records"),
        ),
        is_change=False,
        shown_on="/records",
        kept=("topic",),
    ),
    Action(
        "/topics/{topic}/records",
        "Produce a record",
        produce,
        (
            Parameter("key", "The key; null if it is empty"),
            Parameter("value", "The value; null without it"),
            Parameter("headers", "Lines name=value"),
            Parameter("partition", "The number of the partition; by the key without it", "integer"),
        ),
        shown_on="/records",
        kept=("topic",),
    ),
    Action(
        "/transactions/abort",
        "Abort an open transaction, and fence its producer",
        abort,
        (Parameter("transactional_id", "The transactional id", is_needed=True),),
        shown_on="/transactions",
    ),
    Action(
        "/group/reset",
        "Set positions of a group without members",
        reset,
        (
            GROUP,
            Parameter(
                "plan", "The new positions: lines topic,partition,offset, as /group/reset has them", is_needed=True
            ),
        ),
        shown_on="/group/reset",
        kept=("id", "to", "value", "topic", "partition"),
    ),
    Action(
        "/group/members/remove",
        "Remove members of a group",
        remove_members,
        (GROUP, Parameter("member", "The id of the member; all without it")),
        shown_on="/group",
        kept=("id",),
    ),
    Action(
        "/group/positions/delete",
        "Delete the positions of a group in a topic",
        delete_positions,
        (GROUP, Parameter("topic", "The topic", is_needed=True)),
        shown_on="/group",
        kept=("id",),
    ),
    Action(
        "/group/delete",
        "Delete a group without members",
        delete,
        (GROUP, Parameter("typed", "The id of the group once more, to confirm", is_needed=True)),
        shown_on="/group",
        kept=("id",),
    ),
    Action("/searches/{search}/more", "Go on behind a search that has found enough", more, (), is_change=False),
    Action("/searches/{search}/cancel", "Cancel a search", cancel, (), is_change=False),
)
