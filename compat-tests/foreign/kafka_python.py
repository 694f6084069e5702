"""kafka-python's own integration tests, which its source distributions carry: today's version, and the old 2.0.2.

What needs no broker is left out, such as its tests of reauthentication, which play a broker themselves. The tests that
start a broker with TLS or SASL by Kafka's shell scripts use a broker of ours (`kafka_python_3_secured`).
"""

from pathlib import Path

from foreign import packages
from foreign.suite import HERE, Pytest, PytestSuite

CODECS = ("lz4==4.4.5", "python-snappy==0.7.3", "zstandard==0.25.0", "crc32c==2.8")
RUNNERS = ("pytest==9.2.0", "pytest-mock==3.15.1", "pytest-timeout==2.4.0")
BROKER = {"num.partitions": "4", "group.min.session.timeout.ms": "1000"}


def _source_3() -> Path:
    return packages.python_source(
        "kafka-python==3.0.12",
        "kafka_python-3.0.12.tar.gz",
        "4ccda3616b9aa5c353d74a97f2770d6cd1b950890d77ab0e8890e09a48eeed65",
    )


def _source_2() -> Path:
    return packages.python_source(
        "kafka-python==2.0.2",
        "kafka-python-2.0.2.tar.gz",
        "04dfe7fea2b63726cd6f3e79a2d86e709d608d74406638c5da33a01d45a9d7e3",
    )


def _python_3() -> Path:
    return packages.python_environment("kafka-python-3", ["kafka-python==3.0.12", "py==1.11.0", *RUNNERS, *CODECS])


def _python_2() -> Path:
    return packages.python_environment("kafka-python-2", ["kafka-python==2.0.2", "mock==5.2.0", *RUNNERS, *CODECS])


def _version_3(bootstrap_servers: str) -> Pytest:
    root = _source_3()
    return Pytest(
        python=_python_3(),
        root=root,
        tests=[f"test/integration/test_{part}_integration.py" for part in ("admin", "consumer", "producer")],
        plugins=["kafka_python_3"],
        environment={
            "KAFKA_URI": f"kafka://{bootstrap_servers}",
            "KAFKA_VERSION": "4.3",
            "KAFKA_ROOT": str(root),
        },
        options=["-o", "log_level=WARNING"],
    )


def _version_2(bootstrap_servers: str) -> Pytest:
    tests = ("admin_integration", "consumer_integration", "consumer_group", "producer")
    return Pytest(
        python=_python_2(),
        root=_source_2(),
        tests=[f"test/test_{part}.py" for part in tests],
        plugins=["kafka_python_2"],
        environment={"KAFKA_BOOTSTRAP": bootstrap_servers, "KAFKA_VERSION": "2.5"},
        options=["--timeout", "120", "-c", str(HERE / "plugins" / "pytest.ini"), "--rootdir", "."],
    )


def _secured_3(_bootstrap_servers: str) -> Pytest:
    root = _source_3()
    return Pytest(
        python=_python_3(),
        root=root,
        tests=[f"test/integration/test_{part}_integration.py" for part in ("sasl", "ssl")],
        plugins=["kafka_python_3_secured"],
        environment={"KAFKA_VERSION": "4.3", "KAFKA_ROOT": str(root)},
        options=["-o", "log_level=WARNING"],
    )


KAFKA_PYTHON_3 = PytestSuite("kafka-python", _version_3, lambda: (_source_3(), _python_3()), BROKER)
KAFKA_PYTHON_SECURED = PytestSuite(
    "kafka-python-secured", _secured_3, lambda: (_source_3(), _python_3()), BROKER, secured=True
)
KAFKA_PYTHON_2 = PytestSuite(
    "kafka-python-2", _version_2, lambda: (_source_2(), _python_2()), {**BROKER, "node.id": "0"}
)
