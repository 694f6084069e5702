"""``kpybroker bug-report``: it has what a maintainer asks for, and no secret, wherever one was."""

import os
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from killable import KillableBroker

from kpybroker.cli import bug_report, main
from kpybroker.cli.redaction import Redactor

PEM = "-----BEGIN PRIVATE KEY-----\nMIIpem7planted\nQUJDpem8planted\n-----END PRIVATE KEY-----"
PLANTED = {
    "ssl.keystore.password": "planted-keystore",
    "ssl.key.password": "planted-key",
    "sasl.jaas.config": 'org.apache.kafka.X required username="admin" password="planted-jaas" user_eve="planted-eve";',
    "listener.name.sasl.scram-sha-512.sasl.jaas.config": 'X required password="planted-listener";',
    "listener.name.sasl.ssl.truststore.password": "planted-truststore",
    "ssl.keystore.key": PEM.replace("\n", "\\n"),
    "delegation.token.secret.key": "planted-token-key",
    "kpybroker.http.ssl.key.password": "planted-http",
    "sasl.oauthbearer.token.endpoint.url": "https://user:planted-url@example.org/token",
    "my.own.plugin.setting": "planted-unknown",
    "s3.access.key": "planted-unknown-2",
}
LOG = """\
2026-11-26 INFO started (kpybroker.node)
2026-11-26 INFO somebody logged in with planted-jaas (x)
2026-11-26 DEBUG Authorization: Basic cGxhbnRlZA==planted (x)
2026-11-26 DEBUG Bearer planted.bearer.token12345 (x)
2026-11-26 WARNING password=planted-log, secret: 'planted-log-2' (x)
2026-11-26 WARNING {"client_secret": "planted \\" json"} (x)
2026-11-26 WARNING https://ada:planted-ada@example.org/ (x)
2026-11-26 WARNING sasl.jaas.config=X required password=planted-bare; more planted-more
2026-11-26 WARNING eyJhbGciOiJIUzI1.planted.planted
-----BEGIN RSA PRIVATE KEY-----
planted-private
-----END RSA PRIVATE KEY-----
2026-11-26 ERROR planted-environment was refused (x)
2026-11-26 INFO the last line (x)
"""


