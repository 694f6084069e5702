"""The doctor's diagnoses of facts: levels, and a remedy wherever something is wrong."""

import pytest

from kpybroker.cli import diagnoses
from kpybroker.cli.diagnoses import GOOD, HINT, PROBLEM, UNKNOWN, WARNING, Diagnosis, PartitionHealth, ProbedAddress
from kpybroker.cli.scrape import MetricsPage
from kpybroker.client.acl_requests import AclBinding
from kpybroker.client.cluster_requests import LogDirDescription

MIB = 1 << 20
GIB = 1 << 30


def levels(found: object) -> list[str]:
    findings = list(found)  # type: ignore[call-overload]
    assert all(isinstance(each, Diagnosis) for each in findings)
    assert all(each.remedy for each in findings if each.level in (PROBLEM, WARNING))
    return [each.level for each in findings]


def test_an_address_is_good_if_the_same_cluster_answers() -> None:
    good = ProbedAddress(1, "a", 1, "", "this")
    refused = ProbedAddress(2, "b", 1, "Connection refused", None)
    other = ProbedAddress(3, "c", 1, "", "other")
    silent = ProbedAddress(4, "d", 1, "", None)
    assert levels(diagnoses.addresses([good, refused, other, silent], "this", "x")) == [GOOD, PROBLEM, PROBLEM, GOOD]


def test_clients_that_never_came_back_are_named_with_the_addresses_they_got() -> None:
    (finding,) = diagnoses.newcomers([("10.0.0.9", "app", "PLAINTEXT", 42.5)], "broker:9092")
    assert finding.level == WARNING
    assert "'app' at 10.0.0.9" in finding.message
    assert "42 s" in finding.message
    assert "broker:9092" in finding.remedy
    assert levels(diagnoses.newcomers([], "broker:9092")) == [GOOD]


def test_acls_that_hold_for_no_address_are_named() -> None:
    def acl(host: str, permission: int = 3) -> AclBinding:
        return AclBinding(2, "orders", 3, "User:alice", host, 3, permission)

    good = [acl("*"), acl("10.0.0.7"), acl("0:0:0:0:0:0:0:1"), acl("fe80:0:0:0:0:0:0:1%eth0")]
    networks = [acl("10.0.0.0/8", 2), acl("2001:db8::/32")]
    assert levels(diagnoses.acls(good, reads_networks=False)) == [GOOD]
    assert levels(diagnoses.acls([], reads_networks=False)) == [GOOD]
    assert levels(diagnoses.acls([*good, *networks], reads_networks=True)) == [GOOD]
    (finding,) = diagnoses.acls([*good, acl("10.0.0.0/40", 2), acl("::1"), acl("")], reads_networks=True)
    assert levels([finding]) == [WARNING]
    text = "3 ACLs can match nobody, 1 of them meant to deny: User:alice from '10.0.0.0/40' on orders"
    assert text in finding.message


def test_acls_with_networks_are_named_where_nodes_may_not_know_them() -> None:
    networks = [AclBinding(2, "orders", 3, "User:alice", host, 3, 2) for host in ("10.0.0.0/8", "::/0")]
    (finding,) = diagnoses.acls(networks, reads_networks=False)
    assert levels([finding]) == [WARNING]
    assert "2 ACLs with a network, 2 of them meant to deny, which no Kafka before 4.4 knows" in finding.message
    both = list(diagnoses.acls([*networks, networks[0]._replace(host="")], reads_networks=False))
    assert levels(both) == [WARNING, WARNING]
    assert "1 ACL can match nobody" in both[1].message


@pytest.mark.parametrize(
    ("offset_ms", "uncertainty_ms", "level"),
    [(0, 1, GOOD), (1_999, 0, GOOD), (-60_000, 10, WARNING), (3_000, 4_000, GOOD), (9_000, 4_000, WARNING)],
)
def test_clocks_may_differ_by_what_cannot_be_known(offset_ms: float, uncertainty_ms: float, level: str) -> None:
    assert levels(diagnoses.clock(offset_ms, uncertainty_ms)) == [level]


