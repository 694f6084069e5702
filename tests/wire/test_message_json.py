"""Messages as JSON: Kafka's spelling of names and values, without secrets and without what a version lacks."""

from kpywire.message_json import HIDDEN, as_json
from kpywire.messages.api_versions import ApiVersionsRequest
from kpywire.messages.fetch import FetchRequest
from kpywire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kpywire.metadata_records.config_record import ConfigRecord
from kpywire.metadata_records.user_scram_credential_record import UserScramCredentialRecord
from kpywire.schema import is_secret_config


def test_names_are_in_camel_case_and_fields_of_later_versions_are_left_out() -> None:
    request = ApiVersionsRequest(client_software_name="s", client_software_version="1")
    assert as_json(request, 2) == {}
    assert as_json(request, 3) == {"clientSoftwareName": "s", "clientSoftwareVersion": "1"}


def test_arrays_structs_ids_and_nulls_are_written_through() -> None:
    topics = [MetadataRequestTopic(topic_id=bytes(15) + b"\1", name=None), MetadataRequestTopic(name="t")]
    found = as_json(MetadataRequest(topics=topics, allow_auto_topic_creation=False), 12)
    assert found["topics"] == [
        {"topicId": "AAAAAAAAAAAAAAAAAAAAAQ", "name": None},
        {"topicId": "AAAAAAAAAAAAAAAAAAAAAA", "name": "t"},
    ]
    assert found["allowAutoTopicCreation"] is False
    assert as_json(MetadataRequest(topics=None), 12)["topics"] is None


def test_bytes_are_in_base64_and_secrets_are_hidden() -> None:
    record = UserScramCredentialRecord(
        name="u", mechanism=1, salt=b"salt", stored_key=b"stored", server_key=b"server", iterations=4096
    )
    assert as_json(record, 0) == {
        "name": "u", "mechanism": 1, "salt": "c2FsdA==", "storedKey": HIDDEN, "serverKey": HIDDEN, "iterations": 4096,
    }  # fmt: skip


def test_the_value_of_a_config_is_hidden_where_its_name_says_so() -> None:
    for name, shown in (("ssl.key.password", HIDDEN), ("sasl.jaas.config", HIDDEN), ("retention.ms", "v")):
        config = ConfigRecord(resource_type=2, resource_name="t", name=name, value="v")
        assert as_json(config, 0)["value"] == shown
        assert (HIDDEN in repr(config)) is (shown == HIDDEN)
        assert is_secret_config(name) is (shown == HIDDEN)


def test_a_tagged_field_at_its_default_is_left_out() -> None:
    for cluster_id, shown in ((None, {}), ("c", {"clusterId": "c"})):
        request = FetchRequest(cluster_id=cluster_id, max_wait_ms=1, min_bytes=1, topics=[])
        found = as_json(request, 17)
        assert {name: value for name, value in found.items() if name in ("clusterId", "replicaState")} == shown
        assert found["maxWaitMs"] == 1
