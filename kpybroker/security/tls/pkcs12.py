"""PKCS12 stores, read by the library ``cryptography``, which is loaded only here."""

from kpybroker.security.tls.pem import KeyEntry
from kpybroker.security.tls.settings import TlsError


def read_pkcs12(name: str, data: bytes, password: str | None) -> tuple[tuple[KeyEntry, ...], tuple[bytes, ...]]:
    """The key of a store, if it has one, and its other certificates. Raises TlsError."""
    try:
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12
    except ImportError:
        raise TlsError(
            f'{name} is a PKCS12 store, which needs the library cryptography: pip install "kpybroker[security]"'
        ) from None
    try:
        store = pkcs12.load_pkcs12(data, None if password is None else password.encode())
    except Exception as error:
        # The library raises ValueError for most mistakes, and others for algorithms that it does not have.
        why = "its password is wrong" if "password" in str(error).lower() else "it is damaged, or too unusual"
        raise TlsError(f"{name} cannot be read as PKCS12: {why}") from None
    others = tuple(each.certificate.public_bytes(Encoding.DER) for each in store.additional_certs)
    if store.key is None:
        own = () if store.cert is None else (store.cert.certificate.public_bytes(Encoding.DER),)
        return (), own + others
    if store.cert is None:
        raise TlsError(f"{name} has a private key without a certificate")
    own_certificate = store.cert.certificate
    chain = [own_certificate]
    left = [each.certificate for each in store.additional_certs]
    # The order of the certificates in a store means nothing; that of a chain is from its own to the root.
    while chain[-1].issuer != chain[-1].subject:
        issuer = next((each for each in left if each.subject == chain[-1].issuer), None)
        if issuer is None:
            break
        left.remove(issuer)
        chain.append(issuer)
    key = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    entry = KeyEntry(key, None, tuple(each.public_bytes(Encoding.DER) for each in chain))
    return (entry,), others
