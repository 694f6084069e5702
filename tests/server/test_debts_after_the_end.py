"""A client that closes its connection after long work and opens another waits for the account as before."""

from typing import Any

from conftest_server import read_reply, reply_to, request

from kpybroker.requests.server.connection import Connection

StartServer = Any


def test_a_client_that_connects_again_waits_for_the_account(start_server: StartServer) -> None:
    """Only the first request takes long. Whether a connection waits is seen before it is served."""
    waited: list[bool] = []

    def dispatch(connection: Connection, _received: memoryview) -> list[bytes]:
        waited.append(connection.is_admitted)
        if len(waited) == 1:
            connection.costs(10**6, is_long=True)
        return reply_to(len(waited))

    server = start_server(dispatch)
    for number in (1, 2, 3):
        with server.connect() as sock:
            sock.sendall(request(number))
            assert read_reply(sock)[0] == number
    assert waited == [False, True, False], "the next one waits, and only that"
