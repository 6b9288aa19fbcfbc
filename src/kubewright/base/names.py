"""Names of objects: stable hashes and the suffixes that look random but are not.

Theory.      A suffix is a function of what the controller saw. Two controllers (or one, restarted)
             that see the same objects choose the same name, so a repeated creation meets
             ``AlreadyExists`` instead of making a second machine. The alphabet is the one that
             Kubernetes uses for generated names: no vowels, no look-alikes.
"""

ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
NAME_LIMIT = 63


def fnv32a(data: bytes) -> int:
    """The 32-bit FNV-1a hash."""
    value = 0x811C9DC5
    for byte in data:
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return value


def safe_encode(text: str) -> str:
    """Each character of ``text`` mapped into the alphabet (as Kubernetes' ``SafeEncodeString``)."""
    return "".join(ALPHABET[ord(char) % len(ALPHABET)] for char in text)


def child_name(parent: str, tail: str) -> str:
    """``<parent>-<tail>``, the parent cut so that the whole fits into a DNS label."""
    return f"{parent[: NAME_LIMIT - len(tail) - 1].rstrip('-.')}-{tail}"
