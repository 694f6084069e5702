"""What the tests of connections share."""

from conftest_server import start_server

__all__ = ["start_server"]
