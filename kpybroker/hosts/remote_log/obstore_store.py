"""Stores over a network: S3 and servers that speak its protocol, Google Cloud Storage, Azure, by the library obstore.

It is loaded when a store is opened. Its requests run in threads of its own, outside Python, and it repeats those that
fail for a while. Credentials that are not configured come from the usual chain: environment, web identity, the
metadata service of the machine.

Invariant: a text of the library reaches a message only without its queries, which may be signed.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from configparser import ConfigParser
from configparser import Error as NotReadable
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from kpybroker.config.remote_storage import AzurePlace, GcsPlace, S3Place
from kpybroker.hosts.remote_log.object_store import StoredObject
from kpybroker.hosts.remote_log.remote_storage import ObjectMissing, StoreAway, StoreFailed, StoreRefuses
from kpywire.varint import Buffer

if TYPE_CHECKING:
    from obstore.store import ObjectStore as Library

NEEDS: Final = "{} needs the library obstore: pip install 'kpybroker[remote]'"
_PARTS_IN_FLIGHT: Final = 2
_LISTED_AT_ONCE: Final = 1000
_ATTEMPT_MS: Final = 30_000
_CALL_MS: Final = 60_000
_MOST_RETRIES: Final = 5
_CREDENTIALS_FOR: Final = timedelta(minutes=1)
_SHOWN_CHARACTERS: Final = 300
_QUERY: Final = re.compile(r"\?[^\s\"')]*")
_DETAILS: Final = " Debug source:"
_REFUSED: Final = re.compile(r"status code: 4(?!08|29)\d\d")
"""A status that does not become another by trying again."""
_PASSES: Final = re.compile(r"ExpiredToken|RequestExpired|TokenRefreshRequired|RequestTimeTooSkewed")
"""Codes of S3 that pass without a change of a setting: credentials are renewed, and a clock is set after a boot."""
_NO_BUCKET: Final = ("NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist")


class ObstoreStore:
    """A bucket. At most ``_PARTS_IN_FLIGHT`` parts of an upload, and the one that is filled, are in memory."""

    def __init__(
        self, library: "Library", name: str, part_bytes: int, attributes: dict[str, str] | None = None
    ) -> None:
        self.name = name
        self._library = library
        self._part_bytes = part_bytes
        self._attributes = attributes

    def put(self, key: str, parts: Iterable[Buffer]) -> None:
        import obstore

        upload = _Upload(parts, self._part_bytes)
        with self._failing("write", key):
            try:
                first = next(upload, b"")
                if len(first) < self._part_bytes:  # of one part: a single request
                    obstore.put(self._library, key, first, attributes=self._attributes, use_multipart=False)
                    return
                upload.give_back(first)
                size, at_once = self._part_bytes, _PARTS_IN_FLIGHT
                obstore.put(
                    self._library,
                    key,
                    upload,
                    attributes=self._attributes,
                    use_multipart=True,
                    chunk_size=size,
                    max_concurrency=at_once,
                )
            except Exception:
                upload.raise_own()
                raise
            upload.raise_own()

    def get(self, key: str, most_bytes: int) -> Buffer:
        import obstore

        with self._failing("read", key):
            found = obstore.get(self._library, key)
            if found.meta["size"] > most_bytes:
                raise StoreRefuses(f"{self.name}: {key} has {found.meta['size']} bytes, more than {most_bytes}")
            return memoryview(found.bytes())

    def get_range(self, key: str, start: int, end: int) -> Buffer:
        import obstore
        from obstore.exceptions import BaseError

        with self._failing("read", key):
            try:
                return memoryview(obstore.get_range(self._library, key, start=start, end=end))
            except (BaseError, ValueError):
                if not self._ends_before(key, start):
                    raise
                return b""  # a store refuses a range behind the end

    def _ends_before(self, key: str, start: int) -> bool:
        import obstore
        from obstore.exceptions import BaseError

        with suppress(BaseError, ValueError):
            return obstore.head(self._library, key)["size"] <= start
        return False

    def size(self, key: str) -> int:
        import obstore
        from obstore.exceptions import BaseError

        with self._failing("read", key):
            try:
                return obstore.head(self._library, key)["size"]
            except FileNotFoundError:
                raise
            except BaseError:  # the answer to a HEAD has no code, and that to a GET has one
                return obstore.get(self._library, key).meta["size"]

    def listed(self, prefix: str) -> Iterator[StoredObject]:
        import obstore

        folder = prefix.rpartition("/")[0]
        with self._failing("list", prefix):
            pages = iter(obstore.list(self._library, folder or None, chunk_size=_LISTED_AT_ONCE))
        while True:
            with self._failing("list", prefix):
                page = next(pages, None)
            if page is None:
                return
            for each in page:
                if each["path"].startswith(prefix):
                    yield StoredObject(each["path"], each["size"])

    def delete(self, keys: list[str]) -> None:
        try:
            self._delete(keys)
        except ObjectMissing:
            for key in keys:
                try:
                    self._delete([key])
                except ObjectMissing:
                    continue

    def close(self) -> None:
        """The library ends its connections when nothing holds the store."""

    def _delete(self, keys: list[str]) -> None:
        import obstore

        with self._failing("delete", keys[0] if keys else ""):
            obstore.delete(self._library, keys)

    @contextmanager
    def _failing(self, action: str, key: str) -> Iterator[None]:
        """Turn errors of the library into those of a store; others pass."""
        from obstore.exceptions import BaseError

        try:
            yield
        except (BaseError, OSError, ValueError) as error:
            raise failure(f"{self.name}: cannot {action} {key}", error) from None


class _Upload:
    """The parts of an upload, put together to ``part_bytes`` each. Keeps an exception that their source raised, since
    the library shows only its text."""

    def __init__(self, parts: Iterable[Buffer], part_bytes: int) -> None:
        self._parts = iter(parts)
        self._part_bytes = part_bytes
        self._given_back: Buffer | None = None
        self._own: BaseException | None = None

    def __iter__(self) -> "_Upload":
        return self

    def __next__(self) -> Buffer:
        if self._given_back is not None:
            part, self._given_back = self._given_back, None
            return part
        held: list[Buffer] = []
        size = 0
        try:
            while size < self._part_bytes:
                part = next(self._parts, b"")
                if not part:
                    break
                held.append(part)
                size += len(part)
        except BaseException as error:
            self._own = error
            raise
        if not held:
            raise StopIteration
        return held[0] if len(held) == 1 else b"".join(held)

    def give_back(self, part: Buffer) -> None:
        self._given_back = part

    def raise_own(self) -> None:
        """Raise the exception of the source, if there was one."""
        if self._own is not None:
            raise self._own


def failure(what: str, error: Exception) -> StoreFailed:
    """The error of a store for one of the library."""
    from obstore.exceptions import BaseError, GenericError

    text = str(error)
    line = _QUERY.sub("?...", " ".join(text.split()).partition(_DETAILS)[0])[:_SHOWN_CHARACTERS]
    if any(each in text for each in _NO_BUCKET):
        return StoreRefuses(f"{what}: the bucket does not exist")
    if isinstance(error, FileNotFoundError):
        return ObjectMissing(f"{what}: it does not exist")
    why = f"{what}: {line}"
    is_of_network = isinstance(error, GenericError) or not isinstance(error, BaseError | ValueError)
    may_succeed = (is_of_network and not _REFUSED.search(text)) or _PASSES.search(text)
    return StoreAway(why) if may_succeed else StoreRefuses(why)


def open_s3(place: S3Place) -> ObstoreStore:
    """A bucket of S3. Raises StoreRefuses."""
    name = f"s3://{place.bucket}"
    store = _module(name).S3Store
    config: dict[str, Any] = {"region": place.region, "endpoint": place.endpoint or None}
    if place.access_key_id is not None and place.secret_access_key is not None:
        config["access_key_id"] = place.access_key_id.value
        config["secret_access_key"] = place.secret_access_key.value
        config["session_token"] = None if place.session_token is None else place.session_token.value
    if place.is_path_style is not None or place.endpoint:
        config["virtual_hosted_style_request"] = place.is_path_style is False
    provider = None if place.credentials_file is None else CredentialsFile(place.credentials_file)
    attributes = None if place.storage_class == "STANDARD" else {"Storage-Class": place.storage_class}
    options = _client_options(place.endpoint, place.attempt_timeout_ms, checks_certificates=place.checks_certificates)
    library = _opened(
        name,
        lambda: store(
            place.bucket,
            config=_given(config),
            client_options=options,
            retry_config=_retries(place.timeout_ms),
            credential_provider=provider,
        ),
    )
    return ObstoreStore(library, name, place.part_bytes, attributes)


def open_gcs(place: GcsPlace) -> ObstoreStore:
    """A bucket of Google Cloud Storage. Raises StoreRefuses."""
    name = f"gs://{place.bucket}"
    store = _module(name).GCSStore
    key = place.credentials_json
    config = {
        "service_account_key": None if key is None else key.value,
        "application_credentials": place.credentials_file,
        "base_url": place.endpoint or None,
    }
    options = _client_options(place.endpoint, None)
    retries = _retries(None)
    library = _opened(
        name, lambda: store(place.bucket, config=_given(config), client_options=options, retry_config=retries)
    )
    return ObstoreStore(library, name, place.part_bytes)


def open_azure(place: AzurePlace) -> ObstoreStore:
    """A container of Azure Blob Storage. Raises StoreRefuses."""
    name = f"az://{place.container}"
    store = _module(name).AzureStore
    config = {
        "account_name": place.account,
        "account_key": None if place.account_key is None else place.account_key.value,
        "sas_key": None if place.sas_token is None else place.sas_token.value,
        "endpoint": place.endpoint or None,
    }
    options = _client_options(place.endpoint, None)
    retries = _retries(None)
    library = _opened(
        name, lambda: store(place.container, config=_given(config), client_options=options, retry_config=retries)
    )
    return ObstoreStore(library, name, place.part_bytes)


class CredentialsFile:
    """The credentials of S3 in the section ``default`` of a file in the form of ``~/.aws/credentials``, which is read
    again every minute."""

    def __init__(self, path: str) -> None:
        """Raises StoreRefuses if the file has none."""
        self._path = path
        self()

    def __call__(self) -> dict[str, Any]:
        parser = ConfigParser(interpolation=None)
        try:
            with open(os.path.expanduser(self._path), encoding="utf-8") as file:
                parser.read_file(file)
            section = parser["default"]
            return {
                "access_key_id": section["aws_access_key_id"],
                "secret_access_key": section["aws_secret_access_key"],
                "token": section.get("aws_session_token"),
                "expires_at": datetime.now(UTC) + _CREDENTIALS_FOR,
            }
        except (OSError, UnicodeDecodeError, NotReadable, KeyError) as error:
            why = error.strerror if isinstance(error, OSError) else "no aws_access_key_id and aws_secret_access_key"
            raise StoreRefuses(f"{self._path}: {why} in its section default") from None


def _module(name: str) -> Any:
    try:
        from obstore import store
    except ModuleNotFoundError:
        raise StoreRefuses(NEEDS.format(name)) from None
    return store


def _opened(name: str, opened: Callable[[], "Library"]) -> "Library":
    from obstore.exceptions import BaseError

    try:
        return opened()
    except (BaseError, OSError, ValueError, TypeError) as error:
        raise StoreRefuses(str(failure(f"{name} cannot be used", Exception(str(error))))) from None


def _given(config: dict[str, Any]) -> Any:
    return {name: value for name, value in config.items() if value is not None}


def _client_options(endpoint: str, attempt_ms: int | None, *, checks_certificates: bool = True) -> Any:
    options: dict[str, Any] = {"timeout": timedelta(milliseconds=attempt_ms or _ATTEMPT_MS)}
    if endpoint.startswith("http://"):
        options["allow_http"] = True
    if not checks_certificates:
        options["allow_invalid_certificates"] = True
    return options


def _retries(call_ms: int | None) -> Any:
    return {"max_retries": _MOST_RETRIES, "retry_timeout": timedelta(milliseconds=call_ms or _CALL_MS)}
