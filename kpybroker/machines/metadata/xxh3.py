"""XXH3 with 64 bits and seed 0, the hash by which consumer groups see that their topics changed (KIP-848).

(Kafka: ``Utils.computeTopicHash``, by hash4j.) The algorithm is that of the xxHash specification.
"""

from struct import unpack_from

_SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
_MASK = 0xFFFF_FFFF_FFFF_FFFF
_LOW = 0xFFFF_FFFF
_PRIME32 = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D)
_PRIME64 = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
_MIX1, _MIX2 = 0x165667919E3779F9, 0x9FB21C651E98DF25
_STRIPE_BYTES = 64
_LANES = 8
_SHORT, _MIDDLE = 16, 240


def xxh3_64(data: bytes) -> int:
    """The hash of these bytes, as an unsigned number."""
    length = len(data)
    if length <= _SHORT:
        return _hash_short(data, length)
    return _hash_middle(data, length) if length <= _MIDDLE else _hash_long(data, length)


def _hash_short(data: bytes, length: int) -> int:
    if length > 8:
        low = _u64(data, 0) ^ _u64(_SECRET, 24) ^ _u64(_SECRET, 32)
        high = _u64(data, length - 8) ^ _u64(_SECRET, 40) ^ _u64(_SECRET, 48)
        swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
        return _avalanche(length + swapped + high + _fold(low, high) & _MASK)
    if length >= 4:
        joined = _u32(data, length - 4) + (_u32(data, 0) << 32)
        keyed = joined ^ _u64(_SECRET, 8) ^ _u64(_SECRET, 16)
        keyed ^= _rotated(keyed, 49) ^ _rotated(keyed, 24)
        keyed = keyed * _MIX2 & _MASK
        keyed ^= (keyed >> 35) + length
        keyed = keyed * _MIX2 & _MASK
        return keyed ^ keyed >> 28
    if length:
        joined = data[0] << 16 | data[length >> 1] << 24 | data[-1] | length << 8
        return _avalanche64(joined ^ _u32(_SECRET, 0) ^ _u32(_SECRET, 4))
    return _avalanche64(_u64(_SECRET, 56) ^ _u64(_SECRET, 64))


def _hash_middle(data: bytes, length: int) -> int:
    total = length * _PRIME64[0] & _MASK
    if length <= 128:
        for pair in range((length - 1) // 32, -1, -1):
            total += _mixed(data, 16 * pair, 32 * pair)
            total += _mixed(data, length - 16 * (pair + 1), 32 * pair + 16)
        return _avalanche(total & _MASK)
    for block in range(8):
        total += _mixed(data, 16 * block, 16 * block)
    total = _avalanche(total & _MASK)
    for block in range(8, length // 16):
        total += _mixed(data, 16 * block, 16 * (block - 8) + 3)
    total += _mixed(data, length - 16, 136 - 17)
    return _avalanche(total & _MASK)


def _hash_long(data: bytes, length: int) -> int:
    lanes = [
        _PRIME32[2],
        _PRIME64[0],
        _PRIME64[1],
        _PRIME64[2],
        _PRIME64[3],
        _PRIME32[1],
        _PRIME64[4],
        _PRIME32[0],
    ]
    stripes_in_block = (len(_SECRET) - _STRIPE_BYTES) // 8
    secrets = [unpack_from("<8Q", _SECRET, 8 * stripe) for stripe in range(stripes_in_block)]
    scrambling = unpack_from("<8Q", _SECRET, len(_SECRET) - _STRIPE_BYTES)
    stripes = (length - 1) // _STRIPE_BYTES
    for stripe in range(stripes):
        at = stripe % stripes_in_block
        _accumulate(lanes, unpack_from("<8Q", data, stripe * _STRIPE_BYTES), secrets[at])
        if at == stripes_in_block - 1:
            for lane in range(_LANES):
                value = lanes[lane]
                lanes[lane] = (value ^ value >> 47 ^ scrambling[lane]) * _PRIME32[0] & _MASK
    last = unpack_from("<8Q", _SECRET, len(_SECRET) - _STRIPE_BYTES - 7)
    _accumulate(lanes, unpack_from("<8Q", data, length - _STRIPE_BYTES), last)
    total = length * _PRIME64[0]
    merging = unpack_from("<8Q", _SECRET, 11)
    for lane in range(0, _LANES, 2):
        total += _fold(lanes[lane] ^ merging[lane], lanes[lane + 1] ^ merging[lane + 1])
    return _avalanche(total & _MASK)


def _accumulate(lanes: list[int], values: tuple[int, ...], secret: tuple[int, ...]) -> None:
    for lane in range(_LANES):
        value = values[lane]
        keyed = value ^ secret[lane]
        lanes[lane ^ 1] += value
        lanes[lane] = lanes[lane] + (keyed & _LOW) * (keyed >> 32)
    for lane in range(_LANES):
        lanes[lane] &= _MASK


def _mixed(data: bytes, at: int, secret_at: int) -> int:
    return _fold(_u64(data, at) ^ _u64(_SECRET, secret_at), _u64(data, at + 8) ^ _u64(_SECRET, secret_at + 8))


def _fold(one: int, other: int) -> int:
    product = one * other
    return (product & _MASK) ^ product >> 64


def _avalanche(value: int) -> int:
    value = (value ^ value >> 37) * _MIX1 & _MASK
    return value ^ value >> 32


def _avalanche64(value: int) -> int:
    value = (value ^ value >> 33) * _PRIME64[1] & _MASK
    value = (value ^ value >> 29) * _PRIME64[2] & _MASK
    return value ^ value >> 32


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> 64 - bits) & _MASK


def _u32(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def _u64(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")
