"""The table of the changes that the console makes. Each has an address, and the same one under ``/api``."""

from typing import Final

from kpybroker.monitoring.console.answers import configs, group_changes
from kpybroker.monitoring.console.answers.balance import set_mode, stop
from kpybroker.monitoring.console.answers.cluster_changes import cancel_move, elect, remove_throttle, unregister
from kpybroker.monitoring.console.answers.group_resets import reset
from kpybroker.monitoring.console.answers.producing import produce
from kpybroker.monitoring.console.answers.quorum import set_level
from kpybroker.monitoring.console.answers.searching import cancel, more, search
from kpybroker.monitoring.console.answers.topic_changes import (
    add_partitions,
    configure,
    create,
    delete,
    delete_records,
)
from kpybroker.monitoring.console.answers.transactions import abort
from kpybroker.monitoring.console.page import PARTITION, Action, Parameter
from kpybroker.monitoring.console.pages import FILTER, FORM

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
        (Parameter("name", "The config", is_needed=True), Parameter("value", "Its value, or words such as 7 days")),
        shown_on="/topics/{topic}",
    ),
    Action(
        "/configs",
        "Set a config of this node while it runs; without a value it is removed",
        configs.configure,
        (
            Parameter("name", "The config", is_needed=True),
            Parameter("value", "Its value, or words such as 7 days"),
            Parameter("everywhere", "Whether it is set for all brokers", "boolean"),
        ),
        shown_on="/configs",
    ),
    Action(
        "/topics/{topic}/partitions",
        "Add partitions to a topic",
        add_partitions,
        (Parameter("count", "How many it has then", "integer", is_needed=True),),
        shown_on="/topics/{topic}",
    ),
    Action(
        "/topics/{topic}/records/delete",
        "Delete the oldest records of a topic",
        delete_records,
        (Parameter("before", "The offset of the first record that stays, or all", is_needed=True), PARTITION),
        shown_on="/topics/{topic}",
    ),
    Action(
        "/topics/{topic}/delete",
        "Delete a topic with its records",
        delete,
        (Parameter("confirm", "The name of the topic again", is_needed=True),),
        shown_on="/topics/{topic}",
    ),
    Action(
        "/searches",
        "Begin a search",
        search,
        (
            Parameter("topic", "The topic", is_needed=True),
            PARTITION,
            FORM,
            *FILTER,
        ),
        is_change=False,
        shown_on="/records",
        kept=("topic", "partition", "form", *(each.name for each in FILTER)),
    ),
    Action(
        "/topics/{topic}/records",
        "Produce a record",
        produce,
        (
            Parameter("key", "The key; null if it is empty"),
            Parameter("key_as", "text, hex or base64"),
            Parameter("value", "The value; null without it"),
            Parameter("value_as", "text, hex or base64"),
            Parameter("null_value", "1 if the value is null: a tombstone", "boolean"),
            Parameter("newlines", "lf if line breaks of the value are written as LF; forms of browsers have CRLF"),
            Parameter("headers", "Lines name=value"),
            Parameter("headers_as", "text, hex or base64: how the values of headers are written"),
            Parameter("partition", "The number of the partition; by the key without it", "integer"),
        ),
        shown_on="/records/produce",
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
        group_changes.remove_members,
        (GROUP, Parameter("member", "The id of the member; all without it")),
        shown_on="/group",
        kept=("id",),
    ),
    Action(
        "/group/positions/delete",
        "Delete the positions of a group in a topic",
        group_changes.delete_positions,
        (GROUP, Parameter("topic", "The topic", is_needed=True)),
        shown_on="/group",
        kept=("id",),
    ),
    Action(
        "/group/delete",
        "Delete a group without members",
        group_changes.delete,
        (GROUP, Parameter("typed", "The id of the group once more, to confirm", is_needed=True)),
        shown_on="/group",
        kept=("id",),
    ),
    Action(
        "/features",
        "Raise the level of a feature, or lower it",
        set_level,
        (
            Parameter("feature", "The feature", is_needed=True),
            Parameter("level", "Its level", "integer", is_needed=True),
            Parameter("lower", "Whether it may become lower", "boolean"),
        ),
        shown_on="/quorum",
    ),
    Action(
        "/balance",
        "Set the mode of the balancer",
        set_mode,
        (Parameter("mode", "off, advise or auto", is_needed=True),),
        shown_on="/balance",
    ),
    Action(
        "/balance/stop",
        "Stop the balancer: cancel its moves, remove their throttles, and only advise",
        stop,
        (),
        shown_on="/balance",
    ),
    Action(
        "/brokers/unregister",
        "Let the cluster forget a broker that will not come back",
        unregister,
        (
            Parameter("broker", "The id of the broker", "integer", is_needed=True),
            Parameter("typed", "The id again, to confirm it", is_needed=True),
        ),
        shown_on="/",
    ),
    Action(
        "/elections",
        "Elect leaders of one partition, or of all that need it",
        elect,
        (
            Parameter("topic", "The topic; all without it"),
            Parameter("partition", "The number of the partition; all without it", "integer"),
            Parameter("kind", "preferred or unclean"),
            Parameter("typed", "The word unclean, to confirm an unclean election"),
        ),
        shown_on="/",
    ),
    Action(
        "/moves/cancel",
        "Cancel the move of a partition to other brokers",
        cancel_move,
        (
            Parameter("topic", "The topic", is_needed=True),
            Parameter("partition", "The number of the partition", "integer", is_needed=True),
        ),
        shown_on="/",
    ),
    Action(
        "/throttles/remove",
        "Remove a config that slows replication down",
        remove_throttle,
        (
            Parameter("kind", "broker or topic", is_needed=True),
            Parameter("name", "The id of the broker, empty for all brokers; or the topic"),
            Parameter("config", "The config", is_needed=True),
        ),
        shown_on="/",
    ),
    Action("/searches/{search}/more", "Go on behind a search that has found enough", more, (), is_change=False),
    Action("/searches/{search}/cancel", "Cancel a search", cancel, (), is_change=False),
)