def report(*words: str, stdin: str = "") -> str:
    result = CliRunner().invoke(main, ["bug-report", "--output", "-", *words], input=stdin, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def properties(tmp_path: Path) -> Path:
    path = tmp_path / "server.properties"
    lines = [f"{name}={value}" for name, value in PLANTED.items()]
    path.write_text("\n".join([*lines, "num.partitions=7", f"log.dirs={tmp_path / 'data'}", "super.users=User:eve"]))
    return path


def test_secrets_are_found_nowhere_in_the_report(
    properties: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_SSL_KEYSTORE_PASSWORD", "planted-environment")
    monkeypatch.setenv("KAFKA_NUM_PARTITIONS", "planted-value")
    for name in ("client.properties", "key.pem", "planted-jaas-0/00000000000000000000.log"):
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"password=planted-file\n{PEM}")
    reported = report(str(properties), "--log", "-", "--http", "127.0.0.1:1", stdin=LOG)
    assert "planted" not in reported
    assert "pem7" not in reported
    for known in ("num.partitions=7", "super.users=User:eve", "the last line", "KAFKA_NUM_PARTITIONS", "[hidden]-0"):
        assert known in reported


@settings(max_examples=25)
@given(secret=st.text(st.characters(categories=["L", "Nd"]), min_size=8), around=st.text(max_size=20))
def test_a_secret_of_the_configuration_is_hidden_wherever_it_occurs_again(secret: str, around: str) -> None:
    if secret.isdecimal():
        secret = f"x{secret}"
    redactor = Redactor()
    assert redactor.configs({"ssl.key.password": secret}) == {"ssl.key.password": "[hidden]"}
    assert secret not in redactor.text(f"{around}{secret}{around}").replace("[hidden]", "\0")


@pytest.mark.parametrize(
    ("configs", "text", "hidden"),
    [
        ({"ssl.key.password": "first-and-second"}, "user 'first-and-sec' failed", "first-and"),
        ({"ssl.key.password": "abcdefgh", "ssl.keystore.password": "efghijkl"}, "=abcdefghijkl=", "ijkl"),
        ({"ssl.key.password": "20261128"}, "with 20261128", "20261128"),
        ({"sasl.jaas.config": 'X required password="a\\"quoted\\"secret";'}, 'got a"quoted"secret', "quoted"),
        ({"kpybroker.otlp.headers": "api-key=Zm9vYmFyYmF6"}, "sent Zm9vYmFyYm", "Zm9vYmFyYm"),
        ({}, "QUJDREVGR0hJSktMTU5P\nUFFSU1RVVldYWVo=\n-----END PRIVATE KEY-----", "QUJDREVGR0"),
        ({}, "fetched https://ghp_0123456789@example.org/schemas", "ghp_"),
    ],
)
def test_parts_of_secrets_are_hidden_too(configs: dict[str, str], text: str, hidden: str) -> None:
    redactor = Redactor()
    redactor.configs(configs)
    assert hidden in text
    assert hidden not in redactor.text(text)
    plain = "org.apache.kafka.common.security.plain.PlainLoginModule required at kafka-1:9093"
    assert redactor.text(plain) == plain


def test_a_key_whose_beginning_is_not_among_the_last_lines_is_hidden(properties: Path) -> None:
    reported = report(
        str(properties), "--log", "-", "--log-lines", "2", "--http", "127.0.0.1:1", stdin=f"x\n{PEM}\nend\n"
    )
    assert "pem8" not in reported
    assert "end" in reported


def test_the_report_replaces_no_link_and_no_file_stays_open_to_others(tmp_path: Path) -> None:
    words = ["bug-report", "--data", str(tmp_path), "--http", "127.0.0.1:1", "--output"]
    kept, link, own = tmp_path / "kept", tmp_path / "link", tmp_path / "own"
    kept.write_text("as it was")
    link.symlink_to(kept)
    refused = CliRunner().invoke(main, [*words, str(link)])
    assert (refused.exit_code, kept.read_text(), link.is_symlink()) == (1, "as it was", True)
    own.write_text("an earlier report")
    own.chmod(0o644)
    assert CliRunner().invoke(main, [*words, str(own)]).exit_code == 0
    assert stat.S_IMODE(own.stat().st_mode) == 0o600


def test_a_running_node_is_described(tmp_path: Path) -> None:
    with KillableBroker(tmp_path) as broker:
        runner = CliRunner()
        assert (
            runner.invoke(main, ["topics", "create", "flights", "--partitions", "3", "-b", broker.server]).exit_code
            == 0
        )
        log = ["--log", str(tmp_path / "broker.log"), "--log-lines", "2"]
        reported = report("--data", str(tmp_path / "data"), "--http", broker.http, *log)
        asked = report("--data", str(tmp_path / "data"), "--http", broker.http, "-b", broker.server)
    assert "advertised address: broker 1 answers at" in asked.partition("## Cluster")[2]
    assert "Cluster" not in reported
    sections = {part.partition("\n")[0]: part for part in reported.split("\n## ")}
    assert "Python 3." in sections["Versions"]
    assert "click 8" in sections["Versions"]
    assert "flights-0" in sections["Directories"]
    assert "1 topics, 3 partitions\n0 partitions without a leader" in sections["Metadata"]
    assert "kpybroker_loop_lag_seconds" in sections["Metrics"]
    assert len(sections["Log"].strip().splitlines()) == 2 + 2


def test_a_report_of_a_long_log_is_at_most_a_megabyte_and_has_its_last_lines(tmp_path: Path) -> None:
    log = tmp_path / "broker.log"
    log.write_text("".join(f"{number} {'é' * 500}\n" for number in range(2_000)))
    reported = report("--data", str(tmp_path), "--http", "127.0.0.1:1", "--log", str(log), "--log-lines", "99999")
    assert len(reported.encode()) <= bug_report.MOST_BYTES
    last = reported.partition("## Log")[2].strip().splitlines()
    assert last[0].endswith("more lines are left out")
    assert last[-1].startswith("1999 ")


def test_sections_of_a_report_are_cut_where_their_share_ends() -> None:
    lines = [f"line {number:03}" for number in range(100)]
    assert bug_report.bounded(lines, 10_000) == lines
    first = bug_report.bounded(lines, 250)
    assert first[-1] == f"... {100 - len(first) + 1} more lines are left out"
    assert first[:-1] == lines[: len(first) - 1]
    last = bug_report.bounded(lines, 250, last=True)
    assert (last[0], last[1:]) == (first[-1], lines[100 - len(last) + 1 :])
    assert sum(len(line) + 1 for line in first) <= 250
    assert sum(bug_report.SHARES.values()) + 9 * bug_report.OTHER_SHARE <= bug_report.MOST_BYTES


def test_a_cluster_that_does_not_answer_is_one_line_of_the_report(tmp_path: Path) -> None:
    reported = report("--data", str(tmp_path), "--http", "127.0.0.1:1", "-b", "127.0.0.1:1")
    assert "no broker answers at 127.0.0.1:1" in reported.partition("## Cluster")[2]


def test_a_directory_that_is_not_there_is_one_line_and_the_file_is_its_owners(tmp_path: Path) -> None:
    path = tmp_path / "report.txt"
    words = ["bug-report", "--data", str(tmp_path / "nowhere"), "--http", "127.0.0.1:1", "--output", str(path)]
    result = CliRunner().invoke(main, words, catch_exceptions=False)
    assert result.exit_code == 0
    assert "Read it before you send it." in result.stderr
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert "nowhere: No such file or directory" in path.read_text()
    result = CliRunner().invoke(main, [*words[:-1], str(tmp_path / "no" / "file")], catch_exceptions=False)
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
