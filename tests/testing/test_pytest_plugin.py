"""The pytest plugin: what its fixtures give, and that suites which do not ask for it do not notice it."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

CLEAN = ("-p", "no:cacheprovider")


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    """A suite in a directory of its own, run in a process of its own with what is installed."""
    pytester.makeini("[pytest]")
    return pytester


def run(suite: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return suite.runpytest_subprocess(*CLEAN, *arguments, timeout=120)


def test_tests_share_a_broker_and_have_topics_of_their_own(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        """
        import pytest
        seen = []

        @pytest.mark.parametrize("case", ["a b", "c/d"])
        def test_alone(kpybroker, topic, case):
            kpybroker.produce(topic, case)
            kpybroker.assert_records(topic, [case])
            seen.append((kpybroker.port, topic))

        @pytest.mark.kafka_topic(partitions=3, config={"retention.ms": 1000})
        def test_partitions(kpybroker, topic):
            kpybroker.produce(topic, "x", partition=2)

        def test_one_broker_and_three_topics(kpybroker):
            assert len({port for port, _ in seen}) == 1
            assert len(kpybroker.topics()) == 3
        """
    )
    run(suite, "--strict-markers").assert_outcomes(passed=4)


def test_tests_have_an_identity_provider_of_their_own(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        """
        import time
        import pytest
        from confluent_kafka import Producer
        from kpybroker.testing import BrokerFailed

        def test_logins(oidc_provider, kpybroker_factory):
            broker = kpybroker_factory(oidc_provider.broker_config())
            with pytest.raises(BrokerFailed, match="no listener 'X', but PLAINTEXT, OIDC"):
                broker.servers_of("X")
            producer = Producer({
                "bootstrap.servers": broker.servers_of("OIDC"),
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "OAUTHBEARER",
                "oauth_cb": lambda _: (oidc_provider.token("alice"), time.time() + 600),
            })
            producer.produce("t", b"x")
            assert producer.flush(20) == 0
            broker.assert_records("t", ["x"])
        """
    )
    run(suite, "--strict-markers").assert_outcomes(passed=1)


def test_the_plugin_loads_no_library_of_tokens(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        """
        import sys

        def test_light(kpybroker):
            assert not {"joserfc", "cryptography", "http.server"} & set(sys.modules)
        """
    )
    run(suite).assert_outcomes(passed=1)


def test_options_scope_and_more_brokers_are_the_suites_choice(suite: pytest.Pytester) -> None:
    suite.makeini("[pytest]\nkpybroker_scope = function")
    suite.makeconftest(
        """
        import pytest

        @pytest.fixture(scope="session")
        def kpybroker_options():
            return {"config": {"auto.create.topics.enable": False}, "process": False}
        """
    )
    suite.makepyfile(
        """
        def test_first(kpybroker, topic):
            assert kpybroker.topics() == [topic]

        def test_second(kpybroker, kpybroker_factory):
            assert kpybroker.topics() == []
            other = kpybroker_factory({"num.partitions": 2})
            other.produce("t", "a")
            assert other.port != kpybroker.port
        """
    )
    run(suite).assert_outcomes(passed=2)


def test_a_fault_of_one_test_is_gone_in_the_next(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        """
        from kpybroker.client.connection import BrokerConnection
        from kpywire.messages.metadata import MetadataRequest, MetadataRequestTopic

        def code(kpybroker, topic):
            client = BrokerConnection(kpybroker.host, kpybroker.port, 20.0)
            answer = client.call(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]))
            client.close()
            return answer.topics[0].error_code

        def test_breaks(kpybroker, topic):
            kpybroker.faults.fail("Metadata", "LEADER_NOT_AVAILABLE")
            assert code(kpybroker, topic) == 5

        def test_is_whole(kpybroker, topic):
            assert code(kpybroker, topic) == 0

        def test_stops_it(kpybroker):
            kpybroker.stop()
        """
    )
    run(suite).assert_outcomes(passed=3)


def test_a_failed_comparison_of_records_shows_what_differs_and_no_frames_of_ours(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        """
        def test_compared(kpybroker, topic):
            kpybroker.produce(topic, "a", "b")
            assert kpybroker.records(topic) == ["a", "c"]

        def test_asserted(kpybroker, topic):
            kpybroker.produce(topic, "a")
            kpybroker.assert_records(topic, ["z"])
        """
    )
    result = run(suite)
    result.assert_outcomes(failed=2)
    output = result.stdout.str()
    assert "- 'c'" in output
    assert "@1 'b'" in output
    assert "- 'z'" in output
    assert "_thread.call" not in output


def test_a_suite_that_does_not_ask_pays_nothing(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        """
        import sys, threading

        def test_nothing_of_the_broker_is_loaded():
            loaded = {name for name in sys.modules if name.split(".")[0] in ("kpybroker", "kpywire", "kpystorage")}
            assert loaded == {"kpybroker", "kpybroker.pytest_plugin"}
            assert threading.active_count() == 1
            assert "asyncio" not in sys.modules

        class Test:
            topic = "theirs"

            def test_names_of_theirs_are_theirs(self, topic):
                assert topic == "their fixture"
        """
    )
    suite.makeconftest("import pytest\n\n@pytest.fixture\ndef topic():\n    return 'their fixture'\n")
    run(
        suite, "-W", "error", "--strict-config", "--strict-markers", "-p", "no:timeout", "-p", "no:anyio"
    ).assert_outcomes(passed=2)


def test_the_plugin_can_be_left_out(suite: pytest.Pytester) -> None:
    suite.makepyfile("def test_it(kpybroker): pass")
    run(suite, "-p", "no:kpybroker").assert_outcomes(errors=1)


def test_the_plugin_imports_pytest_and_nothing_heavier() -> None:
    script = (
        "import sys, pytest; before = set(sys.modules); import kpybroker.pytest_plugin; "
        "print(sorted(set(sys.modules) - before))"
    )
    reported = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert reported.strip() == "['kpybroker', 'kpybroker.pytest_plugin']"


def test_the_modules_of_an_installed_broker_are_not_rewritten(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        marking="""
        def pytest_addoption(parser, pluginmanager):
            pluginmanager.rewrite_hook.mark_rewrite("kpybroker", "kpywire", "kpystorage", "other")  # as for a wheel
            import kpybroker.pytest_plugin
            pluginmanager.register(kpybroker.pytest_plugin, "again")
        """,
        test_marks="""
        def test_marks(pytestconfig):
            marked = pytestconfig.pluginmanager.rewrite_hook._must_rewrite
            assert "other" in marked
            assert not {"kpybroker", "kpywire", "kpystorage"} & marked
        """,
    )
    run(suite, "-p", "no:kpybroker", "-p", "marking").assert_outcomes(passed=1)


def test_every_fixture_is_documented() -> None:
    text = (Path(__file__).parents[2] / "docs" / "testing.md").read_text()
    for name in ("kpybroker", "topic", "kpybroker_factory", "kpybroker_options", "kpybroker_scope", "kafka_topic"):
        assert f"`{name}`" in text
