"""The error of properties that users set for a client."""


class BadProperty(ValueError):
    """A wrong property. The message is one clear line without a secret: which property is wrong, and how to mend it."""
