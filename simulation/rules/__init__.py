"""What must be true of every world at every moment: one table of rules over the journal.

Theory.      A rule is a row: of which kind of entry it is, when it judges one, what it finds wrong with it,
             and the sentence that must be true. Where rules of several APIs say the same of other kinds (a
             finalizer goes when nothing is left, a number stays within its bounds, what is paused is not
             written), they are rows of one check; ``finalizer``, ``owner`` and ``bound`` are columns. What a
             rule needs to know of the past is in ``Past``, which costs the same in a large world as in a
             small one. Exceptions are narrow: a fault of a VM or node excuses only what happens to that one;
             staleness excuses only what was right in the state that was received.
Where        ``table``     the rows
             ``ends``, ``numbers``, ``lives``, ``drains``, ``owners``, ``secrets``, ``programs``   what they
                                                                                                   find
             ``past``, ``history``, ``memories``, ``facts``   what these read
Invariants.  A check does not disturb the world and remembers nothing; what a user does is no violation.
Called by    ``run``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from simulation.journal import CHANGED, GONE, MADE, Write
from simulation.rules.facts import deleting, finalizers_of
from simulation.rules.past import Past

Check = Callable[[Write, Past, "Rule"], str]
"""What is wrong; empty: nothing."""
When = Callable[[Write], bool]


@dataclass(frozen=True, slots=True)
class Rule:
    """A row.

    ``kinds``      of which entries; none: it looks at the world whatever happens
    ``when``       which of them
    ``finalizer``  judged is the entry that takes it off, or the end of the object that has it
    ``owner``      the kind of what owns such an object, or has it on record
    ``bound``      a number that it may reach: of seconds, or of objects
    ``fresh``      a manager may break it whose first lists are stale (``Plot.stale``). No API server answers
                   so: our lists name no version, and are therefore answered from the newest state
    """

    name: str
    kinds: tuple[str, ...]
    when: When
    check: Check
    sentence: str
    finalizer: str = ""
    owner: str = ""
    bound: float = 0.0
    fresh: bool = False

    def judges(self, write: Write) -> bool:
        """Whether it has anything to say of this entry."""
        if self.finalizer:
            if not write.committed or self.finalizer not in finalizers_of(write.before):
                return False
            return self.finalizer not in finalizers_of(write.after)
        return self.when(write)

    def wrong(self, write: Write, past: Past) -> str:
        """What is wrong with it, as a violation."""
        found = self.check(write, past, self) if self.judges(write) else ""
        return f"{self.name}: {found}" if found else ""


def judge(write: Write, past: Past, rules: tuple[Rule, ...]) -> list[str]:
    """What is wrong after an entry: one sentence for each rule that does not hold."""
    return [wrong for rule in _about(write.kind, rules) if (wrong := rule.wrong(write, past))]


@cache
def _about(kind: str, rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    return tuple(rule for rule in rules if not rule.kinds or kind in rule.kinds)


# ---------------------------------------------------------------- when


def always(_write: Write) -> bool:
    """Whatever happens."""
    return True


def made(write: Write) -> bool:
    """Something is there that was not."""
    return write.verb == MADE


def changed(write: Write) -> bool:
    """What was there is another."""
    return write.verb == CHANGED


def there(write: Write) -> bool:
    """It is there now."""
    return write.verb in (MADE, CHANGED)


def gone(write: Write) -> bool:
    """It is not there any more."""
    return write.verb == GONE


def was_there(write: Write) -> bool:
    """It was there before."""
    return write.verb in (CHANGED, GONE)


def committed(write: Write) -> bool:
    """It has changed in any way."""
    return write.committed


def leaves(write: Write) -> bool:
    """Its deletion begins, or it is gone at once."""
    return was_there(write) and not deleting(write.before) and (write.verb == GONE or deleting(write.after))


def goes(write: Write) -> bool:
    """Its deletion begins, or it is gone."""
    return write.verb == GONE or leaves(write)


def does(*verbs: str) -> When:
    """A verb that is no commit."""
    return lambda write: write.verb in verbs
