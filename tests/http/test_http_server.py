"""The second port's server: methods, bodies and errors, each bounded, and nobody else harmed."""

import asyncio
from collections.abc import Mapping
from http import HTTPStatus

import pytest

from kpybroker.runtime.calls.principal import ANONYMOUS
from kpybroker.runtime.http.request import MOST_BODY_BYTES, HttpAnswer, Request, Route
from kpybroker.runtime.http.server import HttpServer


async def echo(request: Request) -> HttpAnswer:
    reported = f"{request.method} {request.path} {request.query} {request.headers['x-word']} {request.principal} "
    return HttpAnswer(HTTPStatus.OK, [reported.encode(), request.body])


async def broken(_request: Request) -> HttpAnswer:
    raise RuntimeError("broken")


ROUTES = {"/echo": Route(echo, frozenset({"GET", "POST"})), "/broken": Route(broken), "/third": Route(echo)}
BELOW = {"/": Route(echo), "/files/": Route(echo), "/files/exact": Route(broken), **ROUTES}


def ask(sent: bytes, routes: Mapping[str, Route] = ROUTES) -> tuple[int, dict[str, str], bytes]:
    """The status, headers and body of the answer."""

    async def exchange() -> bytes:
        server = HttpServer(routes)
        port = await server.start("127.0.0.1", 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        answer = await asyncio.wait_for(reader.read(), 20)
        writer.close()
        await server.stop()
        return answer

    head, _, body = asyncio.run(exchange()).partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    return int(first.split(" ")[1]), dict(line.split(": ", 1) for line in lines), body


def test_a_route_sees_method_path_query_headers_body_and_identity() -> None:
    body = bytes(range(256)) * 100
    head = f"POST /echo?a=b HTTP/1.1\r\nX-Word:  hello \r\nContent-Length: {len(body)}\r\n\r\n"
    status, headers, answer = ask(head.encode() + body)
    assert (status, answer) == (200, f"POST /echo a=b hello {ANONYMOUS} ".encode() + body)
    assert headers["Content-Length"] == str(len(answer))


def test_a_request_without_a_body_has_an_empty_one() -> None:
    assert ask(b"GET /echo HTTP/1.1\r\nX-Word: w\r\n\r\n")[2] == f"GET /echo  w {ANONYMOUS} ".encode()


@pytest.mark.parametrize(
    ("path", "status"),
    [("/", 200), ("/files/", 200), ("/files/a/b", 200), ("/files/exact", 500), ("/files", 404), ("/other", 404)],
)
def test_a_route_with_a_slash_at_its_end_has_all_paths_below_it(path: str, status: int) -> None:
    assert ask(f"GET {path} HTTP/1.1\r\nX-Word: w\r\n\r\n".encode(), BELOW)[0] == status


@pytest.mark.parametrize(
    ("sent", "status", "line"),
    [
        (b"GET /nowhere HTTP/1.1\r\n\r\n", 404, b"there are /echo, /broken and /third\n"),
        (b"PUT /echo HTTP/1.1\r\n\r\n", 405, b"GET or POST only\n"),
        (b"POST /broken HTTP/1.1\r\n\r\n", 405, b"GET only\n"),
        (b"hello\r\n\r\n", 400, b"not HTTP/1\n"),
        (b"POST /echo HTTP/1.1\r\nContent-Length: many\r\n\r\n", 400, b"the Content-Length is no number\n"),
        (b"POST /echo HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400, b"the Content-Length is no number\n"),
        (b"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 411, b"a body needs a Content-Length\n"),
        (b"GET /broken HTTP/1.1\r\n\r\n", 500, b"/broken cannot be answered; the log says why\n"),
    ],
)
def test_requests_without_a_route_get_a_status_and_one_line(sent: bytes, status: int, line: bytes) -> None:
    answer = ask(sent)
    assert (answer[0], answer[2]) == (status, line)


@pytest.mark.parametrize("length", [str(MOST_BODY_BYTES + 1), "9" * 5000])
def test_a_body_that_is_too_long_is_refused_before_it_is_read(length: str) -> None:
    status, _, line = ask(f"POST /echo HTTP/1.1\r\nContent-Length: {length}\r\n\r\n".encode())
    assert (status, line) == (413, f"a body has at most {MOST_BODY_BYTES} bytes\n".encode())