@pytest.mark.parametrize(
    ("opened", "limit", "level"),
    [(10, 100_000, GOOD), (10, 1_024, WARNING), (90_000, 100_000, PROBLEM), (900, 1_024, PROBLEM)],
)
def test_file_limits_are_to_be_far_away(opened: float, limit: float, level: str) -> None:
    assert levels(diagnoses.files(opened, limit)) == [level]


def test_an_exhausted_connection_limit_is_reported_in_one_line() -> None:
    (found,) = diagnoses.connections(1, 100)
    assert levels([found]) == [PROBLEM]
    assert "used up (100 are open)" in found.message
    assert levels(diagnoses.connections(0, 100)) == [GOOD]


@pytest.mark.parametrize(
    ("error", "free", "level"),
    [(0, 50 * GIB, GOOD), (0, 9 * GIB, WARNING), (0, 2 * GIB, PROBLEM), (0, -1, UNKNOWN), (57, 50 * GIB, PROBLEM)],
)
def test_disks_that_fill_up_and_directories_that_failed(error: int, free: int, level: str) -> None:
    directory = LogDirDescription(1, "/data", error, 3, 1000, 100 * GIB, free)
    assert levels(diagnoses.disks([directory], {0: "NONE", 57: "LOG_DIR_NOT_FOUND"})) == [level]


def test_a_small_disk_has_little_room_whatever_the_share() -> None:
    directory = LogDirDescription(1, "/data", 0, 3, 1000, 64 * MIB, 48 * MIB)
    assert levels(diagnoses.disks([directory], {0: "NONE"})) == [WARNING]


def test_configs_without_effect_are_hints_with_their_reason() -> None:
    found = list(
        diagnoses.configs({"a": "1", "b": "1", "c": "1", "d": "1", "kpybroker.x": ""}, {"a"}, {"b": "why not"})
    )
    assert [(each.level, each.message) for each in found] == [
        (HINT, "set without effect: b (why not)"),
        (HINT, "set without effect: c, d (what they belong to is not there yet)"),
    ]
    assert levels(diagnoses.configs(["a"], {"a"}, {})) == [GOOD]
    of_one_listener = ["listener.name.x.a", "listener.name.x.scram-sha-512.sasl.jaas.config"]
    assert levels(diagnoses.configs(of_one_listener, {"a", "sasl.jaas.config"}, {})) == [GOOD]
    assert levels(diagnoses.configs(of_one_listener, {"a"}, {})) == [HINT]


def test_replication_factors_that_cannot_be_had() -> None:
    assert levels(diagnoses.replication_factors({"offsets.topic.replication.factor": 3, "b": 1}, 1)) == [PROBLEM]
    assert levels(diagnoses.replication_factors({"offsets.topic.replication.factor": 3}, 3)) == []


def test_partitions_without_a_leader_are_worse_than_those_behind() -> None:
    good, behind, offline = (
        PartitionHealth("t-0", 1, [1, 2], [1, 2]),
        PartitionHealth("t-1", 1, [1, 2], [1]),
        PartitionHealth("t-2", -1, [2, 3], []),
    )
    assert levels(diagnoses.partitions([good], ())) == [GOOD]
    assert levels(diagnoses.partitions([good, behind], ())) == [WARNING]
    assert levels(diagnoses.partitions([good, behind, offline], ())) == [PROBLEM, WARNING]
    (many,) = diagnoses.partitions([PartitionHealth(f"t-{number}", -1, [1], []) for number in range(50)], ())
    assert many.message.endswith("and 45 more")


