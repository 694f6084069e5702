"""The types of records here, and the module that declares each. Written by `kpywire.generator`."""

from typing import Final

REGISTER_BROKER_RECORD: Final = 0
UNREGISTER_BROKER_RECORD: Final = 1
TOPIC_RECORD: Final = 2
PARTITION_RECORD: Final = 3
CONFIG_RECORD: Final = 4
PARTITION_CHANGE_RECORD: Final = 5
FENCE_BROKER_RECORD: Final = 7
UNFENCE_BROKER_RECORD: Final = 8
REMOVE_TOPIC_RECORD: Final = 9
DELEGATION_TOKEN_RECORD: Final = 10
USER_SCRAM_CREDENTIAL_RECORD: Final = 11
FEATURE_LEVEL_RECORD: Final = 12
CLIENT_QUOTA_RECORD: Final = 14
PRODUCER_IDS_RECORD: Final = 15
BROKER_REGISTRATION_CHANGE_RECORD: Final = 17
ACCESS_CONTROL_ENTRY_RECORD: Final = 18
REMOVE_ACCESS_CONTROL_ENTRY_RECORD: Final = 19
NO_OP_RECORD: Final = 20
ZK_MIGRATION_STATE_RECORD: Final = 21
REMOVE_USER_SCRAM_CREDENTIAL_RECORD: Final = 22
BEGIN_TRANSACTION_RECORD: Final = 23
END_TRANSACTION_RECORD: Final = 24
ABORT_TRANSACTION_RECORD: Final = 25
REMOVE_DELEGATION_TOKEN_RECORD: Final = 26
REGISTER_CONTROLLER_RECORD: Final = 27
CLEAR_ELR_RECORD: Final = 28
UNREGISTER_CONTROLLER_RECORD: Final = 29

MODULES: dict[int, str] = {
    REGISTER_BROKER_RECORD: "register_broker_record",
    UNREGISTER_BROKER_RECORD: "unregister_broker_record",
    TOPIC_RECORD: "topic_record",
    PARTITION_RECORD: "partition_record",
    CONFIG_RECORD: "config_record",
    PARTITION_CHANGE_RECORD: "partition_change_record",
    FENCE_BROKER_RECORD: "fence_broker_record",
    UNFENCE_BROKER_RECORD: "unfence_broker_record",
    REMOVE_TOPIC_RECORD: "remove_topic_record",
    DELEGATION_TOKEN_RECORD: "delegation_token_record",
    USER_SCRAM_CREDENTIAL_RECORD: "user_scram_credential_record",
    FEATURE_LEVEL_RECORD: "feature_level_record",
    CLIENT_QUOTA_RECORD: "client_quota_record",
    PRODUCER_IDS_RECORD: "producer_ids_record",
    BROKER_REGISTRATION_CHANGE_RECORD: "broker_registration_change_record",
    ACCESS_CONTROL_ENTRY_RECORD: "access_control_entry_record",
    REMOVE_ACCESS_CONTROL_ENTRY_RECORD: "remove_access_control_entry_record",
    NO_OP_RECORD: "no_op_record",
    ZK_MIGRATION_STATE_RECORD: "zk_migration_state_record",
    REMOVE_USER_SCRAM_CREDENTIAL_RECORD: "remove_user_scram_credential_record",
    BEGIN_TRANSACTION_RECORD: "begin_transaction_record",
    END_TRANSACTION_RECORD: "end_transaction_record",
    ABORT_TRANSACTION_RECORD: "abort_transaction_record",
    REMOVE_DELEGATION_TOKEN_RECORD: "remove_delegation_token_record",
    REGISTER_CONTROLLER_RECORD: "register_controller_record",
    CLEAR_ELR_RECORD: "clear_elr_record",
    UNREGISTER_CONTROLLER_RECORD: "unregister_controller_record",
}
