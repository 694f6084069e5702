"""A message as JSON in Kafka's own form: names in camel case, ids and bytes in base64 (its ``...JsonConverter``).

Pure. Fields that the version does not have are left out, and so are tagged fields at their default. Secrets are hidden:
the keys of users in the metadata, from which a password can be guessed, and the values of configs that are passwords.
"""

import base64
from typing import Any

from kpywire.schema import Field, Shape, fields_of, is_secret
from kpywire.uuid import to_string

HIDDEN = "[hidden]"
_SPELLED = {"kraft_version": "kRaftVersion", "kraft_version_feature": "kRaftVersionFeature"}


def as_json(message: Any, version: int) -> dict[str, Any]:
    """The message as Kafka's tools print it, ready for ``json.dumps``."""
    found: dict[str, Any] = {}
    cls: Any = type(message)
    for field in fields_of(cls):
        value = getattr(message, field.name)
        if version in field.versions and not (field.tag is not None and _is_default(field, value)):
            found[_camel(field.name)] = (
                HIDDEN if is_secret(message, field.name) else _value(field.shape, value, version)
            )
    return found


def _is_default(field: Field, value: object) -> bool:
    return bool(value == field.fresh_default())


def _value(shape: Shape, value: Any, version: int) -> Any:
    if value is None:
        return None
    if shape.kind == "array":
        assert shape.element is not None
        return [_value(shape.element, each, version) for each in value]
    if shape.kind == "struct":
        return as_json(value, version)
    if shape.kind == "uuid":
        return to_string(value)
    if shape.kind in ("bytes", "record_batches"):
        return base64.b64encode(value).decode()
    return value


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return _SPELLED.get(name) or first + "".join(part.capitalize() for part in rest)
