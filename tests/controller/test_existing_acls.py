"""The contents of ACLs that are there: one that went is not, unless a foreign log has it under another id, too."""

from kpybroker.machines.controller.existing_acls import AclContent, ExistingAcls
from kpywire.metadata_records.access_control_entry_record import AccessControlEntryRecord

ONE, OTHER = b"1" * 16, b"2" * 16


def acl(acl_id: bytes, resource_name: str = "orders") -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=acl_id,
        resource_type=2,
        resource_name=resource_name,
        pattern_type=3,
        principal="User:alice",
        host="*",
        operation=3,
        permission_type=3,
    )


CONTENT, OF_OTHERS = AclContent.of(acl(ONE)), AclContent.of(acl(ONE, "others"))


def test_an_acl_that_went_may_come_again() -> None:
    existing = ExistingAcls({})
    for _ in range(3):
        assert CONTENT not in existing
        existing.changed(ONE, acl(ONE))
        assert CONTENT in existing
        existing.changed(ONE, None)
    assert CONTENT not in existing
    existing.changed(OTHER, None)  # nothing is known of it


def test_a_content_under_two_ids_is_there_until_both_went() -> None:
    existing = ExistingAcls({ONE: acl(ONE), OTHER: acl(OTHER)})
    existing.changed(OTHER, None)
    assert CONTENT in existing
    existing.changed(ONE, None)
    assert CONTENT not in existing


def test_an_id_with_another_content_no_longer_has_the_first() -> None:
    existing = ExistingAcls({ONE: acl(ONE)})
    existing.changed(ONE, acl(ONE, "others"))
    assert CONTENT not in existing
    assert OF_OTHERS in existing
