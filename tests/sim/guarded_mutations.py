"""Bugs to plant in the authorizer, in client quotas and in their ways through the metadata."""

from .kind import GUARDED
from .mutation import Mutation

AUTHORIZER = "kpybroker/machines/authorization/authorizer.py"
SECURITY = "kpybroker/node/assembly/security.py"
FOLLOWED = "kpybroker/node/assembly/quotas.py"
CHANNEL = "kpybroker/hosts/quorum/channel.py"
ENVELOPE = "kpybroker/requests/handlers/envelope.py"
REPLACEMENT = "kpybroker/machines/metadata/replacement.py"
IMAGE_RECORDS = "kpybroker/machines/metadata/image_records.py"
MUTES = "kpybroker/requests/server/mutes.py"
CONNECTION = "kpybroker/requests/server/connection.py"
THROTTLING = "kpybroker/requests/dispatching/throttling.py"
THROTTLE = "kpybroker/machines/quotas/throttle.py"
CLIENT_QUOTAS = "kpybroker/machines/quotas/client_quotas.py"


def _guarded(name: str, path: str, old: str, new: str, nodes: int = 3) -> Mutation:
    return Mutation(name, path, old, new, nodes, world=GUARDED)


GUARDED_MUTATIONS = [
    # The authorizer
    _guarded(
        "decisions are remembered although ACLs have changed",
        AUTHORIZER,
        "                self._index(after).add(acl_id, after)\n        self._forget()\n",
        "                self._index(after).add(acl_id, after)\n",
    ),
    _guarded(
        "an ACL that is deleted is decided by",
        AUTHORIZER,
        "                self._index(before).remove(acl_id, before)\n",
        "                self._index(before)\n",
    ),
    _guarded(
        "a DENY of all operations denies none",
        AUTHORIZER,
        "denying, allowing = (operation, AclOperation.ALL), ",
        "denying, allowing = (operation,), ",
    ),
    _guarded(
        "decisions are remembered for all addresses of a user",
        AUTHORIZER,
        "        asker = (principal, host, operation, kind)\n        known = ",
        '        asker = (principal, "", operation, kind)\n        known = ',
    ),
    # The ways of ACLs, quotas and users through the metadata
    _guarded(
        "of several ACLs that change at once one is heard of",
        SECURITY,
        "[each for each in acls if isinstance(each, bytes)])",
        "[each for each in acls if isinstance(each, bytes)][:1])",
    ),
    _guarded(
        "ACLs of a snapshot are not heard of",
        REPLACEMENT,
        'KEPT = ("acls", "client_quotas", ',
        'KEPT = ("client_quotas", ',
    ),
    _guarded("a snapshot has no ACLs", IMAGE_RECORDS, "    yield from image.acls.values()\n", ""),
    _guarded(
        "a snapshot has one quota of each entity",
        IMAGE_RECORDS,
        "        for key, limit in quotas.items():\n            yield ClientQuotaRecord",
        "        for key, limit in list(quotas.items())[:1]:\n            yield ClientQuotaRecord",
    ),
    _guarded(
        "a snapshot has no users",
        IMAGE_RECORDS,
        "        yield from image.scram_credentials.values()\n",
        "        yield from ()\n",
    ),
    # The way of a request to the controller
    _guarded(
        "a request in an envelope is authorised for the broker that sent it",
        ENVELOPE,
        "inner.principal, inner.host = principal, str(",
        "inner.principal, inner.host = call.principal, str(",
    ),
    _guarded(
        "a request in an envelope is authorised at the address of the broker",
        ENVELOPE,
        "inner.host = principal, str(ip_address(request.client_host_address))",
        "inner.host = principal, call.host",
    ),
    _guarded(
        "a controller of the same process asks nobody",
        CHANNEL,
        "        if self._forwarding.admit is None:\n",
        "        if self._forwarding.admit is not None:\n",
    ),
    _guarded(
        "requests that go to another node are not in envelopes",
        CHANNEL,
        "call.sender is not None and self._forwarding.in_envelopes",
        "call.sender is None and self._forwarding.in_envelopes",
    ),
    # What guards make of a denial
    _guarded(
        "the records of a topic that may not be written are appended",
        "kpybroker/requests/guards/records.py",
        "for topic in topics if topic[0] not in denied]",
        "for topic in topics]",
        nodes=1,
    ),
    # Client quotas
    _guarded(
        "a quota that was found once is found for ever",
        CLIENT_QUOTAS,
        "        self._found.clear()\n        self._levels.clear()\n",
        "        self._levels.clear()\n",
        nodes=1,
    ),
    _guarded(
        "quotas that are taken back stay",
        FOLLOWED,
        "self.throttling.changed(list(entities), ",
        "self.throttling.changed([each for each in entities if each in image.client_quotas], ",
        nodes=1,
    ),
    _guarded(
        "a client that is above its quota is not muted",
        THROTTLING,
        "        if throttle_ms > 0:\n            call.peer.mute(throttle_ms)\n",
        "        if throttle_ms < 0:\n            call.peer.mute(throttle_ms)\n",
        nodes=1,
    ),
    _guarded(
        "a mute that is over is not noticed",
        CONNECTION,
        "        self._mute = None\n        self._on_resolved(reply)\n",
        "        self._mute = None\n",
        nodes=1,
    ),
    _guarded(
        "only the first mute has a timer",
        MUTES,
        "                mute.resolve(None)\n        self._watch()\n",
        "                mute.resolve(None)\n",
        nodes=1,
    ),
    _guarded(
        "a burst that is too large is free",
        THROTTLE,
        "        if per_second <= limit:\n            return 0\n",
        "        if per_second <= 4 * limit:\n            return 0\n",
        nodes=1,
    ),
    _guarded(
        "a throttle is answered in seconds",
        THROTTLE,
        "(per_second - limit) / limit * rate.elapsed_ms(now_ms))",
        "(per_second - limit) / limit * rate.elapsed_ms(now_ms) / 1000)",
        nodes=1,
    ),
]
