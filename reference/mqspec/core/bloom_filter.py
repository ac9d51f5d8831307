"""BloomFilter: the bits that stand for a consumer in consumerFilter.json, as the real broker
reckons them. With enableCalcFilterBitMap off, as by default, nobody asks them anything; but a
broker that finds others than its own throws the whole file away.

Facts: BloomFilter.java, maxErrorRateOfBloomFilter 20 and expectConsumerNumUseFilter 32 (5.3.3).
"""

from __future__ import annotations

import math
from typing import Final

_ERROR_RATE, _CONSUMERS = 0.20, 32
HASHES: Final = math.ceil(math.log(_ERROR_RATE, 0.5))
BITS: Final = 8 * math.ceil(_CONSUMERS * math.log2(1 / _ERROR_RATE) * math.log2(math.e) / 8)

_MASK: Final = (1 << 64) - 1
_C1, _C2 = 0x87C37B91114253D5, 0x4CF5AD432745937F


def bit_positions(text: str) -> tuple[int, ...]:
    """The bits of a text, by double hashing."""
    digest = murmur3(text.encode(errors="replace"))
    first, second = _signed(digest), _signed(digest >> 32)
    combined = (_signed(first + n * second) for n in range(1, HASHES + 1))
    return tuple((~hash_ if hash_ < 0 else hash_) % BITS for hash_ in combined)


def murmur3(data: bytes) -> int:
    """The first half of MurmurHash3_x64_128 with seed 0."""
    h1 = h2 = 0
    whole = len(data) // 16 * 16
    for begin in range(0, whole, 16):
        k1, k2 = (int.from_bytes(data[at : at + 8], "little") for at in (begin, begin + 8))
        h1 = (_rotated(h1 ^ _mixed_1(k1), 27) + h2) * 5 + 0x52DCE729 & _MASK
        h2 = (_rotated(h2 ^ _mixed_2(k2), 31) + h1) * 5 + 0x38495AB5 & _MASK

    h1 ^= _mixed_1(int.from_bytes(data[whole : whole + 8], "little"))
    h2 ^= _mixed_2(int.from_bytes(data[whole + 8 :], "little"))
    h1, h2 = h1 ^ len(data), h2 ^ len(data)
    h1 = h1 + h2 & _MASK
    h2 = h2 + h1 & _MASK
    return _finished(h1) + _finished(h2) & _MASK


def _mixed_1(k: int) -> int:
    return _rotated(k * _C1 & _MASK, 31) * _C2 & _MASK


def _mixed_2(k: int) -> int:
    return _rotated(k * _C2 & _MASK, 33) * _C1 & _MASK


def _finished(h: int) -> int:
    h = (h ^ h >> 33) * 0xFF51AFD7ED558CCD & _MASK
    h = (h ^ h >> 33) * 0xC4CEB9FE1A85EC53 & _MASK
    return h ^ h >> 33


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> 64 - bits) & _MASK


def _signed(value: int) -> int:
    """The low 32 bits as Java's int."""
    return (value + 0x80000000 & 0xFFFFFFFF) - 0x80000000
