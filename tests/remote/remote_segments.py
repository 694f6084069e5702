"""Segments as objects, for tests: stored in one piece of bytes, and read by ranges of it."""

from functools import cache
from random import Random

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from kpystorage.remote.chunks import ChunkIndex
from kpystorage.remote.encryption import RandomBytes, SegmentKey
from kpystorage.remote.key_ring import KeyPair
from kpystorage.remote.segment_name import RemoteSegmentName
from kpystorage.remote.transforms import ChunkWriter, Transform

NAME = RemoteSegmentName("topic1", bytes(range(16)), 7, 1234, bytes(range(16, 32)))
KINDS = [(compressed, encrypted) for compressed in (False, True) for encrypted in (False, True)]


def random_bytes(seed: object = 1) -> RandomBytes:
    return Random(str(seed)).randbytes


def transform(*, compressed: bool, encrypted: bool) -> Transform:
    return Transform(compressed, SegmentKey.new(random_bytes()) if encrypted else None)


def contents(size: int, seed: int) -> bytes:
    """Bytes of which some can be compressed."""
    rng = Random(seed)
    parts = b""
    while len(parts) < size:
        parts += rng.randbytes(rng.randrange(40)) if rng.random() < 0.5 else bytes((rng.randrange(256),)) * 50
    return parts[:size]


def stored(segment: bytes, chunk_bytes: int, how: Transform) -> tuple[bytes, ChunkIndex]:
    """The ``.log`` object of a segment, and its chunks."""
    writer = ChunkWriter(len(segment), chunk_bytes, how)
    parts = [bytes(writer.add(segment[start : start + chunk_bytes])) for start in range(0, len(segment), chunk_bytes)]
    return b"".join(parts), writer.index()


def read(log: bytes, chunks: ChunkIndex, how: Transform, start: int, end: int) -> bytes:
    """A range of the segment: one range of the object is read, and its chunks restored."""
    numbers = chunks.numbers(start, end)
    first, last = chunks.stored_range(numbers)
    fetched = log[first:last]
    found = []
    for chunk, piece_start, piece_end in chunks.pieces(start, end):
        at = chunk.stored_start - first
        restored = how.restore(chunk, fetched[at : at + chunk.stored_size])
        found.append(bytes(restored[piece_start:piece_end]))
    return b"".join(found)


@cache
def key_pair(number: int = 1, bits: int = 2048) -> KeyPair:
    """An RSA key in two PEM files, made once."""
    del number
    return in_files(rsa.generate_private_key(65537, bits))


@cache
def same_key_pair() -> KeyPair:
    """An RSA key that is the same in every run, so that what others encrypted under it can be kept."""
    rng = Random("the key of all runs")
    p, q = ((rng.getrandbits(1024) | 3 << 1022 | 1) + to_the_next_prime for to_the_next_prime in (556, 618))
    d = pow(65537, -1, (p - 1) * (q - 1))
    by_primes = rsa.rsa_crt_dmp1(d, p), rsa.rsa_crt_dmq1(d, q), rsa.rsa_crt_iqmp(p, q)
    return in_files(rsa.RSAPrivateNumbers(p, q, d, *by_primes, rsa.RSAPublicNumbers(65537, p * q)).private_key())


def in_files(private: rsa.RSAPrivateKey) -> KeyPair:
    public_form = serialization.PublicFormat.SubjectPublicKeyInfo
    private_form = serialization.PrivateFormat.PKCS8
    pem, unlocked = serialization.Encoding.PEM, serialization.NoEncryption()
    return KeyPair(
        private.public_key().public_bytes(pem, public_form), private.private_bytes(pem, private_form, unlocked)
    )