def test_partitions_name_the_broker_whose_absence_explains_them() -> None:
    by_two, by_three = PartitionHealth("t-1", 1, [1, 2], [1]), PartitionHealth("t-2", 1, [1, 3], [1])
    explained, other = diagnoses.partitions([by_two, by_three], {2})
    assert (explained.message, explained.remedy) == (
        "1 partition with replicas out of sync, since broker 2 is not alive: t-1",
        "Start broker 2.",
    )
    assert other.message == "1 partition with replicas out of sync: t-2"
    (offline,) = diagnoses.partitions([PartitionHealth("t-3", -1, [2, 3], [])], {2})
    assert offline.remedy == "Start broker 2."


def test_brokers_that_do_not_live_are_problems_of_their_own() -> None:
    found = list(diagnoses.dead({3, 1}, {1, 7}))
    assert [each.message for each in found] == [
        "broker 1 is registered and not alive",
        "broker 3 is registered and not alive",
        "broker 7 holds replicas and is not alive",
    ]
    assert set(levels(found)) == {PROBLEM}
    assert levels(diagnoses.dead([], [])) == []


def test_a_group_that_rebalances_twice_in_a_row_is_stuck() -> None:
    before = {"a": "PreparingRebalance", "b": "PreparingRebalance", "c": "Stable"}
    after = {"a": "CompletingRebalance", "b": "Stable", "c": "PreparingRebalance"}
    (finding,) = diagnoses.groups([before, after], 5)
    assert finding.level == WARNING
    assert finding.message == "group a has been in state CompletingRebalance for at least 5 s"
    assert levels(diagnoses.groups([before, {"c": "Stable"}], 0)) == [GOOD]


def test_a_group_that_begins_to_rebalance_again_and_again_has_no_rest() -> None:
    calm, busy = {"a": "Stable"}, {"a": "PreparingRebalance"}
    (finding,) = diagnoses.groups([calm, busy, calm, busy, calm], 5)
    assert finding.level == WARNING
    assert finding.message == "group a has begun to rebalance 2 times in 5 s"
    assert levels(diagnoses.groups([calm, busy, busy, calm], 5)) == [GOOD]
    assert levels(diagnoses.groups([busy], 0)) == [GOOD]


def test_a_group_that_goes_through_generations_has_no_rest() -> None:
    (finding,) = diagnoses.generations({"a": 1, "b": 7}, {"a": 5, "b": 8, "new": 9}, 5)
    assert finding.level == WARNING
    assert finding.message == "group a went through 4 rebalances in 5 s"


def test_requests_for_metadata_are_too_many_from_one_client_or_in_all() -> None:
    (one,) = diagnoses.metadata_load({("10.0.0.9", "app"): 2_500.0, ("10.0.0.8", ""): 1.0}, 2_501.0)
    assert (one.level, one.message) == (WARNING, "the client 'app' at 10.0.0.9 asks for metadata 2500 times a second")
    assert levels(diagnoses.metadata_load({}, 5_000)) == [WARNING]
    assert levels(diagnoses.metadata_load({("a", "b"): 2.0}, 3.0)) == [GOOD]


def test_damage_is_named_by_directory_or_counted() -> None:
    (one,) = diagnoses.damage({("/data/", "t-0"): 2}, 7)
    assert (one.level, one.message) == (PROBLEM, "readers of t-0 have met 2 damaged places in /data/t-0")
    assert levels(diagnoses.damage({}, 7)) == [PROBLEM]
    assert levels(diagnoses.damage({}, 0)) == [GOOD]
    assert levels(diagnoses.damage({}, 0, fetched=3)) == [PROBLEM]


def test_a_metrics_page_is_read_line_by_line() -> None:
    page = '# HELP a b\na 1\nb{x="1",y="q\\"\\\\\\n"} 2.5e3\nnot a line at all\nc{} NaN\nd{x="1"} +Inf 1700000000\n'
    samples = list(MetricsPage(page).named_from(""))
    assert [each.name for each in samples] == ["a", "b", "c", "d"]
    assert samples[1].labels == {"x": "1", "y": 'q"\\\n'}
    assert [samples[0].value, samples[1].value, samples[3].value] == [1, 2500, float("inf")]
