"""Users, quotas and tokens that a test has set on one program, and checks on the one that has the directory next."""

from base64 import b64encode

from kpybroker.cli.connection_settings import ConnectionSettings
from kpybroker.client import quota_requests, token_requests, user_requests
from kpybroker.client.client import Client, ClientSettings
from kpybroker.client.connection import Unreachable
from kpybroker.client.protection import ConnectionProtection
from kpybroker.client.security import security_of
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.sasl.jaas import PLAIN_MODULE, SCRAM_MODULE
from kpybroker.machines.sasl.scram import SCRAM_SHA_256, SCRAM_SHA_512
from oracle import BrokerProcess
from oracle.process import HOST
from support.waiting import becomes, eventually

MECHANISMS = {each.name: each for each in (SCRAM_SHA_256, SCRAM_SHA_512)}
PREFIX = "listener.name.secured."
PROPERTIES = {
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    f"{PREFIX}plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_root="root";',
    **{f"{PREFIX}{name.lower()}.sasl.jaas.config": f"{SCRAM_MODULE} required;" for name in MECHANISMS},
    "delegation.token.secret.key": "a secret of both programs",
}
"""The configs of a node whose listener SECURED takes all of them for a login."""


class Moved:
    """The users, quotas and tokens that were set so far, on either program."""

    def __init__(self, port: int) -> None:
        self.address = f"{HOST}:{port}"
        self.users: dict[tuple[str, str], str] = {}
        """The passwords, by user and mechanism."""
        self.quotas: dict[str, dict[str, float]] = {}
        self.tokens: list[token_requests.DelegationToken] = []

    def as_user(self, mechanism: str, user: str, password: str, *, by_token: bool = False) -> Client:
        settings = ConnectionSettings(self.address, "SASL_PLAINTEXT", mechanism, user, password, by_token=by_token)
        properties = {key: value for key, value in settings.java().items() if key != "bootstrap.servers"}
        return Client(self.address, settings=ClientSettings(protection=ConnectionProtection(security_of(properties))))

    def logs_in(self, mechanism: str, user: str, password: str, *, by_token: bool = False) -> bool:
        try:
            with self.as_user(mechanism, user, password, by_token=by_token) as client:
                client.topics()
        except (Unreachable, KafkaError):
            return False
        return True

    def check(self, node: BrokerProcess) -> None:
        """Everything that was set holds on this node, and nothing else."""
        with Client(node.bootstrap_servers) as client:
            becomes(
                lambda: {(each.user, each.mechanism) for each in user_requests.credentials(client)}, set(self.users)
            )
            becomes(
                lambda: {each.names["user"]: dict(each.values) for each in quota_requests.find(client, {})}, self.quotas
            )
        for (user, mechanism), password in self.users.items():
            eventually(lambda m=mechanism, u=user, p=password: self.logs_in(m, u, p), f"a login of {user}")  # type: ignore[misc]
            assert not self.logs_in(mechanism, user, password + "!")
        with self.as_user("PLAIN", "root", "root") as root:
            ids = {each.token_id for each in self.tokens}
            becomes(lambda: {each.token_id for each in token_requests.tokens(root)}, ids)
        for token in self.tokens:
            for mechanism in MECHANISMS:
                assert self.logs_in(mechanism, token.token_id, base64_of(token.hmac), by_token=True)

    def change(self, node: BrokerProcess, turn: str) -> None:
        """Add something of each kind, and change or remove what there was before."""
        with Client(node.bootstrap_servers) as client:
            for user, mechanism in list(self.users)[:1]:
                user_requests.remove(client, user, MECHANISMS[mechanism])
                del self.users[user, mechanism]
            for user, mechanism in [*self.users, (turn, "SCRAM-SHA-256"), (turn, "SCRAM-SHA-512")]:
                self.users[user, mechanism] = f"{user}, set by {turn}"
                user_requests.set_password(client, user, self.users[user, mechanism], MECHANISMS[mechanism], 4096)
            for user in list(self.quotas):
                quota_requests.alter(client, {"user": user}, {"request_percentage": 12.5}, ["consumer_byte_rate"])
                self.quotas[user].pop("consumer_byte_rate", None)
                self.quotas[user]["request_percentage"] = 12.5
            self.quotas[turn] = {"producer_byte_rate": 1e6, "consumer_byte_rate": 2e6}
            quota_requests.alter(client, {"user": turn}, self.quotas[turn], [])
        with self.as_user("PLAIN", "root", "root") as root:
            for token in self.tokens[:1]:
                token_requests.expire(root, token.hmac, None)
                self.tokens.remove(token)
            self.tokens += [token_requests.create(root, None, [], None) for _ in range(2)]


def base64_of(data: bytes) -> str:
    return b64encode(data).decode()
