"""What a plan of sizes does, in words that a table can hold."""

from typing import assert_never

from kubewright.rollout.model import Create, Freeze, Resize, Sizes


def told(step: Sizes) -> list[str]:
    """The intents in their order, without their reasons."""
    found = []
    for intent in step.intents:
        match intent:
            case Create(size, _):
                found.append(f"create={size}")
            case Resize(name, _, size, _):
                found.append(f"{name}={size}")
            case Freeze(name, _):
                found.append(f"freeze {name}")
            case _:
                assert_never(intent)
    return found
