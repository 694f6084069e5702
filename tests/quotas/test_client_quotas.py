"""Precedence, bounds and clocks of quotas."""

from hypothesis import given
from hypothesis import strategies as st

from kpybroker.machines.quotas.addresses import AddressRates
from kpybroker.machines.quotas.client_quotas import (
    CONTROLLER_MUTATION_RATE,
    MOST_FOUND,
    NO_LIMIT,
    PRODUCER_BYTE_RATE,
    ClientQuotas,
    Entity,
)
from kpybroker.machines.quotas.rate import MOST_THROTTLE_MS, Rate
from kpybroker.machines.quotas.shares import FORGOTTEN_MS, MOST_SHARES
from kpybroker.machines.quotas.throttle import QuotaThrottle

BOTH, DEFAULT = "both", None
LEVELS: tuple[Entity, ...] = (
    (("client-id", "c"), ("user", "u")),
    (("client-id", None), ("user", "u")),
    (("user", "u"),),
    (("client-id", "c"), ("user", None)),
    (("client-id", None), ("user", None)),
    (("user", None),),
    (("client-id", "c"),),
    (("client-id", None),),
)
SHARES = (("u", "c"), ("u", "c"), ("u", ""), ("u", "c"), ("u", "c"), ("u", ""), ("", "c"), ("", "c"))


def quotas_of(entities: dict[Entity, float]) -> ClientQuotas:
    quotas = ClientQuotas()
    quotas.changed(entities, {entity: {PRODUCER_BYTE_RATE: value} for entity, value in entities.items()})
    return quotas


@given(st.sets(st.integers(0, 7), min_size=1))
def test_the_most_specific_quota_counts_and_decides_which_clients_share_it(levels: set[int]) -> None:
    quotas = quotas_of({LEVELS[level]: level + 1.0 for level in levels})
    found = quotas.find(PRODUCER_BYTE_RATE, "u", "c")
    assert found is not None
    assert found.limit == min(levels) + 1
    assert tuple(found.share) == SHARES[min(levels)]


def test_an_unused_kind_of_quota_costs_nothing() -> None:
    quotas = quotas_of({(("user", "u"),): 5})
    assert quotas.find(CONTROLLER_MUTATION_RATE, "u", "c") is None
    assert quotas.kinds == {PRODUCER_BYTE_RATE}
    quotas.changed([(("user", "u"),)], {})
    assert not quotas.kinds
    assert quotas.find(PRODUCER_BYTE_RATE, "u", "c") is None


def test_a_client_without_an_id_has_no_quota_of_client_ids() -> None:
    found = quotas_of({(("client-id", None),): 5}).find(PRODUCER_BYTE_RATE, "u", "")
    assert found is not None
    assert found.limit == NO_LIMIT


def test_values_that_are_no_limits_are_ignored() -> None:
    for value in (float("nan"), float("inf"), 0.0, -1.0):
        assert quotas_of({(("user", "u"),): value}).find(PRODUCER_BYTE_RATE, "u", "c") is None


def test_a_tiny_quota_and_a_large_request_overflow_nothing() -> None:
    throttle = QuotaThrottle(PRODUCER_BYTE_RATE, quotas_of({(("user", "u"),): 1e-300}))
    assert throttle.record("u", "c", 1e300, 1_000) == MOST_THROTTLE_MS


def test_the_quota_table_is_bounded_and_drops_unused_entries() -> None:
    throttle = QuotaThrottle(PRODUCER_BYTE_RATE, quotas_of({(("client-id", None),): 10}))
    for number in range(MOST_SHARES + 500):
        throttle.record("u", f"c{number}", 1, 1_000)
    assert len(throttle) == MOST_SHARES
    assert throttle.record("u", "heavy", 100_000, 2_000) > 0
    assert throttle.record("u", "heavy", 1, 2_000 + FORGOTTEN_MS) == 0
    throttle.record("u", "new", 1, 2_001 + FORGOTTEN_MS)
    assert len(throttle) == 2


def test_long_client_ids_have_shares_of_their_own_and_are_not_kept() -> None:
    long, other = "c" * 30_000, "c" * 29_999 + "d"
    quotas = quotas_of({(("client-id", None),): 10, (("client-id", long),): 20})
    throttle = QuotaThrottle(PRODUCER_BYTE_RATE, quotas)
    assert throttle.record("u", long, 150, 0) == 0, "its own quota counts"
    assert throttle.record("u", other, 150, 0) > 0
    assert throttle.record("u", other[:-1], 1, 0) == 0
    assert len(throttle) == 3
    assert max(len(shown.share.client_id) for shown in throttle.shown(0, 10)) < 200


def test_a_million_client_ids_are_bounded_in_memory() -> None:
    """A hundred thousand here, ten times as many as are remembered."""
    quotas = quotas_of({(("user", None), ("client-id", None)): 10})
    throttle = QuotaThrottle(PRODUCER_BYTE_RATE, quotas)
    for number in range(10 * MOST_SHARES):
        throttle.record("u", f"c{number}", 1, number)
    assert len(throttle) <= MOST_SHARES
    assert len(quotas._found) <= MOST_FOUND


def test_a_mistaken_quota_recording_is_undone() -> None:
    throttle = QuotaThrottle(PRODUCER_BYTE_RATE, quotas_of({(("user", "u"),): 10}))
    assert throttle.record("u", "c", 1_000, 0) > 0
    throttle.note("u", "c", -1_000, 0)
    assert throttle.record("u", "c", 99, 0) == 0


@given(st.lists(st.tuples(st.integers(0, 100_000), st.floats(0, 1e9)), max_size=60))
def test_a_rate_is_never_negative_and_ends_at_zero(events: list[tuple[int, float]]) -> None:
    rate, now_ms = Rate(), 0
    for pause_ms, amount in events:
        now_ms += pause_ms
        rate.record(amount, now_ms)
        assert rate.per_second(now_ms) >= 0
    assert rate.per_second(now_ms + 11_000) == 0


def test_addresses_are_the_same_however_they_are_written() -> None:
    quotas = ClientQuotas()
    entities: dict[Entity, dict[str, float]] = {
        (("ip", "2001:DB8::0001"),): {"connection_creation_rate": 1},
        (("ip", "10.0.0.1"),): {"connection_creation_rate": 1},
    }
    quotas.changed(entities, entities)
    rates = AddressRates(quotas)
    for host in ("2001:db8:0:0:0:0:0:1", "::ffff:10.0.0.1"):
        delays = [rates.throttle_ms(host, 5_000) for _ in range(13)]
        assert delays[:10] == [0] * 10
        assert delays[-1] == 1_000
    assert rates.throttle_ms("10.0.0.2", 5_000) == 0
