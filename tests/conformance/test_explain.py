"""``kubewright explain`` and ``status -n`` in two worlds: in ``up`` the manager answers, on a real Kubernetes, whose
API server knows no manager, the deciders do, with the same reason."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from kubewright.api.machine.names import Phase
from kubewright.cli.explain.command import Asked, told
from kubewright.cli.troubles.command import looked
from kubewright.testing.world import World, in_phase

NewWorld = Callable[[], AbstractAsyncContextManager[World]]


async def test_a_machine_that_cannot_be_made_is_explained(new_world: NewWorld) -> None:
    async with new_world() as world:
        await world.make("lonely", "no-such-class")
        await world.until(in_phase(Phase.CRASH_LOOP_BACK_OFF), "a machine without a class")
        (story,) = await told(world.client, Asked("mc", "lonely", world.namespace))
        why = f'MachineClass "no-such-class" not found in namespace "{world.namespace}"'
        assert (story.state, story.says) == ("CrashLoopBackOff", why)
        assert story.waits_for == (why,)
        (decision,) = story.decisions
        alone = any("--manager URL asks the manager that decides" in note for note in story.notes)
        assert (decision.by, decision.because, decision.source) == (
            "machine",
            why,
            "objects" if alone else "manager",
        )
        assert story.next[0].what == f"Failed: {why}"
        (trouble,) = (await looked(world.client, world.namespace)).troubles
        assert (trouble.names, trouble.state, trouble.waits_for[:1]) == (
            ("lonely",),
            "CrashLoopBackOff",
            (why,),
        )
