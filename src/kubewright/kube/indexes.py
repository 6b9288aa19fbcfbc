"""From a value to the keys of the objects that have it.

Theory.      A change touches only the values that came or went, so its cost does not depend on how
             many objects share a value. Keys stand in the order in which they came: the same
             history gives the same order, which sets would not (their order changes with each run).
Called by    ``store``.
"""

from collections.abc import Collection

from kubewright.wire.gvk import Key


class Index:
    """An ordered set of keys for each value. Callers say what a key's values were and are."""

    def __init__(self) -> None:
        self._keys: dict[str, dict[Key, None]] = {}

    def keys(self, value: str) -> Collection[Key]:
        """Who has this value, in order of arrival."""
        return self._keys.get(value, {}).keys()

    def move(self, key: Key, before: Collection[str], after: Collection[str]) -> None:
        """The values of ``key`` were ``before`` (as said in the last call) and are ``after``."""
        for value in before:
            if value not in after:
                keys = self._keys[value]
                del keys[key]
                if not keys:
                    del self._keys[value]
        for value in after:
            if value not in before:
                self._keys.setdefault(value, {})[key] = None
