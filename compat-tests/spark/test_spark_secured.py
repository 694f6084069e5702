"""Spark reads and writes through TLS with a certificate, with a login by SCRAM, and with delegation tokens.

The broker has an authorizer, so what Spark may do shows which user it is. Tokens are obtained and used by Spark's own
provider (``KafkaDelegationTokenProvider``). Spark calls it only on a cluster and for a user with a Kerberos ticket;
in local mode the test calls it, and gives the token to the process as Spark would.
"""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from pyspark.sql import DataFrame, SparkSession

from oracle import BrokerProcess, free_port
from oracle.process import HOST, as_installed
from support import spark_formats
from support.access import SCRAM_MODULE, Access, logged_in, over_tls
from support.certificates import Authority
from support.clients import Confluent
from support.spark_pipeline import fill
from support.targets import TARGETS, KpyBroker
from support.topics import create_topic

pytestmark = pytest.mark.spark

USER, PASSWORD = "spark", "streams of sparks"
BY_CERTIFICATE: Final = f"User:CN={USER}"
BY_LOGIN: Final = f"User:{USER}"
WAYS: Final = ("tls", "scram", "token")
SECRET: Final = "secret"
"""A topic that the user may not see."""
COUNT: Final = 200
CLUSTER: Final = "secured"
"""Spark's name for it."""
TRUSTED: Final = "ssl.truststore.location"
PATIENCE_S: Final = 60


class Site(NamedTuple):
    """A broker that everybody reaches by PLAINTEXT as a super user, and the ways of Spark to it."""

    broker: BrokerProcess
    tls: Access
    scram: Access


@pytest.fixture(scope="module")
def site(startable_target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    directory = tmp_path_factory.mktemp("secured")
    authority = Authority()
    trusted = authority.save(directory / "authority.pem")
    keys = authority.issue().save_pem(directory / "broker.pem")
    own = authority.issue(USER, hosts=()).save_pem(directory / "spark.pem")
    broker = TARGETS[startable_target](properties(keys, trusted), directory=directory / "broker")
    ports = {name: free_port() for name in ("SECURED", "CERTIFIED")}
    own_properties: dict[str, str] = broker.properties  # type: ignore[attr-defined]
    for key in ("listeners", "advertised.listeners"):
        own_properties[key] += "".join(f",{name}://{HOST}:{port}" for name, port in ports.items())
    with broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
        for topic in ("source", SECRET, *(f"target-{way}" for way in WAYS)):
            create_topic(admin, topic, 2)
        fill(Confluent(broker.bootstrap_servers), "source", range(COUNT), partitions=2)
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        added = UserScramCredentialUpsertion(USER, info, PASSWORD.encode())
        admin.alter_user_scram_credentials([added])[USER].result(PATIENCE_S)
        for created in admin.create_acls(list(permissions())).values():
            created.result(PATIENCE_S)
        with_certificate = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(own)}
        tls = over_tls(f"{HOST}:{ports['CERTIFIED']}", trusted)
        yield Site(
            broker,
            Access(tls.servers, {**tls.properties, **with_certificate}),
            logged_in(f"{HOST}:{ports['SECURED']}", USER, PASSWORD, authority=trusted),
        )


def properties(keys: Path, trusted: Path) -> dict[str, str]:
    """The configuration of the broker, apart from addresses."""
    return {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURED:SASL_SSL,CERTIFIED:SSL",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.secured.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;",
        "listener.name.certified.ssl.client.auth": "required",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(keys),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(trusted),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "delegation.token.secret.key": "the key of all tokens",
    }


def permissions() -> Iterator[AclBinding]:
    """The least that Spark needs."""
    allowed = (
        ("source", ResourcePatternType.LITERAL, AclOperation.READ),
        ("target-", ResourcePatternType.PREFIXED, AclOperation.WRITE),
    )
    for principal in (BY_CERTIFICATE, BY_LOGIN):
        for topic, pattern, operation in allowed:
            yield AclBinding(ResourceType.TOPIC, topic, pattern, principal, "*", operation, AclPermissionType.ALLOW)


Options = dict[str, str]
"""The options of a source or sink."""


def options_of(access: Access) -> Options:
    return {"kafka.bootstrap.servers": access.servers, **{f"kafka.{k}": v for k, v in access.properties.items()}}


def read(spark: SparkSession, options: Options, topic: str = "source") -> DataFrame:
    """A topic as a batch."""
    rows = spark.read.format(spark_formats.chosen).options(subscribe=topic, **options).load()
    return rows.selectExpr("cast(value as string) value")


