"""The number of a subscription changes with what is wanted, and has 32 bits."""

from kpybroker.machines.telemetry.subscriptions import SubscribedMetrics


def instance(number: int) -> bytes:
    return number.to_bytes(8, "little") + bytes(8)


def test_the_numbers_of_instances_have_32_bits_and_differ() -> None:
    wanted = SubscribedMetrics(("a.", "b."), 1_000)
    ids = [wanted.subscription_id(instance(number * 0x0102_0408_1021)) for number in range(1, 400)]
    assert -(2**31) <= min(ids) < 0 < max(ids) < 2**31
    assert len(set(ids)) == len(ids)


def test_the_number_changes_with_metrics_interval_and_each_part_of_the_instance() -> None:
    one = bytes(range(16))
    ids = {
        SubscribedMetrics(("a.", "b."), 1_000).subscription_id(one),
        SubscribedMetrics(("a.",), 1_000).subscription_id(one),
        SubscribedMetrics(("a.", "b."), 1_001).subscription_id(one),
        *(
            SubscribedMetrics(("a.", "b."), 1_000).subscription_id(one[:at] + b"\xff" + one[at + 1 :])
            for at in range(16)
        ),
    }
    assert len(ids) == 19


def test_a_metric_is_wanted_by_its_prefix() -> None:
    wanted = SubscribedMetrics(("a.", "b"), 1_000)
    assert [wanted.includes(name) for name in ("a.x", "a", "bc", "c.a.x")] == [True, False, True, False]
    assert SubscribedMetrics(("*",), 1_000).includes("c")
    assert not SubscribedMetrics((), 1_000).includes("c")
