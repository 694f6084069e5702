"""Values in znodes at their bounds, and what is refused: numbers, lists, quotas, credentials; Java's order of keys."""

from typing import Any

import pytest

from kpybroker.machines.controller.client_quotas import DOUBLE, INT, LONG
from kpybroker.machines.zookeeper.tree import brokers, configs, credentials
from kpybroker.machines.zookeeper.tree.client_quotas import decode_quota, quota_text
from kpybroker.machines.zookeeper.tree.contents import InvalidZnode, ZnodeFields, encode
from kpybroker.machines.zookeeper.tree.java_order import in_java_order

PATH = "/some/znode"


def fields(**values: Any) -> ZnodeFields:
    return ZnodeFields.decode(PATH, encode(values))


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (None, "it is empty"),
        (b"", "it is empty"),
        (b"{", "it is not JSON"),
        (b"[1]", "it is not a JSON object"),
        (b"3", "it is not a JSON object"),
    ],
)
def test_a_znode_is_a_json_object(content: bytes | None, fault: str) -> None:
    with pytest.raises(InvalidZnode) as caught:
        ZnodeFields.decode(PATH, content)
    assert str(caught.value) == f"The znode {PATH} cannot be understood: {fault}."
    assert caught.value.path == PATH


@pytest.mark.parametrize(
    ("method", "value", "expected"),
    [
        ("integer", 3, 3),
        ("integer", True, None),
        ("integer", "3", None),
        ("integer", None, None),
        ("text", "a", "a"),
        ("text", 3, None),
        ("integer_in_text", "17", 17),
        ("integer_in_text", "-17", -17),
        ("integer_in_text", 17, 17),
        ("integer_in_text", True, None),
        ("integer_in_text", "", None),
        ("integer_in_text", "--1", None),
        ("integer_in_text", "1.5", None),
        ("integer_in_text", "\u0661", None),
        ("integer_in_text", "\u00b2", None),
        ("integer_in_text", "9" * 19, int("9" * 19)),
        ("integer_in_text", "9" * 20, None),
        ("integers", [1, 2], (1, 2)),
        ("integers", [], ()),
        ("integers", [1, True], None),
        ("integers", [1, "2"], None),
        ("integers", "12", None),
        ("texts", ["a", "b"], ("a", "b")),
        ("texts", ["a", 1], None),
        ("texts", "ab", None),
        ("objects", [{}, 1], None),
        ("objects", {}, None),
        ("text_map", {"a": "b", "c": 3}, {"a": "b", "c": "3"}),
        ("text_map", {"a": "b", "c": None}, None),
        ("text_map", [], None),
        ("feature_ranges", {"f": {"min": 1}}, {"f": {"min": 1}}),
        ("feature_ranges", {"f": {"min": "1"}}, None),
        ("feature_ranges", {"f": 1}, None),
        ("feature_ranges", None, {}),
        ("partition_lists", {"10": [1], "2": [3, 4]}, {2: (3, 4), 10: (1,)}),
        ("partition_lists", {"a": [1]}, None),
        ("partition_lists", {"-1": [1]}, None),
        ("partition_lists", {"\u0661": [1]}, None),
        ("partition_lists", {"9" * 9: [1]}, {int("9" * 9): (1,)}),
        ("partition_lists", {"9" * 10: [1]}, None),
        ("partition_lists", {"1": 1}, None),
        ("partition_lists", {"1": [True]}, None),
        ("partition_lists", None, None),
    ],
)
def test_a_field_has_its_type_or_is_refused(method: str, value: Any, expected: Any) -> None:
    read = getattr(fields(name=value), method)
    if expected is not None:
        found = read("name")
        assert found == expected
        if isinstance(expected, dict):
            assert list(found) == list(expected)
        return
    with pytest.raises(InvalidZnode, match="its field name "):
        read("name")


def test_fields_that_may_be_absent() -> None:
    given = fields(a=None, b=3, c="x")
    assert ("a" in given, "b" in given, "z" in given) == (False, True, False)
    assert (given.integer("a", 7), given.integer("b", 7), given.text_or_none("a"), given.text_or_none("c")) == (
        7,
        3,
        None,
        "x",
    )
    assert given.partition_lists("a", required=False) == {}
    (inner,) = fields(a=[{"b": 1}]).objects("a")
    assert inner.integer("b") == 1


def test_a_registration_has_kafkas_values_where_fields_are_absent() -> None:
    content = encode({"version": 4, "endpoints": ["PLAINTEXT://here:9092"]})
    found = brokers.Registration.decode(3, content)
    assert (found.jmx_port, found.timestamp_ms, found.rack, found.features) == (-1, 0, None, {})
    with pytest.raises(InvalidZnode, match="its version is 0"):
        brokers.Registration.decode(3, encode({"version": 0, "host": "here", "port": 1}))


# Quotas.


ENTITY = configs.ConfigEntity(configs.USERS, "ann")


