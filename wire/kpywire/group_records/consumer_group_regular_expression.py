"""ConsumerGroupRegularExpression: a record of type 16, key and value."""

from __future__ import annotations

from kpywire.schema import i64, message, string


@message(key=16, versions="0")
class ConsumerGroupRegularExpressionKey:
    group_id: string  # The group id.
    regular_expression: string  # The regular expression.


@message(key=16, versions="0", flexible="0+")
class ConsumerGroupRegularExpressionValue:
    topics: list[string]
    version: i64
    timestamp: i64
