"""Java's tools print what they print on Apache Kafka, on a broker with logins, an authorizer and delegation tokens.

The commands are in ``java/secured_commands.txt``: those that manage ACLs, users, quotas and tokens, and some of others,
as an administrator, as users with few permissions, and with a wrong password. They are recorded as those of
`test_java_commands`.
"""

from pathlib import Path

import pytest

from oracle import free_port
from oracle.process import HOST
from support import parity
from support.access import PLAIN_MODULE, SCRAM_MODULE, logged_in
from support.java_commands import SECURED_COMMANDS
from support.java_tools import JavaTools
from support.targets import AUTHORIZERS, EXTERNAL, IN_ZOOKEEPER_MODE, TARGETS
from tools.test_java_commands import files_for_commands, run_all

pytestmark = pytest.mark.java

USERS = {"ADMIN": ("admin", "admins-secret"), "ALICE": ("alice", "alices-secret"), "BOB": ("bob", "bobs-secret")}
"""The file of each user's client, its name and password."""

REFUSED_BEFORE = (
    "org.apache.kafka.common.KafkaException: Cannot execute transactional method because we are in an error state"
)
REFUSED_AFTER = (
    "java.util.concurrent.ExecutionException: org.apache.kafka.common.errors.ClusterAuthorizationException: "
    "Cluster authorization failed."
)


def properties(target: str) -> dict[str, str]:
    """The configuration of the broker, apart from addresses."""
    users = " ".join(f'user_{name}="{password}"' for name, password in USERS.values())
    return {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURED:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.secured.plain.sasl.jaas.config": f"{PLAIN_MODULE} required {users};",
        "listener.name.secured.scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE} required;",
        "listener.name.secured.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;",
        "authorizer.class.name": AUTHORIZERS[target in IN_ZOOKEEPER_MODE],
        "super.users": "User:ANONYMOUS;User:admin",
        "delegation.token.secret.key": "the key of all tokens",
        "num.partitions": "1",
    }


@pytest.fixture(scope="module")
def printed(
    request: pytest.FixtureRequest, java_tools: JavaTools, target: str, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    """The output of each command, in their order."""
    if target == EXTERNAL:
        pytest.skip("configures the broker, and --bootstrap-server names one of somebody else")
    broker = TARGETS[target](properties(target), directory=tmp_path_factory.mktemp("broker"))
    server = f"{HOST}:{free_port()}"
    own: dict[str, str] = broker.properties  # type: ignore[attr-defined]
    for key in ("listeners", "advertised.listeners"):
        own[key] += f",SECURED://{server}"
    files = files_for_commands(tmp_path_factory.mktemp("files"), server)
    write_clients(files, server)
    recording = request.config.getoption("--record")
    wanted = None if recording else parity.secured_commands_expected(target)
    with broker:
        found = run_all(java_tools, SECURED_COMMANDS, server, files, wanted)
    if recording:
        parity.record_commands(target, found, parity.SECURED_COMMANDS)
    return found


def write_clients(directory: Path, server: str) -> None:
    """The files of all users, and one with a wrong password."""
    for name, (user, password) in {**USERS, "MISTAKEN": ("alice", "guessed")}.items():
        (directory / name).write_text(logged_in(server, user, password, mechanism="PLAIN").java)


def one_refusal(text: str) -> str:
    """The text of a command. Java's producer has two texts for a refused InitProducerId: it may learn of it before its
    first record or after."""
    return text.replace(REFUSED_BEFORE, REFUSED_AFTER)


def test_every_command_is_recorded(printed: dict[str, str], target: str) -> None:
    assert list(printed) == list(parity.secured_commands_expected(target))


@pytest.mark.parametrize("line", parity.secured_commands_expected("apache-kafka"))
def test_a_command_prints_what_it_prints_on_apache_kafka(printed: dict[str, str], line: str, target: str) -> None:
    expected = parity.secured_commands_expected(target)[line]
    assert one_refusal(printed[line]) == one_refusal(expected), parity.HOW_TO_RECORD