@pytest.mark.parametrize(
    ("text", "kind", "number"),
    [
        ("9223372036854775807", LONG, 9.223372036854775807e18),
        ("9223372036854775808", LONG, None),
        ("-9223372036854775808", LONG, -9.223372036854775808e18),
        ("-9223372036854775809", LONG, None),
        ("2147483647", INT, 2147483647.0),
        ("2147483648", INT, None),
        ("-2147483648", INT, -2147483648.0),
        ("-2147483649", INT, None),
        ("1.5", LONG, None),
        ("", LONG, None),
        ("1.5", DOUBLE, 1.5),
        ("1e400", DOUBLE, None),
        ("NaN", DOUBLE, None),
        ("x", DOUBLE, None),
        ("", DOUBLE, None),
    ],
)
def test_a_quota_is_a_number_of_its_type(text: str, kind: str, number: float | None) -> None:
    if number is not None:
        assert decode_quota(ENTITY, "key", text, kind) == number
        return
    with pytest.raises(InvalidZnode, match=f"is not a number of type {kind}"):
        decode_quota(ENTITY, "key", text, kind)


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (3.0, LONG, "3"),
        (2.9999999, LONG, "3"),
        (3.5, LONG, None),
        (float("inf"), LONG, None),
        (float("nan"), INT, None),
        (2147483647.0, INT, "2147483647"),
        (2147483648.0, INT, None),
        (-5.0, LONG, None),
        (-(2.0**40), LONG, "-1099511627776"),
        (-(2.0**40), INT, None),
        (-(2.0**63), LONG, "-9223372036854775808"),
        (-(2.0**64), LONG, None),
        (2.0**64, LONG, None),
        (1.5, DOUBLE, "1.5"),
    ],
)
def test_a_quota_is_written_where_its_type_has_it(value: float, kind: str, text: str | None) -> None:
    """Kafka adds a millionth and cuts towards zero, so that small negative numbers have none."""
    assert quota_text(kind, value) == text


# Credentials.


@pytest.mark.parametrize(
    ("change", "is_valid"),
    [
        ({}, True),
        ({"iterations": "999999999"}, True),
        ({"iterations": "9999999999"}, False),
        ({"iterations": ""}, False),
        ({"iterations": "\u0661"}, False),
        ({"salt": "c2Fs*A=="}, False),
        ({"salt": None}, False),
        ({"more": "x"}, False),
    ],
)
def test_a_credential_has_its_four_parts(change: dict[str, str | None], is_valid: bool) -> None:
    parts: dict[str, str | None] = {
        "salt": "c2FsdA==", "stored_key": "c3RvcmVk", "server_key": "c2VydmVy", "iterations": "4096", **change,
    }  # fmt: skip
    text = ",".join(f"{name}={value}" for name, value in parts.items() if value is not None)
    if is_valid:
        found = credentials.decode_credential(PATH, text)
        assert found[:3] == (b"salt", b"stored", b"server")
        assert found.iterations == int(str(parts["iterations"]))
        assert credentials.decode_credential(PATH, credentials.encode_credential(found)) == found
        return
    with pytest.raises(InvalidZnode) as caught:
        credentials.decode_credential(PATH, text)
    assert "c2VydmVy" not in str(caught.value), "it is secret"


# The order of keys. Java's `Properties` listed the keys that were put into it in this order.

ORDERS = {
    1: "0",
    8: "148 222 111 0 74 259 185 37",
    11: "148 222 111 0 74 259 185 296 370 37 333",
    12: "148 111 407 185 370 37 333 222 0 74 259 296",
    13: "148 111 407 185 370 37 333 222 0 74 259 296 444",
    23: "148 111 592 629 407 185 555 370 740 37 333 703 777 222 518 0 74 259 296 481 444 666 814",
    24: "111 592 407 555 740 37 222 74 666 814 148 851 629 185 370 333 703 777 518 0 259 296 481 444",
    48: "1073 1369 1517 555 1221 1110 74 1591 666 1628 185 370 1443 703 777 999 518 962 1184 259 1258 444 111 1554 592 "
    "1036 407 925 740 37 222 1665 1702 814 148 1295 851 629 1147 333 1480 1406 1739 0 296 1332 481 888",
}


@pytest.mark.parametrize("count", list(ORDERS))
def test_keys_come_in_the_order_of_javas_hash_table(count: int) -> None:
    keys = [f"name.{number * 37}.x" for number in range(count)]
    assert [each.split(".")[1] for each in in_java_order(keys)] == ORDERS[count].split()


def test_keys_with_equal_hash_codes_keep_their_order_or_turn_round_as_in_java() -> None:
    keys = ["Aa", "BB", "AaAa", "BBBB", "AaBB", "BBAa", "\u00e4", "\U0001f600", "", "zz"]
    assert in_java_order(keys) == ["Aa", "BB", "", "zz", "\u00e4", "\U0001f600", "AaAa", "BBBB", "AaBB", "BBAa"]
    alike = [f"k{number}{one}{two}" for number in range(3) for one in ("Aa", "BB") for two in ("Aa", "BB")]
    listed = "n0 n1 n2 n3 n4 n5 n6 n7 n8 n9 n10 k1AaAa k1AaBB k1BBAa k1BBBB n12 n11 k2AaAa k2AaBB k2BBAa k2BBBB n13"
    assert in_java_order([*alike, *[f"n{number}" for number in range(14)]]) == [
        *listed.split(),
        *["k0AaAa", "k0AaBB", "k0BBAa", "k0BBBB"],
    ]
