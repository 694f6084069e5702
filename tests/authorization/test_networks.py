"""Networks in the hosts of ACLs, held against Kafka's ``CidrUtils``."""

from random import Random
from typing import Final

import pytest

from kpybroker.machines.authorization.networks import InvalidNetwork, address_of, holds, is_network, parse_network
from kpybroker.runtime.calls.address import java_address
from oracle.asked import AskedOracle
from oracle.recorded import Asked, Play

PAIRS: Final = 100_000
RECORDED: Final = 2_000
ODD: Final = (
    "/", "//", "/8", "10.0.0.0/", "10.0.0.0/8/8", "10.0.0/8", "10.0.0.0.0/8", "256.0.0.0/8", "10.0.0.0/33",
    "10.0.0.0/99", "10.0.0.0/032", "10.0.0.0/08", "010.000.0.07/8", " 10.0.0.0/8", "10.0.0.0/8 ", "10.0.0.0/-1",
    "10.0.0.0/+8", "some/thing", "0.0.0.0/0", "255.255.255.255/32", "0.0.0.0/32", "::/0", "::/128", "::1/128",
    "::1/129", "::1/-1", "::1/+64", "::1/064", "::1/", "::1/x", "::1/64/3", "::1/99999999999", "::1/2147483647",
    "::1/2147483648", "::1/-2147483648", ":::/8", ":1/8", "1:/8", "1::2::3/8", "1:2:3:4:5:6:7:8/64",
    "1:2:3:4:5:6:7::/64", "::2:3:4:5:6:7:8/64", "1:2:3:4:5:6:7:8::/64", "1:2:3:4:5:6:7/64", "1:2:3:4:5:6:7:8:9/64",
    "00001::/16", "10000::/16", "g::/16", "[::1]/64", "[::1/64", "::1]/64", "[10.0.0.0]/8:", "::10.0.0.7/120",
    "::ffff:10.0.0.0/104", "::ffff:0:0/96", "::10.0.0/120", "::10.0.0.256/120", "::10.0.0.07/120",
    "1:2:3:4:5:6:10.0.0.7/64", "1:2:3:4:5:6:7:10.0.0.7/64", "10.0.0.7::/64", "::10.0.0.7:1/64", "fe80::1%1/64",
    "fe80::1%/64", "fe80::1%99999999999/64", "fe80::%no-such-interface/64", "10.0.0.0:80/8", "FE80::/10",
    "localhost:9092/8", "::1%2%3/64", "1::2/0", "::/1", "8000::/1", "-1.0.0.0/8", "1..2.3/8", "::1..2.3/8",
    "::.1.2.3/8",
)  # fmt: skip
"""Texts that are read in an unusual way, or refused."""


def started() -> AskedOracle:
    return AskedOracle("CidrOracle.java", "CidrOracle")


def ours(host: str, network: str) -> str:
    try:
        parse_network(network)
        reason = "valid"
    except InvalidNetwork as error:
        reason = str(error)
    return f"{str(holds(network, host)).lower()}\t{reason}"


def an_address(rng: Random, near: str | None = None) -> str:
    """The text of an address as Java writes it; often one whose first bits are those of ``near``."""
    if near is None:
        number, bits = (rng.getrandbits(32), 32) if rng.random() < 0.5 else (rng.getrandbits(128), 128)
        if rng.random() < 0.1:
            number >>= rng.randint(0, bits)
    else:
        address = address_of(near)
        assert address is not None
        bits = address.bits
        number = address.number ^ (rng.getrandbits(bits) >> rng.randint(0, bits))
    return written(number, bits)


def written(number: int, bits: int) -> str:
    if bits == 32:
        return ".".join(str(byte) for byte in number.to_bytes(4, "big"))
    return ":".join(f"{number >> shift & 0xFFFF:x}" for shift in range(112, -1, -16))


def a_network(rng: Random, address: str) -> str:
    bits = 128 if ":" in address else 32
    length = rng.randint(0, bits)
    if rng.random() < 0.05:
        length = rng.choice((-1, 33, 129, 300))
    text = f"{address}/{length}"
    if rng.random() < 0.1:
        at = rng.randrange(len(text))
        text = (
            text[:at] + rng.choice(("", ":", ".", "/", "0", "f", "%", "[", "x", "::")) + text[at + rng.randint(0, 1) :]
        )
    return text


