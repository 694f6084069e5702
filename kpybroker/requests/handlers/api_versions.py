"""ApiVersions (18), versions 0-5: the APIs and versions that this broker serves, and the finalised features.

- An unknown version is answered in version 0, with error 35 and the range of this key only (KIP-511). The dispatcher
  calls `unsupported_version` for that.
- v3: client software name and version, which must be plain words, else INVALID_REQUEST (KIP-511); features as tagged
  fields (KIP-584).
- The APIs of client metrics are listed once the cluster has a subscription to them (KIP-714). Kafka lists them where a
  receiver is loaded: clients that find them ask for their subscription, and librdkafka logs a line about it.
- v4: lists features whose lowest level is 0. Earlier versions leave them out: old clients would fail (KAFKA-17011).
- v5: a client says which cluster and which node it means. It needs both, else INVALID_REQUEST; if it means another
  node, the answer is REBOOTSTRAP_REQUIRED, and it begins again at its bootstrap servers (KIP-1242). The listeners of a
  controller do not compare, and neither does a listener before the login.
"""

import re
from functools import lru_cache

from kpybroker.machines.metadata.image import KRAFT_VERSION
from kpybroker.requests.handlers import ADVERTISED_FROM_ZERO, OF_CLIENT_METRICS
from kpybroker.requests.serving.context import Context, is_asked_as_controller
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.client import ConnectedClient
from kpybroker.runtime.calls.principal import ANONYMOUS
from kpywire import error_codes
from kpywire.codec import EncodedStructs, encode_struct
from kpywire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

API_VERSIONS = 18
ANY_NODE = -1
Served = tuple[int, tuple[int, int]]
"""An API key with its first and last version."""
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(broker: Context, request: ApiVersionsRequest, call: Call) -> ApiVersionsResponse:
    """Answer with every served key, and remember the client's software name and version."""
    if call.api_version >= 3:
        name, version = request.client_software_name, request.client_software_version
        names_half = (request.cluster_id is None) != (request.node_id == ANY_NODE)
        if names_half or not _SOFTWARE.fullmatch(name) or not _SOFTWARE.fullmatch(version):
            return ApiVersionsResponse(error_code=error_codes.INVALID_REQUEST, api_keys=[])
        if _means_another(broker, request, call):
            return ApiVersionsResponse(error_code=error_codes.REBOOTSTRAP_REQUIRED, api_keys=[])
        call.client.introduced((name, version))
    image = broker.image
    features = {**image.finalized_features, KRAFT_VERSION: broker.controller.kraft_version}
    finalized = {name: level for name, level in features.items() if level > 0}
    return ApiVersionsResponse(
        error_code=error_codes.NONE,
        api_keys=_api_keys(
            tuple(call.versions.items()),
            call.api_version,
            with_metrics=_offers_metrics(broker),
        ),
        supported_features=[
            SupportedFeatureKey(name=name, min_version=first, max_version=last)
            for name, (first, last) in broker.supported_features.items()
            if first > 0 or call.api_version >= 4
        ],
        zk_migration_ready=broker.config.migrates_from_zookeeper,
        finalized_features_epoch=image.next_offset - 1,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in finalized.items()
        ],
    )


def _means_another(broker: Context, request: ApiVersionsRequest, call: Call) -> bool:
    """Whether the client means another cluster or node than the one that it reached."""
    if request.cluster_id is None or is_asked_as_controller(broker, call) or _has_to_log_in(call.client):
        return False
    return request.cluster_id != broker.image.cluster_id or request.node_id != broker.node_id


def _has_to_log_in(client: ConnectedClient) -> bool:
    """Whether the client is not known yet, on a listener where it has to log in by SASL."""
    return client.principal is ANONYMOUS and client.security_protocol.startswith("SASL_")


def _offers_metrics(broker: Context) -> bool:
    """Whether clients may ask for a subscription to their metrics, and push them."""
    is_wanted: bool = broker.wants_client_metrics or broker.config["kpybroker.client.metrics.always.offered"]
    return is_wanted and bool(broker.config["kpybroker.client.metrics.max.series"])


@lru_cache(32)
def _api_keys(versions: tuple[Served, ...], version: int, *, with_metrics: bool) -> EncodedStructs:
    """The served keys, encoded once: each new connection asks for them."""
    return EncodedStructs(
        [
            encode_struct(_advertised(key, first, last), ApiVersionsResponse, version)
            for key, (first, last) in sorted(versions)
            if with_metrics or key not in OF_CLIENT_METRICS
        ]
    )


def unsupported_version(_broker: Context, call: Call) -> ApiVersionsResponse:
    """The answer, in version 0, to an ApiVersions request of a version that is not served."""
    first, last = call.versions[API_VERSIONS]
    return ApiVersionsResponse(
        error_code=error_codes.UNSUPPORTED_VERSION, api_keys=[_advertised(API_VERSIONS, first, last)]
    )


def _advertised(key: int, first: int, last: int) -> ApiVersion:
    return ApiVersion(api_key=key, min_version=0 if key in ADVERTISED_FROM_ZERO else first, max_version=last)
