"""Groups and offsets that are deleted at the source: they are deleted in the mirror, unless they have a use here."""

from collections.abc import Iterator

import confluent_kafka
import pytest
from two_clusters import TwoClusters, client_of, two_clusters

from kpybroker.client import group_requests, topic_requests
from kpybroker.client.client import Spot
from kpybroker.client.group_listing import list_groups
from support.waiting import eventually
from tests.broker.running_node import RunningNode
from tests.mirror.test_mirror_node import create, produce
from tests.mirror.test_planned_removals import A, B


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoClusters]:
    with two_clusters(tmp_path_factory.mktemp("removals")) as made:
        made.create_mirror("dr:m-*")
        for topic in ("m-a", "m-b"):
            create(made.source, topic)
            produce(made.source, topic, 9)
            made.wait_for(topic)
        create(made.mirror, "own")
        yield made


def commit(node: RunningNode, group: str, *spots: Spot) -> None:
    with client_of(node) as client:
        group_requests.commit(client, group, dict.fromkeys(spots, 5))


def spots_of(node: RunningNode, group: str) -> set[Spot]:
    with client_of(node) as client:
        return set(group_requests.committed(client, group))


def is_listed(node: RunningNode, group: str) -> bool:
    with client_of(node) as client:
        return group in {each.group_id for each in list_groups(client)}


def carried(clusters: TwoClusters, group: str, *spots: Spot) -> None:
    """Commit offsets at the source, and wait until they are in the mirror."""
    commit(clusters.source, group, *spots)
    eventually(lambda: set(spots) <= spots_of(clusters.mirror, group), "the group is carried over")


def delete(clusters: TwoClusters, group: str) -> None:
    with client_of(clusters.source) as client:
        group_requests.delete(client, group)


def test_a_deleted_group_is_deleted_in_the_mirror(clusters: TwoClusters) -> None:
    carried(clusters, "deleted", Spot(*A), Spot(*B))
    delete(clusters, "deleted")
    eventually(lambda: not is_listed(clusters.mirror, "deleted"), "the group is gone")


def test_deleted_offsets_are_deleted_in_the_mirror(clusters: TwoClusters) -> None:
    carried(clusters, "partly", Spot(*A), Spot(*B))
    with client_of(clusters.source) as client:
        group_requests.delete_offsets(client, "partly", [Spot(*A)])
    eventually(lambda: spots_of(clusters.mirror, "partly") == {Spot(*B)}, "the offset is gone")


def test_offsets_of_a_deleted_group_in_topics_of_the_mirrors_cluster_stay(clusters: TwoClusters) -> None:
    carried(clusters, "shared", Spot(*A))
    commit(clusters.mirror, "shared", Spot("own", 0))
    delete(clusters, "shared")
    eventually(lambda: spots_of(clusters.mirror, "shared") == {Spot("own", 0)}, "only its own offset is left")


def test_a_group_of_the_mirrors_cluster_alone_stays_when_others_are_deleted(clusters: TwoClusters) -> None:
    commit(clusters.mirror, "local", Spot(*A))
    carried(clusters, "other", Spot(*A))
    delete(clusters, "other")
    eventually(lambda: not is_listed(clusters.mirror, "other"), "the other group is gone")
    assert spots_of(clusters.mirror, "local") == {Spot(*A)}


def test_a_group_with_members_in_the_mirror_stays_until_they_are_gone(clusters: TwoClusters) -> None:
    carried(clusters, "watched", Spot(*A))
    settings = {"bootstrap.servers": f"127.0.0.1:{clusters.mirror.port}", "group.id": "watched"}
    member = confluent_kafka.Consumer({**settings, "enable.auto.commit": False})
    member.subscribe(["m-a"])
    assert member.poll(20) is not None
    carried(clusters, "marker", Spot(*A))
    delete(clusters, "watched")
    delete(clusters, "marker")
    eventually(lambda: not is_listed(clusters.mirror, "marker"), "the removals were tried")
    assert spots_of(clusters.mirror, "watched") == {Spot(*A)}
    member.close()
    eventually(lambda: not is_listed(clusters.mirror, "watched"), "the group is gone")


def test_offsets_stay_when_the_topic_is_deleted_at_the_source(clusters: TwoClusters) -> None:
    create(clusters.source, "m-gone")
    produce(clusters.source, "m-gone", 9)
    clusters.wait_for("m-gone")
    carried(clusters, "keeper", Spot("m-gone", 0), Spot(*B))
    with client_of(clusters.source) as client:
        topic_requests.delete(client, "m-gone")
        group_requests.delete_offsets(client, "keeper", [Spot(*B)])
    eventually(lambda: Spot(*B) not in spots_of(clusters.mirror, "keeper"), "the other offset is gone")
    assert spots_of(clusters.mirror, "keeper") == {Spot("m-gone", 0)}
