"""Rates over windows, and what follows from them, in numbers that can be checked by hand."""

import pytest

from kpybroker.machines.errors import KafkaError
from kpybroker.machines.quotas.addresses import AddressRates, plain
from kpybroker.machines.quotas.client_quotas import PRODUCER_BYTE_RATE, ClientQuotas, Entity, Share
from kpybroker.machines.quotas.mutations import mutation_quotas
from kpybroker.machines.quotas.rate import QuotaWindows, Rate
from kpybroker.machines.quotas.rounding import rounded
from kpybroker.machines.quotas.shares import FORGOTTEN_MS, Shares
from kpybroker.machines.quotas.throttle import QuotaThrottle
from kpybroker.machines.quotas.token_bucket import TokenBucket, bucket_throttle_ms
from kpywire import error_codes

USER: Entity = (("user", "u"),)


def quotas_of(kind: str, limit: float) -> ClientQuotas:
    quotas = ClientQuotas()
    quotas.changed([USER], {USER: {kind: limit}})
    return quotas


@pytest.mark.parametrize(
    ("windows", "now_ms", "seconds"),
    [
        (QuotaWindows(11, 1_000), 0, 10.0),
        (QuotaWindows(11, 1_000), 999, 10.999),
        (QuotaWindows(11, 1_000), 1_000, 10.0),
        (QuotaWindows(11, 1_000), 4_500, 10.5),
        (QuotaWindows(11, 1_000), 9_999, 10.999),
        (QuotaWindows(11, 1_000), 10_000, 10.0),
        (QuotaWindows(11, 1_000), 10_999, 10.999),
        (QuotaWindows(3, 2_000), 0, 4.0),
        (QuotaWindows(3, 2_000), 5_000, 5.0),
        (QuotaWindows(2, 1_000), 1_999, 1.999),
    ],
)
def test_a_rate_is_measured_over_all_windows_but_one_at_least(
    windows: QuotaWindows, now_ms: int, seconds: float
) -> None:
    rate = Rate(windows)
    rate.record(1_000.0, 0)
    assert rate.elapsed_ms(now_ms) == seconds * 1_000
    assert rate.per_second(now_ms) == pytest.approx(1_000 / seconds)


def test_an_amount_counts_for_all_windows_after_the_last_one_of_its_sample() -> None:
    rate = Rate(QuotaWindows(11, 1_000))
    rate.record(100.0, 0)
    rate.record(100.0, 999)
    assert rate.per_second(11_998) == pytest.approx(200 / 11.998)
    assert rate.per_second(11_999) == 0


def test_the_time_of_a_rate_begins_again_when_all_its_samples_are_over() -> None:
    rate = Rate(QuotaWindows(11, 1_000))
    rate.record(100.0, 0)
    assert rate.elapsed_ms(10_999) == 10_999
    assert rate.elapsed_ms(11_000) == 10_000
    assert rate.elapsed_ms(11_500) == 10_500


def test_a_window_that_is_over_is_followed_by_another_sample() -> None:
    rate = Rate(QuotaWindows(11, 1_000))
    rate.record(100.0, 0)
    rate.record(40.0, 1_000)
    assert rate.per_second(10_999) == pytest.approx(140 / 10.999)
    assert rate.per_second(11_000) == pytest.approx(40 / 10.0), "the first sample is over, the second began at 1 s"


def test_a_rate_has_one_sample_more_than_windows() -> None:
    rate = Rate(QuotaWindows(2, 1_000))
    for second in range(3):
        rate.record(10.0**second, second * 1_000)
    assert rate.per_second(2_000) == pytest.approx(110 / 1.0), "the first one is two windows old"
    rate = Rate(QuotaWindows(3, 1_000))
    for second in range(9):
        rate.record(1.0, second * 1_000)
        assert rate.per_second(second * 1_000) == pytest.approx(min(second + 1, 3) / 2.0)


def test_the_oldest_sample_is_used_again_before_it_is_forgotten() -> None:
    """Its last event may be young although it began long ago."""
    rate = Rate(QuotaWindows(2, 1_000))
    for now_ms, amount in ((0, 1.0), (999, 10.0), (1_000, 100.0), (2_000, 1_000.0)):
        rate.record(amount, now_ms)
    assert rate.per_second(2_500) == pytest.approx(1_111 / 2.5)
    rate.record(10_000.0, 3_000)
    assert rate.per_second(3_000) == pytest.approx(11_000 / 1.0)


def test_a_client_waits_until_its_rate_would_be_at_its_quota() -> None:
    throttle = QuotaThrottle(PRODUCER_BYTE_RATE, quotas_of(PRODUCER_BYTE_RATE, 10.0))
    assert throttle.record("u", "c", 100, 0) == 0, "the quota over ten seconds"
    assert throttle.record("u", "c", 50, 0) == 5_000
    assert throttle.record("u", "c", 0, 1_000) == 5_000
    assert throttle.record("u", "c", 0, 4_999) == 4_001
    assert throttle.record("u", "c", 0, 10_000) == 5_000
    bounded = QuotaThrottle(PRODUCER_BYTE_RATE, quotas_of(PRODUCER_BYTE_RATE, 10.0), most_ms=700)
    assert bounded.record("u", "c", 150, 0) == 700


def test_the_largest_amount_that_fits_a_quota() -> None:
    for windows, most in ((QuotaWindows(), 100.0), (QuotaWindows(3, 2_000), 40.0)):
        throttle = QuotaThrottle(PRODUCER_BYTE_RATE, quotas_of(PRODUCER_BYTE_RATE, 10.0), windows)
        assert throttle.most_in_windows("u", "c") == most
        assert throttle.record("u", "c", most, 0) == 0
        assert throttle.record("u", "c", 1, 0) > 0
        assert throttle.most_in_windows("other", "c") is None


