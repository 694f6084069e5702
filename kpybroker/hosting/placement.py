"""Which partition of a coordinator's topic keeps a key (Kafka: ``GroupCoordinatorService.partitionFor``)."""


def partition_for(key: str, partitions: int) -> int:
    """The partition, of so many, that keeps what is known of a group or a transactional id."""
    return java_hash(key) % partitions


def java_hash(text: str) -> int:
    """``Utils.abs(text.hashCode())`` of Java: over UTF-16 units, wrapped to 32 bits, never negative."""
    value = 0
    encoded = text.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(encoded), 2):
        value = (31 * value + (encoded[index] << 8 | encoded[index + 1])) & 0xFFFF_FFFF
    if value == 0x8000_0000:
        return 0
    return 0x1_0000_0000 - value if value > 0x8000_0000 else value
