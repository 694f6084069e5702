"""The checks of OAUTHBEARER tokens on the listeners of one node.

Those of signed tokens need joserfc, which is imported only for them.
"""

from typing import TYPE_CHECKING

from kpybroker.config.oauth import KeySource, TokenRules
from kpybroker.hosts.quorum.recovery import StartRefused
from kpybroker.machines.sasl import unsecured_tokens
from kpybroker.machines.sasl.oauthbearer import Validate, ValidToken
from kpybroker.runtime.io.scheduler import Scheduler

if TYPE_CHECKING:
    from kpybroker.node.assembly.provider_keys import ProviderKeys


class TokenChecks:
    """The checks of tokens of one node. Listeners with the same rules share their keys."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._keys: dict[KeySource, ProviderKeys] = {}
        self._is_closed = False

    def load(self, sources: set[KeySource]) -> None:
        """Fetch the keys at all these places. Blocks. Raises StartRefused."""
        for source in sources:
            found = self._new_provider(source)
            found.load()
            self._keys[source] = found

    def start(self) -> None:
        """Begin to fetch them now and then."""
        for each in self._keys.values():
            each.start()

    def close(self) -> None:
        """Fetch no more."""
        self._is_closed = True
        for each in self._keys.values():
            each.close()

    def of(self, rules: TokenRules) -> Validate:
        """The check by these rules."""
        scheduler = self._scheduler
        if rules.unsecured is not None:
            unsecured = rules.unsecured
            return lambda text: unsecured_tokens.validate(text, unsecured, scheduler.now_ms())
        from kpybroker.security.oauth import signed_tokens

        assert rules.keys is not None
        provider = self._provider(rules.keys)

        def validate(text: str) -> ValidToken:
            return signed_tokens.validate(text, provider.keys, rules.claims, scheduler.now_ms(), provider.missing)

        return validate

    def _provider(self, source: KeySource) -> "ProviderKeys":
        found = self._keys.get(source)
        if found is None:  # its TLS was changed while this node runs
            found = self._keys[source] = self._new_provider(source)
            if not self._is_closed:
                found.refresh()
                found.start()
        return found

    def _new_provider(self, source: KeySource) -> "ProviderKeys":
        try:
            from kpybroker.node.assembly.provider_keys import ProviderKeys
        except ImportError as error:
            raise StartRefused(
                f"OAUTHBEARER with signed tokens needs the package {error.name}: pip install 'kpybroker[security]'"
            ) from None
        return ProviderKeys(source, self._scheduler)