def pairs(count: int) -> list[tuple[str, str]]:
    rng = Random(1276)
    found = [(host, odd) for odd in ODD for host in ("10.0.0.7", "0:0:0:0:0:0:0:1", "fe80:0:0:0:0:0:0:1%1", "0.0.0.0")]
    while len(found) < count:
        address = an_address(rng)
        network = a_network(rng, address)
        host = an_address(rng, address if rng.random() < 0.7 and address_of(address) is not None else None)
        if "\t" not in network:
            found.append((java_address(host), network))
    return found


def compare(kafka: Asked, count: int) -> None:
    within = valid = 0
    for host, network in pairs(count):
        answer = kafka.ask_for_line(host, network)
        assert ours(host, network) == answer, (host, network)
        within += answer.startswith("true")
        valid += answer.endswith("\tvalid")
    print(f"{count} pairs are judged the same; {within} are within, {valid} networks are valid")
    assert min(within, count - within, valid, count - valid) > count / 50


@pytest.mark.java
def test_every_pair_of_host_and_network_is_judged_as_by_kafka() -> None:
    kafka = started()
    try:
        compare(kafka, PAIRS)
    finally:
        kafka.close()


def test_pairs_are_judged_as_kafka_judged_them(recorded: Play) -> None:
    compare(recorded(started), RECORDED)


def test_a_network_holds_its_first_and_its_last_address() -> None:
    assert holds("10.1.2.3/8", "10.0.0.0")
    assert holds("10.1.2.3/8", "10.255.255.255")
    assert not holds("10.1.2.3/8", "11.0.0.0")
    assert holds("2001:db8::/32", "2001:db8:0:0:0:0:0:0")
    assert holds("2001:db8::/32", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff")
    assert not holds("2001:db8::/32", "2001:db9:0:0:0:0:0:0")


def test_networks_of_one_kind_hold_no_address_of_the_other() -> None:
    assert not holds("0.0.0.0/0", "0:0:0:0:0:0:0:1")
    assert not holds("::/0", "10.0.0.7")


def test_the_name_of_the_interface_does_not_count_for_a_client() -> None:
    assert holds("fe80::/10", "fe80:0:0:0:0:0:0:1%eth0")


def test_a_text_without_a_slash_is_no_network() -> None:
    assert not is_network("10.0.0.7")
    assert not holds("10.0.0.7", "10.0.0.7")


@pytest.mark.parametrize(
    "text", ["9" * 5_000 + "/8", "::/" + "9" * 5_000, "f" * 100_000 + "::/8", "::" + "1." * 50_000 + "/8"]
)
def test_long_texts_are_refused_cheaply(text: str) -> None:
    with pytest.raises(InvalidNetwork):
        parse_network(text)


def test_as_many_zeros_may_stand_in_front_as_a_text_has_room_for() -> None:
    """Java reads them too; texts beyond the longest are refused unread."""
    longest = 256
    assert parse_network("::/" + "8".zfill(longest)) == parse_network("::/8")
    assert parse_network("1::".zfill(longest) + "/8") == parse_network("1::/8")
    for text in ("::/" + "8".zfill(longest + 1), "1::".zfill(longest + 1) + "/8"):
        with pytest.raises(InvalidNetwork):
            parse_network(text)


@pytest.mark.parametrize("host", ["256.0.0.0", "1.0.0.256", "1.2.3", "1.2.3.4.5", "localhost", "0.0.0.0", "::g"])
def test_a_host_that_is_no_address_is_in_no_network(host: str) -> None:
    assert address_of(host) is None


def test_the_largest_octets_and_interfaces_are_read() -> None:
    assert address_of("255.255.255.255") == (32, 2**32 - 1)
    assert address_of("0.0.0.1") == (32, 1)
    assert parse_network("::255.255.255.255/128").prefix == 2**32 - 1
    assert parse_network("::1.2.3.4/128").prefix == 0x0102_0304
    assert parse_network(f"fe80::1%{2**31 - 1}/128").prefix == 0xFE80 << 112 | 1
    assert parse_network(f"fe80::1%{1:014}/128").prefix == 0xFE80 << 112 | 1
    for text in (f"fe80::1%{2**31}/128", f"fe80::1%{1:015}/128", "::255.255.255.256/128", "::0255.255.255.255/128"):
        with pytest.raises(InvalidNetwork):
            parse_network(text)
