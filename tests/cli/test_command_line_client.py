"""The command line's own client, without a broker: addresses, keys, formats, peers that are no brokers."""

import io
import itertools
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from kpybroker.cli import main
from kpybroker.cli.intake import CHUNK_BYTES, LineTooLong, batches_of_lines
from kpybroker.cli.record_format import formatter, json_line
from kpybroker.client.client import Spot, parse_servers
from kpybroker.client.partitioning import partition_of
from kpybroker.client.reader import ReadRecord
from kpywire.murmur2 import murmur2
from kpywire.record import Record


def invoke(*words: str, stdin: str = "") -> tuple[int, str]:
    result = CliRunner().invoke(main, list(words), input=stdin)
    return result.exit_code, result.output


@pytest.mark.parametrize(
    ("text", "servers"),
    [
        ("localhost", [("localhost", 9092)]),
        ("a:1, b:2", [("a", 1), ("b", 2)]),
        ("[::1]:9093", [("::1", 9093)]),
        ("[::1]", [("::1", 9092)]),
        ("PLAINTEXT://localhost:29092,plaintext://b", [("localhost", 29092), ("b", 9092)]),
    ],
)
def test_addresses_are_those_of_bootstrap_servers(text: str, servers: list[tuple[str, int]]) -> None:
    assert parse_servers(text) == servers


@pytest.mark.parametrize("text", ["", ":9092", "host:port", "host:0", "host:65536", "a:1,,b:2"])
def test_an_invalid_address_is_a_usage_error(text: str) -> None:
    with pytest.raises(ValueError, match="not an address"):
        parse_servers(text)
    code, reported = invoke("topics", "list", "-b", text)
    assert code == 2
    assert "not an address of a broker" in reported


def test_a_listener_of_another_protocol_is_a_usage_error() -> None:
    code, reported = invoke("topics", "list", "-b", "SSL://localhost:9093")
    assert code == 2
    assert "'SSL://localhost:9093': this client's security.protocol is PLAINTEXT" in reported


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_kafkas(data: bytes, expected: int) -> None:
    """The examples of Kafka's UtilsTest."""
    assert murmur2(data) == expected & 0xFFFF_FFFF
    assert 0 <= partition_of(data, 5) < 5


def found(key: bytes | None, value: bytes | None) -> ReadRecord:
    return ReadRecord(
        Spot("t", 1), Record(offset=2, timestamp=3, key=key, value=value, headers=(("h", b"\xff"), ("n", None)))
    )


def test_a_format_prints_bytes_as_they_are_and_nothing_for_null() -> None:
    assert formatter(r"\x41%k%v\\")(found(b"\xff", None)) == b"A\xff\\"
    assert formatter("%K,%S,%h")(found(None, b"")) == b"-1,0,h=\xff,n="


@pytest.mark.parametrize("layout", ["%y", "%", "\\q", "\\"])
def test_a_wrong_format_is_a_usage_error(layout: str) -> None:
    code, reported = invoke("consume", "topic", "-f", layout)
    assert code == 2
    assert "is not known" in reported


def test_json_holds_what_is_not_text_in_base64() -> None:
    assert json_line(found(b"\xff", None)).decode() == (
        '{"topic": "t", "partition": 1, "offset": 2, "timestamp": 3, "key_base64": "/w==", "value": null, '
        '"headers": [{"key": "h", "value_base64": "/w=="}, {"key": "n", "value": null}]}\n'
    )