def copy_twice(spark: SparkSession, site: Site, options: Options, target: str, directory: Path) -> None:
    """A batch and a stream read the source and write to the target, which has every record twice then."""
    batch = read(spark, options)
    numbers = [str(number) for number in range(COUNT)]
    assert sorted(row.value for row in batch.collect()) == sorted(numbers)
    format_name, written_once = spark_formats.chosen, {"exactlyOnce": "false"} if spark_formats.is_ours() else {}
    sink_options = {"topic": target, **written_once, **options}
    batch.write.format(format_name).mode("append").options(**sink_options).save()
    source = spark.readStream.format(format_name).options(subscribe="source", startingOffsets="earliest", **options)
    sink = source.load().select("value").writeStream.format(format_name).options(**sink_options)
    query = sink.option("checkpointLocation", str(directory)).trigger(availableNow=True).start()
    assert query.awaitTermination(120), "availableNow did not come to an end"
    assert query.exception() is None
    written = Confluent(site.broker.bootstrap_servers).read(target, {0: 0, 1: 0})
    assert sorted(str(each.value, "ascii") for each in written if each.value is not None) == sorted(2 * numbers)


def refusal(spark: SparkSession, options: Options, topic: str = "source") -> str:
    """The error with which a batch ends."""
    with pytest.raises(Exception) as failure:
        read(spark, options, topic).collect()
    return str(failure.value)


def forbidden() -> str:
    """The name of the error for a topic that the user may not see."""
    return "TOPIC_AUTHORIZATION_FAILED" if spark_formats.is_ours() else "TopicAuthorizationException"


def not_logged_in() -> str:
    """The name of the error of a login that failed."""
    return "SASL_AUTHENTICATION_FAILED" if spark_formats.is_ours() else "SaslAuthenticationException"


def test_spark_reads_and_writes_over_tls_as_the_user_of_its_certificate(
    spark: SparkSession, site: Site, tmp_path: Path
) -> None:
    options = options_of(site.tls)
    copy_twice(spark, site, options, "target-tls", tmp_path / "checkpoint")
    assert forbidden() in refusal(spark, options, SECRET)


def test_spark_reads_and_writes_after_a_login_by_scram(spark: SparkSession, site: Site, tmp_path: Path) -> None:
    options = options_of(site.scram)
    copy_twice(spark, site, options, "target-scram", tmp_path / "checkpoint")
    assert forbidden() in refusal(spark, options, SECRET)
    wrong = logged_in(site.scram.servers, USER, "guessed", authority=Path(site.scram.properties[TRUSTED]))
    assert not_logged_in() in refusal(spark, options_of(wrong))


def test_spark_obtains_a_delegation_token_and_works_with_it_until_it_is_withdrawn(
    spark: SparkSession, site: Site, tmp_path: Path
) -> None:
    spark_formats.only_sparks("a provider of delegation tokens")
    encrypted = {key: value for key, value in site.scram.properties.items() if not key.startswith("sasl.")}
    options = options_of(Access(site.scram.servers, encrypted))
    token = obtain_token(spark, site.scram)
    listed = tokens(site.scram, tmp_path, "list")
    assert token in listed
    assert BY_LOGIN in listed
    copy_twice(spark, site, options, "target-token", tmp_path / "checkpoint")
    assert forbidden() in refusal(spark, options, SECRET)
    tokens(site.scram, tmp_path, "expire", token)
    assert not_logged_in() in refusal(spark, options)


def obtain_token(spark: SparkSession, access: Access) -> str:
    """Let Spark's provider obtain a token with the login of ``access``, for the use at these addresses. Its id."""
    jvm: Any = spark._jvm
    conf = jvm.org.apache.spark.SparkEnv.get().conf()
    settings = {
        "auth.bootstrap.servers": access.servers,
        "target.bootstrap.servers.regex": re.escape(access.servers),
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": access.properties[TRUSTED],
        "sasl.token.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": access.properties["sasl.jaas.config"],
    }
    for key, value in settings.items():
        conf.set(f"spark.kafka.clusters.{CLUSTER}.{key}", value)
    credentials = jvm.org.apache.hadoop.security.Credentials()
    provider = jvm.org.apache.spark.kafka010.KafkaDelegationTokenProvider()
    provider.obtainDelegationTokens(spark._jsc.hadoopConfiguration(), conf, credentials)  # type: ignore[attr-defined]
    token = credentials.getToken(jvm.org.apache.hadoop.io.Text(f"kafka.server.delegation.token.{CLUSTER}"))
    assert token is not None, "Spark's provider got no token; its log says why"
    jvm.org.apache.hadoop.security.UserGroupInformation.getCurrentUser().addCredentials(credentials)
    return bytes(token.getIdentifier()).decode()


def tokens(access: Access, directory: Path, *words: str) -> str:
    """The output of ``kpybroker tokens``, which works with any Kafka."""
    config = directory / "client.properties"
    config.write_text(f"bootstrap.servers={access.servers}\n{access.java}")
    command = [KpyBroker.path, "tokens", *words, "--command-config", config]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, env=as_installed())
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout
