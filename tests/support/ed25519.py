"""Ed25519 as whoever has a key can sign: as often as they like, each time otherwise. Source: RFC 8032, section 5.1."""

import hashlib
import os

_P = 2**255 - 19
_ORDER = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, -1, _P) % _P
_BASE = (
    15112221349535400772501151409588531511454012693041857206046113283949847762202,
    46316835694926478169428394003475163141307993866256225615783033603165251855960,
)
Point = tuple[int, int]


def sign_otherwise(secret: bytes, public: bytes, message: bytes) -> bytes:
    """Sign a message by a secret of 32 bytes with a random nonce, where the standard has one that follows from both."""
    digest = hashlib.sha512(secret).digest()
    scalar = (int.from_bytes(digest[:32], "little") & ((1 << 254) - 8)) | (1 << 254)
    nonce = int.from_bytes(os.urandom(64), "little") % _ORDER
    point = _encode(_multiply(_BASE, nonce))
    challenge = int.from_bytes(hashlib.sha512(point + public + message).digest(), "little")
    return point + ((nonce + challenge * scalar) % _ORDER).to_bytes(32, "little")


def _add(one: Point, other: Point) -> Point:
    (x1, y1), (x2, y2) = one, other
    product = _D * x1 * x2 * y1 * y2
    return (
        (x1 * y2 + x2 * y1) * pow(1 + product, -1, _P) % _P,
        (y1 * y2 + x1 * x2) * pow(1 - product, -1, _P) % _P,
    )


def _multiply(point: Point, times: int) -> Point:
    result = (0, 1)
    while times:
        if times & 1:
            result = _add(result, point)
        point, times = _add(point, point), times >> 1
    return result


def _encode(point: Point) -> bytes:
    return (point[1] | (point[0] & 1) << 255).to_bytes(32, "little")