def test_shown_are_the_rates_and_the_mean_of_the_waits_of_those_that_came_last() -> None:
    quotas = ClientQuotas()
    anybody: Entity = (("client-id", None),)
    quotas.changed([anybody], {anybody: {PRODUCER_BYTE_RATE: 10.0}})
    throttle = QuotaThrottle(PRODUCER_BYTE_RATE, quotas)
    for client_id, amount in (("a", 100), ("b", 200), ("c", 300)):
        throttle.record("u", client_id, amount, 0)
    throttle.waits("u", "b", 1_000, 0)
    throttle.waits("u", "b", 3_000, 0)
    shown = list(throttle.shown(0, 2))
    assert [(each.share.client_id, each.per_second, each.throttle_ms) for each in shown] == [
        ("b", 20.0, 2_000.0),
        ("c", 30.0, 0.0),
    ]


@pytest.mark.parametrize(("windows", "size_ms", "burst"), [(11, 1_000, 22), (3, 1_000, 6), (3, 5_000, 30)])
def test_a_bucket_holds_the_quota_of_all_windows_and_fills_at_its_rate(windows: int, size_ms: int, burst: int) -> None:
    bucket = TokenBucket(QuotaWindows(windows, size_ms))
    assert bucket.take(burst + 8, 2.0, 0) == -8
    assert bucket_throttle_ms(-8, 2.0) == 4_000
    assert bucket.tokens(2.0, 3_000) == -2
    assert bucket.tokens(2.0, 4_000) == 0
    assert bucket.tokens(2.0, 4_500) == 1
    assert bucket.tokens(2.0, 3_600_000) == burst, "and no more"
    assert bucket_throttle_ms(0, 2.0) == bucket_throttle_ms(1, 2.0) == 0


@pytest.mark.parametrize("is_strict", [True, False])
def test_a_strict_quota_refuses_while_there_is_a_debt_and_a_permissive_one_counts(is_strict: bool) -> None:
    buckets = mutation_quotas({USER: {"controller_mutation_rate": 2.0}}, 5, 1_000)
    other = buckets.of("other", "c", 0, is_strict=is_strict)
    assert other is not None
    other.record(1_000_000, 0)
    assert other.throttle_ms == 0, "it has no quota of its own"
    first = buckets.of("u", "c", 0, is_strict=is_strict)
    assert first is not None
    first.record(10, 0)
    assert first.throttle_ms == 0, "no more than the bucket held"
    exhausting = buckets.of("u", "c", 0, is_strict=is_strict)
    assert exhausting is not None
    exhausting.record(6, 0)
    assert exhausting.throttle_ms == (0 if is_strict else 3_000)
    third = buckets.of("u", "c", 1_000, is_strict=is_strict)
    assert third is not None
    if is_strict:
        with pytest.raises(KafkaError) as refused:
            third.record(1, 1_000)
        assert refused.value.code == error_codes.THROTTLING_QUOTA_EXCEEDED
        assert third.throttle_ms == 2_000
    else:
        third.record(1, 1_000)
        assert third.throttle_ms == 2_500


def test_connections_above_the_quota_of_an_address_are_counted_and_cost_nothing() -> None:
    quotas = ClientQuotas()
    ip: Entity = (("ip", None),)
    rates = AddressRates(quotas)
    assert not rates.is_on
    assert rates.throttle_ms("10.0.0.1", 0) == 0
    quotas.changed([ip], {ip: {"connection_creation_rate": 1.0}})
    rates.changed()
    assert rates.is_on
    assert [rates.throttle_ms("10.0.0.1", 0) for _ in range(12)] == [0] * 10 + [1_000] * 2
    assert rates.throttled == 2
    assert rates.throttle_ms("10.0.0.2", 0) == 0
    assert rates.throttle_ms("10.0.0.1", 11_000) == 0


@pytest.mark.parametrize(
    ("text", "address"),
    [("::1", "::1"), ("fe80:0::1%eth0", "fe80::1"), ("::ffff:1.2.3.4", "1.2.3.4"), ("1.2.3.4", "1.2.3.4"), ("h", "h")],
)
def test_different_notations_of_an_ip_address_are_normalised(text: str, address: str) -> None:
    assert plain(text) == address


@pytest.mark.parametrize(
    ("value", "nearest"),
    [
        (0.5, 1), (1.5, 2), (2.5, 3), (-0.5, 0), (-1.5, -1), (2.49, 2), (-2.51, -3),
        (float("nan"), 0), (float("inf"), 2**63 - 1), (float("-inf"), -(2**63)),
    ],
)  # fmt: skip
def test_a_rate_is_rounded_as_javas_math_round_does(value: float, nearest: int) -> None:
    assert rounded(value) == nearest


def test_a_share_is_forgotten_after_an_hour_without_use() -> None:
    shares: Shares[list[int]] = Shares(list)
    one, two = Share("u", "one"), Share("u", "two")
    shares.of(one, 0).append(1)
    assert shares.of(one, FORGOTTEN_MS - 1) == [1]
    shares.of(two, FORGOTTEN_MS).append(2)
    assert [share for share, _ in shares.latest(5)] == [two, one]
    assert [share for share, _ in shares.latest(1)] == [two]
    assert shares.of(one, 2 * FORGOTTEN_MS - 1) == []
    assert len(shares) == 2, "it has come again"
    shares.of(Share("u", "three"), 2 * FORGOTTEN_MS)
    assert [share.client_id for share, _ in shares.latest(5)] == ["three", "one"]
