"""The tools that become commands of kpybroker, and refusals that no recorded line has."""

import pytest

from kpybroker.cli.kafka_tools.__main__ import CLASSES, TOOLS, main


def test_an_id_is_printed_and_mistakes_end_with_one(capfd: pytest.CaptureFixture[str]) -> None:
    assert main("/opt/kafka/bin/kafka-storage.sh", ["random-uuid"]) == 0
    assert len(capfd.readouterr().out) == 23
    assert main("kafka-storage", ["format", "--no-such-option"]) == 1
    assert main("kafka-storage", ["info"]) == 1
    assert main("kafka-server-start", ["-daemon", "server.properties"]) == 1


@pytest.mark.parametrize(
    ("words", "reported"),
    [
        (["kafka-log-dirs", "--describe"], "is none of"),
        (["kafka-run-class", "some.Class"], "there is no Java here"),
        (["kafka-run-class", "kafka.tools.GetOffsetShell", "--no-such"], "the following arguments are required"),
        (["cub", "sr-ready", "h", "1", "1"], "choose one of kafka-ready, zk-ready"),
        (["cub", "kafka-ready", "1", "1", "-b", "h:1", "-s", "SSL"], "--config is required"),
        (["cub", "zk-ready", "127.0.0.1:1", "0"], "not ready after 0 s"),
        (["kafka-topics", "--bootstrap-server", "h:1", "--list", "--bootstrap-server", "h:1"], "multiple arguments"),
        (["kafka-topics", "--bootstrap-server", "h:x", "--list"], "not an address"),
        (["kafka-topics", "--bootstrap-server", "h:1", "--list", "--command-config", "/none"], "/none: No such file"),
        (["kafka-configs", "--bootstrap-server", "h:1", "--alter", "--topic", "t", "--user", "u"], "each once"),
        (
            ["kafka-console-producer", "--bootstrap-server", "h:1", "--topic", "t", "--producer-property", "no=1"],
            "there is no property no",
        ),
        (
            ["kafka-console-producer", "--bootstrap-server", "h:1", "--topic", "t", "--property", "key.separator="],
            "a separator is empty",
        ),
        (
            [
                "kafka-console-consumer",
                "--bootstrap-server",
                "h:1",
                "--topic",
                "t",
                "--property",
                "key.deserializer=x.Y",
            ],
            "is written in Java",
        ),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, list) else "",
)
def test_a_refusal_is_one_line_with_its_reason(
    words: list[str], reported: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words[0], words[1:]) == 1
    printed = capsys.readouterr()
    assert reported in printed.err + printed.out


def test_every_class_is_that_of_a_tool() -> None:
    assert set(CLASSES.values()) <= set(TOOLS)
