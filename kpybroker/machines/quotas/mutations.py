"""The quota of controller mutations (KIP-599, ``ControllerMutationQuotaManager``): partitions created and deleted.

A strict quota refuses what comes while the bucket is in debt, with THROTTLING_QUOTA_EXCEEDED; a permissive one only
makes the client wait. What exhausts the bucket is still accepted in both.
"""

from collections.abc import Mapping

from kpybroker.machines.errors import KafkaError
from kpybroker.machines.quotas.client_quotas import CONTROLLER_MUTATION_RATE, ClientQuotas, Entity, FoundQuota
from kpybroker.machines.quotas.rate import DEFAULT_WINDOWS, QuotaWindows
from kpybroker.machines.quotas.shares import Shares
from kpybroker.machines.quotas.token_bucket import TokenBucket, bucket_throttle_ms
from kpywire import error_codes


class MutationQuota:
    """The quota of one request."""

    __slots__ = ("_bucket", "_is_strict", "_rate", "throttle_ms")

    def __init__(self, bucket: TokenBucket, rate: float, *, is_strict: bool) -> None:
        self._bucket = bucket
        self._rate = rate
        self._is_strict = is_strict
        self.throttle_ms = 0
        """The time for which the client has to wait after the answer."""

    def record(self, partitions: int, now_ms: int) -> None:
        """Partitions are to be created or deleted. Raises THROTTLING_QUOTA_EXCEEDED if the quota is strict and used
        up."""
        if self._is_strict:
            tokens = self._bucket.tokens(self._rate, now_ms)
            if tokens < 0:
                self.throttle_ms = bucket_throttle_ms(tokens, self._rate)
                code = error_codes.THROTTLING_QUOTA_EXCEEDED
                raise KafkaError(code, error_codes.message(code))
            self._bucket.take(partitions, self._rate, now_ms)
        else:
            self.throttle_ms = bucket_throttle_ms(self._bucket.take(partitions, self._rate, now_ms), self._rate)


class MutationQuotas:
    """The buckets of all clients."""

    def __init__(self, quotas: ClientQuotas, windows: QuotaWindows = DEFAULT_WINDOWS) -> None:
        self.quotas = quotas
        self._shares: Shares[TokenBucket] = Shares(lambda: TokenBucket(windows))

    def of(self, user: str, client_id: str, now_ms: int, *, is_strict: bool) -> MutationQuota | None:
        """The quota of a request; None if its client has none."""
        found: FoundQuota | None = self.quotas.find(CONTROLLER_MUTATION_RATE, user, client_id)
        if found is None:
            return None
        return MutationQuota(self._shares.of(found.share, now_ms), found.limit, is_strict=is_strict)


def mutation_quotas(
    quotas: Mapping[Entity, Mapping[str, float]], windows: int, window_ms: int
) -> MutationQuotas:  # fmt: skip
    """The buckets for quotas that are set already."""
    known = ClientQuotas()
    known.changed(quotas, quotas)
    return MutationQuotas(known, QuotaWindows(windows, window_ms))
