"""ApiVersions 5: a client says which cluster and node it means, and begins again if it reached another (KIP-1242)."""

from collections.abc import Iterator
from typing import Any

import pytest
from running_node import RunningNode

from kpywire import error_codes
from kpywire.messages.api_versions import ApiVersionsRequest
from kpywire.messages.describe_cluster import DescribeClusterRequest
from support.raw_client import RawClient

NONE, INVALID, REBOOTSTRAP = error_codes.NONE, error_codes.INVALID_REQUEST, error_codes.REBOOTSTRAP_REQUIRED
OWN, OTHER = "own", "another"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    settings = {
        "log.dirs": str(tmp_path_factory.mktemp("data")),
        "node.id": "1",
        "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "controller.listener.names": "CONTROLLER",
    }
    node = RunningNode(settings)
    yield node
    node.stop()


def asked(client: RawClient, cluster: str | None, node_id: int, version: int = 5) -> Any:
    own = client.call(DescribeClusterRequest(include_cluster_authorized_operations=False), 0).cluster_id
    return client.call(
        ApiVersionsRequest(
            client_software_name="raw",
            client_software_version="1",
            cluster_id=own if cluster == OWN else cluster,
            node_id=node_id,
        ),
        version,
    )


@pytest.mark.parametrize(
    ("cluster", "node_id", "code"),
    [
        (None, -1, NONE),
        (OWN, 1, NONE),
        (OWN, 2, REBOOTSTRAP),
        (OTHER, 1, REBOOTSTRAP),
        (OTHER, 2, REBOOTSTRAP),
        ("", 1, REBOOTSTRAP),
        (OWN, -1, INVALID),
        (None, 1, INVALID),
        ("", -1, INVALID),
    ],
)
def test_a_client_that_means_another_node_has_to_begin_again(
    node: RunningNode, cluster: str | None, node_id: int, code: int
) -> None:
    with RawClient(node.port) as client:
        answer = asked(client, cluster, node_id)
        assert answer.error_code == code
        assert bool(answer.api_keys) is (code == NONE)


def test_a_listener_of_the_controller_does_not_compare(node: RunningNode) -> None:
    with RawClient(node.node.ports["CONTROLLER"]) as client:
        assert asked(client, OTHER, 7).error_code == NONE
        assert asked(client, OTHER, -1).error_code == INVALID
