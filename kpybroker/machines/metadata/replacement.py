"""Replaces an image by a newer one of the same cluster, for a follower that was far behind.

Invariant: afterwards the image equals the newer one, and a receiver of all changes knows the same.
"""

from kpybroker.machines.metadata import metadata_version
from kpybroker.machines.metadata.delta import Changes
from kpybroker.machines.metadata.image import ZK_MIGRATION, MetadataImage

KEPT = ("acls", "client_quotas", "delegation_tokens", "scram_credentials")


def replace(image: MetadataImage, newer: MetadataImage, changes: Changes) -> None:
    """Make ``image``, an object that others hold, equal to ``newer``. ``newer`` must not be used any more."""
    before = MetadataImage.__new__(MetadataImage)
    for name in MetadataImage.__slots__:
        setattr(before, name, getattr(image, name))
        setattr(image, name, getattr(newer, name))
    _topics(before, image, changes)
    for broker_id in before.brokers.keys() | image.brokers.keys():
        was = before.brokers.get(broker_id)
        if was != image.brokers.get(broker_id):
            changes.broker_changed(broker_id, was)
    for controller_id in before.controllers.keys() | image.controllers.keys():
        if before.controllers.get(controller_id) != image.controllers.get(controller_id):
            changes.controller_changed(controller_id)
    for resource in before.configs.keys() | image.configs.keys():
        were, are = before.configs.get(resource, {}), image.configs.get(resource, {})
        for name in were.keys() | are.keys():
            if were.get(name) != are.get(name):
                changes.config_changed(resource, name)
    if before.zk_migration_state != image.zk_migration_state:
        changes.feature_changed(ZK_MIGRATION)
    if before.metadata_version != image.metadata_version:
        changes.feature_changed(metadata_version.FEATURE_NAME)
    for name in before.features.keys() | image.features.keys():
        if before.features.get(name, 0) != image.features.get(name, 0):
            changes.feature_changed(name)
    if before.next_producer_id != image.next_producer_id:
        changes.producer_ids_changed()
    for kind in KEPT:
        was_kept, is_kept = getattr(before, kind), getattr(image, kind)
        for key in was_kept.keys() | is_kept.keys():
            if was_kept.get(key) != is_kept.get(key):
                changes.kept_changed(kind, key)


def _topics(before: MetadataImage, image: MetadataImage, changes: Changes) -> None:
    for topic_id, topic in before.topics_by_id.items():
        if topic_id not in image.topics_by_id:
            changes.topic_deleted(topic)
    for topic_id, topic in list(image.topics_by_id.items()):
        known = before.topics_by_id.get(topic_id)
        were = {} if known is None else known.partitions
        if known is None:
            changes.topic_created(topic)
        else:  # others hold this object
            known.become(topic)
            image.topics_by_id[topic_id] = image.topics[topic.name] = topic = known
        for partition_id, partition in topic.partitions.items():
            was = were.get(partition_id)
            if was != partition:
                changes.partition_changed(topic, partition_id, was)
