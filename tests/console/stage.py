"""A node with something on every page of the console, for pages, pictures and readers of them."""

import re
from time import time
from urllib.parse import quote

from console_node import ConsoleNode

from kpybroker.monitoring.console.page import ConsolePage
from kpywire.record import Record
from support.raw_client import RawClient
from support.waiting import eventually

NOW_MS = int(time() * 1000)
AIRPORTS = ("ZRH", "JFK", "LHR", "NRT", "SYD")


def flight(number: int) -> Record:
    """A record with a key, a value in JSON and a header."""
    start, end = AIRPORTS[number % 5], AIRPORTS[(number + 2) % 5]
    value = b'{"flight": %d, "from": "%s", "to": "%s"}' % (number, start.encode(), end.encode())
    return Record(timestamp=NOW_MS + number, key=b"LX%d" % number, value=value, headers=(("source", b"gate 7"),))


class Stage:
    """The contents, and the addresses of all pages."""

    def __init__(self, node: ConsoleNode) -> None:
        self.node = node
        node.create("flights", 2)
        node.produce("flights", [flight(number) for number in range(20)])
        node.commit("readers", "flights", 5)
        self.connected = RawClient(node.node.ports["PLAINTEXT"], client_id="watched")
        self.member = node.join(self.connected, "joined")
        see = node.post("/searches", topic="flights", text="LX1").json["see"]
        eventually(lambda: node.get(f"/api{see}").json["state"] == "done", "the search ends")
        host, port = self.connected.sock.getsockname()
        self.values = {
            "topic": "flights",
            "partition": "0",
            "segment": "0",
            "search": see.rpartition("/")[2],
            "connection": quote(f"{host}:{port}", safe=""),
        }
        self.queries = {
            "/records": "topic=flights",
            "/records/csv": "topic=flights",
            "/records/produce": "topic=flights&partition=0&offset=3",
            "/records/raw": "topic=flights&partition=0&offset=3",
            "/group": "id=readers",
            "/find": "q=a",
            "/group/reset": "id=readers&to=offset&value=12",
        }

    def address(self, page: ConsolePage, path: str) -> str:
        """The address of a page, or of its JSON."""
        filled = re.sub(r"{(\w+)}", lambda found: self.values[found[1]], path)
        query = self.queries.get(page.path)
        return f"{filled}?{query}" if query else filled

    def close(self) -> None:
        """Close the connection that is watched."""
        self.connected.sock.close()
