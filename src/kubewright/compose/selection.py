"""Which controllers run, in the syntax of kube-controller-manager's ``--controllers``. Pure.

``*`` means every controller that is on by default, ``name`` switches one on, ``-name`` one off.
A later word on the same name does not outvote an earlier one: naming a controller both ways is
an error, because one of the two was a mistake.
"""

from collections.abc import Iterable, Sequence

from kubewright.base.errors import InvalidInput


def select(known: Sequence[str], asked: Iterable[str]) -> tuple[str, ...]:
    """The controllers to run, in the order of ``known``.

    Raises:
        InvalidInput: an unknown name, or one both on and off; the message lists what exists.
    """
    words = [word.strip() for word in asked if word.strip()] or ["*"]
    on = {word for word in words if not word.startswith("-") and word != "*"}
    off = {word[1:] for word in words if word.startswith("-")}
    if strangers := sorted((on | off) - set(known)):
        raise InvalidInput(f"unknown controller {', '.join(strangers)}; there are: {', '.join(known)}")
    if both := sorted(on & off):
        raise InvalidInput(f"controller {', '.join(both)} is switched both on and off")
    everything = "*" in words or not on
    chosen = tuple(name for name in known if name not in off and (everything or name in on))
    if not chosen:
        raise InvalidInput("no controller is left to run")
    return chosen
