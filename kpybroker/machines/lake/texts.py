"""Values of schemas as text: a string as it is, anything else as JSON that every parser reads. Pure.

Bytes are in base64, times in ISO 8601, decimals in their digits; NaN and the infinities have the names that Protobuf's
JSON gives them. All of these are strings in JSON.
"""

import base64
import json
import math
from datetime import date, time
from decimal import Decimal
from typing import Any


def text_of(value: Any) -> str:
    """A value as text."""
    found = json_of(value)
    return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False, separators=(",", ":"))


def json_of(value: Any) -> Any:
    """A value as one that JSON has."""
    match value:
        case str() | bool() | int() | None:
            return value
        case float():
            return value if math.isfinite(value) else _not_finite(value)
        case bytes():
            return base64.b64encode(value).decode()
        case Decimal():
            return f"{value:f}"
        case date() | time():
            return value.isoformat()
        case dict():
            return {str(key): json_of(each) for key, each in value.items()}
        case list() | tuple():
            return [json_of(each) for each in value]
    return str(value)


def _not_finite(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
