"""ZkMigrationStateRecord: type 21 in the metadata log."""

from __future__ import annotations

from kpywire.schema import i8, message


@message(key=21, versions="0", flexible="0+")
class ZkMigrationStateRecord:
    """Version 0 adds ZkMigrationState which is used by the KRaft controller to mark the beginning and end of the ZK
    to KRaft migration.
    In 3.4, the defined values are: 0 (None), 1 (PreMigration), 2 (Migration), 3 (PostMigration). In 3.5, the
    values for PreMigration and Migration were swapped: 0 (None), 2 (PreMigration), 1 (Migration), 3
    (PostMigration). This was done to work around the fact that we never wrote Migration or PostMigration records
    in 3.4 In 4.0, although migration is no longer supported and ZK has been removed from Kafka, users might
    migrate from ZK to KRaft in version 3.x and then perform a rolling upgrade to 4.0. Therefore, this generated
    code needs to be retained.
    """

    zk_migration_state: i8  # One of the possible migration states.
