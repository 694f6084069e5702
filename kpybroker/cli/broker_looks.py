"""The answers of each broker for ``kpybroker doctor``: asked of all brokers at once, each over a connection of its own.

Every question is asked once, however many checks need its answer. A question that failed raises its error in each check
that needs it. Not here: questions that any broker answers (`kpybroker.cli.examination`).
"""

import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, Generic, TypeVar

from kpybroker.cli import scrape
from kpybroker.cli.diagnoses import ProbedAddress
from kpybroker.cli.scrape import Way
from kpybroker.client import config_requests
from kpybroker.client.client import Client
from kpybroker.client.cluster_requests import LogDirDescription, described_directories
from kpybroker.client.config_requests import ConfigResource, ConfigResourceType
from kpybroker.client.connection import BrokerConnection, Unreachable
from kpybroker.machines.errors import KafkaError
from kpywire.messages.describe_cluster import DescribeClusterRequest
from kpywire.messages.describe_configs import DescribeConfigsResourceResult
from kpywire.messages.metadata import MetadataResponseBroker

HTTP_PORTS: Final = range(9404, 9414)
"""The ports where a kpybroker serves HTTP if none is configured: the first free one."""
HTTP_CONFIG: Final = "kpybroker.http.listener"
CONNECT_TIMEOUT_S: Final = 3.0
LOOK_TIMEOUT_S: Final = 0.5
"""The timeout for each of the default ports."""
STATIC: Final = 4
DYNAMIC: Final = (2, 3)
EVERYWHERE: Final = ("", "0.0.0.0", "::", "[::]")
BROKER_INFO: Final = "kafka_broker_info"
OUR_PREFIX: Final = "kpybroker_"
MOST_AT_ONCE: Final = 32
"""The number of brokers that are asked at the same time."""

T = TypeVar("T")


class BrokerAnswer(Generic[T]):
    """The answer to a question that another thread asks."""

    def __init__(self, ask: Callable[[], T]) -> None:
        self._ask = ask
        self._is_here = threading.Event()
        self._found: list[T] = []
        self._error: Exception | None = None

    def settle(self) -> None:
        """Ask, and keep the answer or the error."""
        try:
            self._found.append(self._ask())
        except Exception as error:
            self._error = error
        self._is_here.set()

    @property
    def value(self) -> T:
        """The answer, as soon as it is here. Raises the error."""
        self._is_here.wait()
        if self._error is not None:
            raise self._error
        return self._found[0]


