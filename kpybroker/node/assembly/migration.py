"""The migration from ZooKeeper of a node that is a controller, made of its parts."""

from kpybroker.config.broker import BrokerConfig
from kpybroker.config.dynamic import is_password
from kpybroker.hosts.quorum.formatter import new_uuid
from kpybroker.hosts.quorum.host import QuorumHost
from kpybroker.hosts.quorum.recovery import StartRefused
from kpybroker.hosts.zookeeper.broker.layout import DefaultAcls
from kpybroker.hosts.zookeeper.controller.senders import Senders
from kpybroker.hosts.zookeeper.migration.migrating import Migrating, note
from kpybroker.machines.controller.activation import bootstrap_levels
from kpybroker.machines.metadata import metadata_version
from kpybroker.machines.metadata.image import MIGRATION, NO_MIGRATION, PRE_MIGRATION
from kpybroker.machines.zookeeper.migration.broker_passwords import BrokerPasswords
from kpybroker.machines.zookeeper.migration.driver import MigrationDriver
from kpybroker.machines.zookeeper.migration.records import Copying
from kpybroker.node.assembly.platform import Platform, Simulated
from kpybroker.node.assembly.quorum import QuorumParts
from kpybroker.node.assembly.storage import StoredNode
from kpybroker.node.assembly.zookeeper import encoding_of
from kpybroker.node.assembly.zookeeper_client import client_of
from kpybroker.node.assembly.zookeeper_controller import LEVEL_OF_3_9


def build_migration(
    config: BrokerConfig, platform: Platform, simulated: Simulated, quorum: QuorumParts, stored: StoredNode
) -> Migrating:
    """The migration of this controller. Raises StartRefused."""
    host = quorum.host
    _check_level(host, stored)
    client = client_of(config, platform, simulated.connect)
    peers = platform.broker_peers(config, "controller-to-broker")
    senders = Senders(platform.scheduler, peers, config.node_id, config.inter_broker_listener_name)
    platform.ends.callback(peers.close)
    platform.ends.callback(senders.close)
    driver = MigrationDriver(
        config.node_id,
        host.image,
        voters=lambda: list(host.voters.voters),
        send=senders.command,
        log=note,
        acl_of=DefaultAcls(is_secure=config["zookeeper.set.acl"]).of,
        copying=Copying(
            lambda: new_uuid(platform.rng),
            BrokerPasswords(is_password, encoding_of(config), platform.secret_rng.randbytes),
        ),
    )
    migrating = Migrating(
        driver, client, platform.scheduler, host.commit_copied, stored.identity.cluster_id, platform.failed
    )
    host.subscribe(migrating.published)
    host.when_leader_changes(lambda: migrating.active_epoch_is(host.active_epoch))
    return migrating


def _check_level(host: QuorumHost, stored: StoredNode) -> None:
    """Check that brokers in ZooKeeper mode could register: they have one level of ``metadata.version``."""
    image = host.image
    if image.zk_migration_state not in (NO_MIGRATION, PRE_MIGRATION, MIGRATION):
        return
    level = image.metadata_version
    if level is None:
        level = bootstrap_levels(stored.identity.bootstrap_records).get(metadata_version.FEATURE_NAME, LEVEL_OF_3_9)
    if level != LEVEL_OF_3_9:
        raise StartRefused(
            f"metadata.version is {metadata_version.name_of(level)}, but brokers in ZooKeeper mode have "
            f"{metadata_version.name_of(LEVEL_OF_3_9)}; format the controllers with --release-version 3.9"
        )
