"""The transactional id of a sink: the same whenever a job is started again, and another one for another job."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpybroker.pipeline.sink.options import sink_options

SERVERS = {"kafka.bootstrap.servers": "127.0.0.1:9092"}


def id_of(**given: object) -> str | None:
    return sink_options(SERVERS | {name: str(value) for name, value in given.items()}).transactional_id


@given(st.text(st.characters(codec="utf-8"), min_size=1), st.lists(st.integers(0, 2**31 - 1), min_size=2, max_size=5))
def test_every_version_of_an_application_has_the_same_id(application: str, versions: list[int]) -> None:
    ids = {id_of(txnAppId=application, txnVersion=version) for version in versions}
    assert len(ids) == 1


def test_two_applications_and_two_checkpoints_have_ids_of_their_own() -> None:
    ids = [id_of(txnAppId=name, txnVersion=1) for name in ("a", "b", "ab")]
    ids += [id_of(checkpointLocation=path) for path in ("/c/one", "/c/two", "s3://c/one")]
    assert None not in ids
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize(
    "others", [{"topic": "t"}, {"kafka.acks": "all"}, {"kafka.client.id": "c"}, {"kafka.transaction.timeout.ms": "7"}]
)
def test_the_transactional_id_depends_on_the_query_id_only(others: dict[str, str]) -> None:
    assert id_of(checkpointLocation="/c", **others) == id_of(checkpointLocation="/c")
    assert id_of(txnAppId="a", txnVersion=1, **others) == id_of(txnAppId="a", txnVersion=2)


def test_a_checkpoint_with_a_slash_at_its_end_is_the_same() -> None:
    assert id_of(checkpointLocation="/c/one/") == id_of(checkpointLocation="/c/one")


def test_txn_app_id_takes_precedence_over_the_checkpoint_location() -> None:
    assert id_of(txnAppId="a", txnVersion=1, checkpointLocation="/c") == id_of(txnAppId="a", txnVersion=1)


def test_ids_that_jobs_of_today_have_stay_as_they_are_after_an_upgrade() -> None:
    """Otherwise the marks of the earlier version would not be found, and a job would be written twice."""
    assert id_of(checkpointLocation="/c/one") == "kpybroker-sink-f73d907ac4aa7d5c0166"
    assert id_of(txnAppId="a", txnVersion=1) == "kpybroker-sink-ca978112ca1bbdcafac2"


def test_a_prefix_and_an_id_of_the_user_are_taken() -> None:
    chosen = id_of(checkpointLocation="/c", transactionalIdPrefix="mine-")
    assert chosen is not None
    assert chosen.startswith("mine-")
    assert chosen.removeprefix("mine-") == (id_of(checkpointLocation="/c") or "")[-20:]
    assert id_of(checkpointLocation="/c", transactionalId="x") == "x"
    assert id_of() is None