class BrokerLook:
    """The answers of one broker. ``http`` is the page that the user named, ``instead`` an address to reach the broker
    by if the one that it advertises cannot be reached."""

    def __init__(
        self,
        node: MetadataResponseBroker,
        client: Client,
        way: Way,
        http: str | None = None,
        instead: tuple[str, int] | None = None,
    ) -> None:
        self.node_id: int = node.node_id
        self.host: str = node.host
        self.port: int = node.port
        self._client = client
        self._way = way
        self._http = http
        self._instead = instead
        self._connection: BrokerConnection | None = None
        self._problem: Exception | None = None
        self.probed = BrokerAnswer(self._probe)
        self.configs = BrokerAnswer(self._describe_configs)
        self.directories = BrokerAnswer(self._describe_directories)
        self.named_page = BrokerAnswer(self._read_named_page)
        """The metrics page at the address that is named; None if there is none. PageRefused if it is not shown."""
        self.page = BrokerAnswer(self._read_page)
        """This page, or one on the usual ports; None if neither is there."""

    @property
    def set_configs(self) -> dict[str, str | None]:
        """The configs that were set for the broker, without its defaults. Raises KafkaError, Unreachable."""
        return {each.name: each.value for each in self.configs.value if each.config_source in (STATIC, *DYNAMIC)}

    @property
    def page_address(self) -> str | None:
        """The place of the page, as the user or the broker's config names it. Raises KafkaError, Unreachable."""
        return self._http or self.set_configs.get(HTTP_CONFIG)

    @property
    def is_ours(self) -> bool:
        """Whether it is a kpybroker."""
        try:
            if self.set_configs.get(HTTP_CONFIG) is not None:
                return True
        except (KafkaError, Unreachable):
            pass
        page = self.page.value
        return page is not None and any(page.named_from(OUR_PREFIX))

    def run(self) -> None:
        """Ask everything. The page comes early, since it is read again later."""
        try:
            for each in (self.probed, self.configs, self.named_page, self.page, self.directories):
                each.settle()
        finally:
            if self._connection is not None:
                self._connection.close()

    def _probe(self) -> ProbedAddress:
        """Resolve and connect to the advertised address."""
        problem = self._connect()
        if problem:
            return ProbedAddress(self.node_id, self.host, self.port, problem, None)
        try:
            answer = self._reached.call(DescribeClusterRequest(include_cluster_authorized_operations=False))
        except (KafkaError, Unreachable):
            return ProbedAddress(self.node_id, self.host, self.port, "", None)
        return ProbedAddress(self.node_id, self.host, self.port, "", answer.cluster_id)

    def _connect(self) -> str:
        """Connect. Return why the advertised address cannot be reached."""
        problem = ""
        try:
            socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        except OSError as error:
            problem = f"the name {self.host} is not known here ({error.strerror})"
        try:
            self._connection = self._connected(self.host, self.port)
        except (KafkaError, Unreachable) as error:
            problem, self._problem = problem or str(error), error
            if self._instead is not None:
                try:
                    self._connection = self._connected(*self._instead)
                except (KafkaError, Unreachable) as further:
                    self._problem = further
        return problem

    def _connected(self, host: str, port: int) -> BrokerConnection:
        settings = self._client.settings
        return BrokerConnection(
            host, port, CONNECT_TIMEOUT_S, client_id=settings.client_id, protection=settings.protection
        )

    @property
    def _reached(self) -> BrokerConnection:
        """The connection. Raises KafkaError or Unreachable if there is none."""
        if self._connection is None:
            raise self._problem or Unreachable(f"no broker answers at {self.host}:{self.port}")
        return self._connection

    def _describe_configs(self) -> list[DescribeConfigsResourceResult]:
        resource = ConfigResource(ConfigResourceType.BROKER, str(self.node_id))
        return config_requests.described_by(self._call, resource)

    def _describe_directories(self) -> list[LogDirDescription]:
        return described_directories(self._call, self.node_id)

    def _call(self, request: Any) -> Any:
        return self._reached.call(request, timeout_s=self._client.timeout_s)

    def _read_named_page(self) -> scrape.MetricsPage | None:
        if self._http:
            return page_at(self.host, self._http, self._way)
        configured = self.set_configs.get(HTTP_CONFIG)
        return page_at(self.host, configured, way_to_configured(self.host, configured, self._way))

    def _read_page(self) -> scrape.MetricsPage | None:
        try:
            page = self.named_page.value
        except (KafkaError, Unreachable, scrape.PageRefused):
            page = None
        return page or found_page(self.host, self.port, self._way)


def begin(looks: Sequence[BrokerLook]) -> None:
    """Ask brokers, some at a time, in threads that do not keep the process from ending."""
    waiting = iter(looks)
    for _ in range(min(len(looks), MOST_AT_ONCE)):
        threading.Thread(target=_work, args=(waiting,), daemon=True).start()


def _work(waiting: Iterator[BrokerLook]) -> None:
    for look in waiting:
        look.run()


def all_at_once(asks: Iterable[Callable[[], T]]) -> list[T]:
    """The results of functions that wait for others, each called in a thread. Raises the first error."""
    answers = [BrokerAnswer(ask) for ask in asks]
    for each in answers:
        threading.Thread(target=each.settle, daemon=True).start()
    return [each.value for each in answers]


def way_to_configured(broker_host: str, configured: str | None, way: Way) -> Way:
    """The way to a page whose address is a broker's config. The login is for the broker's host alone: setting
    a config must not be a way to a password."""
    host = (configured or "").rpartition(":")[0].removeprefix("[").removesuffix("]")
    is_here = host == broker_host or (scrape.is_this_machine(host) and scrape.is_this_machine(broker_host))
    return way if host in EVERYWHERE or is_here else way._replace(login=None)


def page_at(broker_host: str, address: str | None, way: Way) -> scrape.MetricsPage | None:
    """The page at an address that the user or the broker's config names. Raises `scrape.PageRefused`."""
    host, _, port = (address or "").rpartition(":")
    if not port.isdecimal():
        return None
    host = broker_host if host in EVERYWHERE else host.removeprefix("[").removesuffix("]")
    return scrape.fetch(host, int(port), CONNECT_TIMEOUT_S, way)


def found_page(host: str, port: int, way: Way) -> scrape.MetricsPage | None:
    """The page of this broker on one of the usual ports. A page of another broker would describe another cluster, and
    nobody knows who listens there: no login is sent."""
    for number in HTTP_PORTS:
        try:
            page = scrape.fetch(host, number, LOOK_TIMEOUT_S, way._replace(login=None))
        except scrape.PageRefused:
            continue
        if page is None:
            continue
        if any(each.labels.get("address") == f"{host}:{port}" for each in page.named(BROKER_INFO)):
            return page
    return None
