"""The requests that the active controller decides. They are forwarded unchanged and answered with its response.

On a single node the controller is in the same process, and gets the same messages (KIP-590 without its envelope).
`FORWARDED` has an entry for each: its versions, and what they add.
"""

from typing import Any, Final

from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.forwarding import forward
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.pending import Pending

FORWARDED: Final = {
    "add_raft_voter": """AddRaftVoter (80), versions 0-1: a controller that follows the metadata log
        becomes a voter (KIP-853).
        - v1: whether the answer waits until the new voters are committed.
        - Decided by the quorum's leader, in `kpybroker.machines.raft.voter_changes`.""",
    "allocate_producer_ids": """AllocateProducerIds (67), version 0: a block of producer ids for a broker (KIP-730).
        - Decided in `kpybroker.machines.controller.producer_ids`.""",
    "alter_client_quotas": """AlterClientQuotas (49), versions 0-1: set and remove the quotas of users, client ids and
        addresses (KIP-546).
        - v1: flexible. Each entity succeeds or fails by itself.
        - Decided in `kpybroker.machines.controller.client_quotas`.""",
    "alter_partition": """AlterPartition (56), versions 2-3: leaders change the in-sync sets of their
        partitions (KIP-497).
        - v3: members come with their broker epochs (KIP-903).
        - Decided in `kpybroker.machines.controller.partitions`.""",
    "alter_partition_reassignments": """AlterPartitionReassignments (45), versions 0-1: move partitions to other
        brokers, or cancel a move (KIP-455).
        - v1: whether the replication factor may change with it (KIP-860).
        - A move to the brokers where a partition is already changes nothing; ``kafka-reassign-partitions`` asks for it
          before it moves replicas between the directories of their brokers.
        - Decided in `kpybroker.machines.controller.reassignments`.""",
    "alter_user_scram_credentials": """AlterUserScramCredentials (51), version 0: store and delete the SCRAM credentials
        of users (KIP-554).
        - The client salts the password; only the keys that follow from it are stored.
        - Users fail one by one; all others are changed together.
        - Decided in `kpybroker.machines.controller.scram`.""",
    "assign_replicas_to_dirs": """AssignReplicasToDirs (73), version 0: the log directories in which a broker keeps its
        replicas (KIP-858).
        - Decided in `kpybroker.machines.controller.directories`.""",
    "broker_registration": """BrokerRegistration (62), versions 0-4: a broker joins the cluster (KIP-631).
        - v1: what it is migrated from; v2: its log directories (KIP-858); v3: its epoch before, if it stopped cleanly
          (KIP-966).
        - Decided in `kpybroker.machines.controller.brokers`.""",
    "controller_registration": """ControllerRegistration (70), version 0: where a controller listens, and what it
        supports (KIP-919).
        - Decided in `kpybroker.machines.controller.brokers`.""",
    "create_partitions": """CreatePartitions (37), versions 0-3.
        - The count only grows; new partitions may be assigned by hand.
        - Decided in `kpybroker.machines.controller.partitions`.""",
    "create_topics": """CreateTopics (19), versions 2-7.
        - v4: -1 partitions or replication factor is the broker's default (KIP-464); v5: the answer describes the topic
          (KIP-525); v7: topic ids.
        - Decided in `kpybroker.machines.controller.topics`.""",
    "delete_topics": """DeleteTopics (20), versions 1-6.
        - v5: error messages; v6: by topic id (KIP-516).
        - Decided in `kpybroker.machines.controller.topics`.""",
    "describe_quorum": """DescribeQuorum (55), versions 0-2: the voters of the metadata log and their positions
        (KIP-595).
        - v1: when each of them last fetched and was last caught up (KIP-836); the leader itself is always caught up.
        - v2: where the voters listen, the ids of their directories, error messages (KIP-853).
        - Answered by the quorum's leader, in `kpybroker.machines.raft.description`.""",
    "elect_leaders": """ElectLeaders (43), versions 0-2: preferred leaders, or any leader for partitions without one
        (KIP-183, KIP-460).
        - v0 elects preferred leaders only. Null partitions means all; those that need no election are then left out.
        - Decided in `kpybroker.machines.controller.partitions`.""",
    "list_partition_reassignments": """ListPartitionReassignments (46), version 0: the partitions that are moving
        between brokers (KIP-455).
        - Null topics means all. A partition that is not moving, or does not exist, is left out.
        - Answered in `kpybroker.machines.controller.reassignments`.""",
    "remove_raft_voter": """RemoveRaftVoter (81), version 0: a controller, alive or not, is a voter no longer (KIP-853).
        - Decided by the quorum's leader, in `kpybroker.machines.raft.voter_changes`.""",
    "unregister_broker": """UnregisterBroker (64), version 0: forget a broker that will not come back (KIP-730).
        - A broker that is alive is forgotten too, and its partitions lose their leaders. It registers again at once;
          Apache Kafka's has to be restarted.
        - Decided in `kpybroker.machines.controller.brokers`.""",
    "unregister_controller": """UnregisterController (94), version 0: forget a controller that will not come back
        (KIP-1312), from metadata.version 4.4-IV2 on.
        - A controller that is alive registers again; the active one cannot be unregistered. Voters stay voters.
        - Decided in `kpybroker.machines.controller.controllers`.""",
    "update_features": """UpdateFeatures (57), versions 0-2: raise or lower the finalised level of a feature (KIP-584,
        KIP-778).
        - All updates of a request take effect, or none. v1 adds downgrades and validation only; v0's own flag for a
          downgrade is ignored, as in Kafka. v2 answers only the outcome of the whole request.
        - Decided in `kpybroker.machines.controller.features`.""",
}
"""The forwarded APIs by message module."""


def handle(broker: Context, request: Any, call: Call) -> Pending:
    """Send a request to the active controller, in its own version."""
    return forward(broker, request, call)