@pytest.mark.parametrize(
    "words",
    [
        ("topics", "create", "t", "-c", "novalue"),
        ("topics", "create", "t", "-p", "0"),
        ("topics", "alter", "t"),
        ("produce", "t", "-H", "=x"),
        ("produce", "t", "-z", "brotli"),
        ("consume", "t", "-f", "%v", "--json"),
        ("consume", "t", "-G", "g", "-p", "0"),
        ("consume", "t", "--instance", "i"),
        ("groups", "describe"),
        ("groups", "describe", "g", "--all-groups"),
        ("groups", "reset-offsets", "g", "--to-earliest"),
        ("groups", "reset-offsets", "g", "--topic", "t"),
        ("groups", "reset-offsets", "g", "--topic", "t", "--to-earliest", "--to-latest"),
        ("groups", "reset-offsets", "g", "--topic", "t", "--to-earliest", "--execute", "--dry-run"),
        ("groups", "reset-offsets", "g", "--topic", "t", "--to-datetime", "noon"),
        ("groups", "reset-offsets", "g", "--topic", "t", "--by-duration", "long"),
        ("groups", "reset-offsets", "g", "--topic", "t:x", "--to-earliest"),
        ("groups", "remove-members", "g"),
        ("groups", "remove-members", "g", "--all", "--member", "m"),
        ("offsets", "get", "t", "--time", "later"),
        ("offsets", "delete-records", "t"),
        ("offsets", "delete-records", "--all"),
        ("offsets", "delete-records", "t", "--all", "--before-offset", "1"),
        ("configs", "describe"),
        ("configs", "describe", "--topic", "t", "--broker", "1"),
        ("configs", "describe", "--entity-type", "topics"),
        ("configs", "alter", "--topic", "t"),
        ("configs", "alter", "--topic", "t", "--set", "retention.ms"),
        ("configs", "alter", "--topic", "t", "--add-config", "a"),
        ("doctor", "--patience", "-1"),
        ("doctor", "--http", "localhost"),
        ("consume", "t", "-o", "soon"),
        ("consume", "t", "-o", "@soon"),
    ],
)
def test_wrong_usage_ends_with_code_2_before_any_connection(words: tuple[str, ...]) -> None:
    code, reported = invoke(*words, "-b", "127.0.0.1:1")
    assert code == 2
    assert "127.0.0.1" not in reported


@pytest.fixture
def web_server() -> Iterator[str]:
    """Something on a port that answers every request in HTTP."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        thread.join()


def test_a_peer_that_is_no_broker_is_one_clear_line(web_server: str) -> None:
    code, reported = invoke("topics", "list", "-b", web_server)
    assert code == 3
    assert reported.startswith(f"Error: {web_server} speaks HTTP, not Kafka's protocol: ")
    assert "9092" in reported
    assert len(reported.splitlines()) == 1


def test_a_closed_port_is_reported_in_one_clear_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    code, reported = invoke("consume", "topic", "-b", address)
    assert (code, reported) == (3, f"Error: no broker answers at {address}: Connection refused\n")


@given(
    st.lists(st.binary(max_size=8).map(lambda line: line.translate(None, b"\r\n"))), st.integers(1, 5), st.booleans()
)
def test_lines_are_found_wherever_the_input_is_cut(lines: list[bytes], chunk_bytes: int, ended: bool) -> None:
    text = b"\r\n".join(lines) + (b"\n" if ended else b"")
    source = io.BytesIO(text)
    source.read1 = lambda _count: source.read(chunk_bytes)  # type: ignore[method-assign, assignment]
    expected = text.replace(b"\r\n", b"\n").split(b"\n")
    if not expected[-1]:
        expected.pop()
    assert list(itertools.chain(*batches_of_lines(source))) == expected


def test_a_line_that_no_request_can_carry_is_refused_instead_of_kept() -> None:
    class Endless(io.RawIOBase):
        def read(self, _count: int = -1) -> bytes:
            return b"x" * CHUNK_BYTES

    with pytest.raises(LineTooLong, match="longer than 100 MiB"):
        list(batches_of_lines(Endless()))  # type: ignore[arg-type]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_output_that_cannot_be_written_is_one_clear_line() -> None:
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-m", "kpybroker", "format", "random-uuid"]
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (1, b"Error: the output cannot be written: No space left on device\n")


@pytest.mark.parametrize("module", ["click", "kpybroker.cli.topics", "socket"])
def test_ctrl_c_while_the_command_line_is_loaded_is_no_traceback(module: str) -> None:
    program = f"""
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # who runs tests in the background may ignore it
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
sys.argv = ["kpybroker", "topics", "list"]
from kpybroker.__main__ import main
main()
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (-signal.SIGINT, b"", b"")
