"""The table: what must be true, of which kind, with which finalizer, owner and bound, in one sentence.

Theory.      Rows stand by the API whose worlds they judge (``OF_MACHINES``, ``OF_CLUSTERS``,
             ``OF_WHOLE_CLUSTERS``, ``OF_CONTROL_PLANES``); rows of one check stand in several.
To add one   write a function ``(write, past, row) -> str`` of what is wrong, or find one that says it of
             another kind, and add a row; then break the product on purpose and see that it is caught: tests
             ask for a planted bug for every row.
Called by    ``realm``, whose realms name the rows of their worlds, and tests.
"""

from kubewright.api.cluster.names import MACHINE_FINALIZER
from kubewright.api.machine.names import FINALIZER
from kubewright.controlplanes.component.seen import LONGEST_WAIT
from simulation.controlplanes.copies import RESTORE
from simulation.journal import (
    DATA_GONE,
    DELETE,
    DELETES,
    EVICTS,
    IN,
    MACHINE_DEPLOYMENTS,
    MACHINE_SETS,
    MACHINES,
    NODES,
    PODS,
    PROGRAMS,
    REMOVE,
    REPLACE,
    STARTS,
    VMS,
    WORKLOAD,
    WORKLOADS,
    Write,
    vm_ends,
)
from simulation.resources import (
    CLUSTER_MACHINES,
    CLUSTERS,
    COMPONENTS,
    CONFIGS,
    FOO_CLUSTERS,
    FOO_PLANES,
    INFRA_MACHINES,
    PARTS,
    SECRETS,
    SNAPSHOTS,
)
from simulation.rules import (
    Rule,
    always,
    changed,
    does,
    drains,
    ends,
    goes,
    gone,
    leaves,
    lives,
    made,
    numbers,
    owners,
    programs,
    secrets,
    there,
    was_there,
)
from simulation.rules.facts import deleting, selects
from simulation.rules.memories import CERTIFICATES
from simulation.rules.planes import AUTHORITIES

COMPONENT_KINDS = tuple(COMPONENTS.values())


def carried_out(write: Write) -> bool:
    """A server has carried out a write of a manager."""
    return not write.committed and write.verb.isupper()


def is_object(write: Write) -> bool:
    """An object of any resource is there."""
    return there(write) and write.kind != VMS


def of_a_node(write: Write) -> bool:
    """A manager has deleted something of a workload cluster."""
    return write.verb == DELETE and write.where == WORKLOAD


def begins_to_go(write: Write) -> bool:
    """The deletion of what is still there begins."""
    return there(write) and deleting(write.after) and not deleting(write.before)


def is_authority(write: Write) -> bool:
    """A Secret with an authority of a control plane is there."""
    return there(write) and write.name in AUTHORITIES


def has_certificates(write: Write) -> bool:
    """A Secret with certificates of a cluster is there."""
    return there(write) and write.name.endswith(CERTIFICATES)


def changes_members(write: Write) -> bool:
    """The members of an etcd are others."""
    return write.verb.endswith(IN)


OF_MACHINES: tuple[Rule, ...] = (
    Rule("one_vm_for_a_machine", (VMS,), made, lives.two_vms,
         "At most one VM lives for one machine.", bound=1),
    Rule("no_vm_without_a_machine", (), always, lives.orphan,
         "A VM has a machine, the one it was made for or one that has it on record, or does not live for "
         "long.", bound=30.0),
    Rule("a_living_machine_keeps_its_vm", (VMS,), vm_ends, lives.vm_of_the_living,
         "No VM is deleted while its machine should live."),
    Rule("the_finalizer_goes_last", (MACHINES,), always, ends.after(ends.living_vms),
         "Our finalizer is removed from a machine when no VM of it is left.", FINALIZER),
    Rule("a_vm_is_drained_first", (VMS,), vm_ends, drains.pods,
         "A VM with pods on it is deleted only when waiting for them cannot help any more."),
    Rule("a_node_goes_after_its_vm", (NODES,), gone, ends.after(ends.vm_of_node),
         "A Node is deleted when its VM is gone, or by a user."),
    Rule("a_vm_on_record_stays", (MACHINES,), there, lives.other_vm,
         "A machine never changes the VM that it has on record, nor shares it or its node with another."),
    Rule("not_too_many", (MACHINES,), made, numbers.surge, "A new machine does not take its deployment "
         "above replicas + surge.", fresh=True),
    Rule("a_set_keeps_its_size", (MACHINES,), made, numbers.size,
         "A set makes no machine beyond its own size, but for those that were moved to it: a manager that "
         "does not see a move yet makes the machine that the set has lacked before.", fresh=True),
    Rule("a_frozen_set_makes_no_machine", (MACHINES,), made, numbers.freeze,
         "A set makes no machine while its label ``freeze`` says that it has too many."),
    Rule("a_name_is_for_one_machine", (MACHINES,), made, numbers.same_name,
         "No two machines of a set ever have the same name, also when the first is long gone; but for one "
         "creation that the server executes twice: late, and when its sender sent it again.", fresh=True),
    Rule("sizes_fit_the_spec", (MACHINE_SETS,), there, numbers.sizes,
         "No set is created or enlarged beyond what its deployment may have.", fresh=True),
    Rule("not_too_few", (MACHINES,), leaves, numbers.available,
         "No running machine is deleted that takes its deployment below what must be available."),
    Rule("enough_take_workload", (MACHINES,), there, numbers.for_workload,
         "No machine is kept free that is needed for replicas: as many others are left as there are to "
         "be.", fresh=True),
    Rule("the_free_go_first", (MACHINES,), leaves, numbers.free_first,
         "No set deletes a running machine with workload, by no one's choice but its own, while it has more "
         "running ones that are kept free than its deployment asks for.", fresh=True),
    Rule("a_set_counts_what_exists", (MACHINE_SETS,), there, numbers.counts_of_set,
         "A set's status counts no machine that does not exist.", fresh=True),
    Rule("a_deployment_counts_what_exists", (MACHINE_DEPLOYMENTS,), there, numbers.counts_of_deployment,
         "A deployment's status counts no machine that does not exist.", fresh=True),
    Rule("a_set_outlives_its_machines", (MACHINE_SETS,), always, ends.after(ends.members),
         "Our finalizer is removed from a set when it has no machines, or they were "
         "disowned.", FINALIZER, owner=MACHINE_DEPLOYMENTS, fresh=True),
    Rule("a_deployment_outlives_its_sets", (MACHINE_DEPLOYMENTS,), always, ends.after(ends.sets),
         "Our finalizer is removed from a deployment when it has no sets, or they were "
         "disowned.", FINALIZER, fresh=True),
    Rule("no_roll_while_paused", (MACHINE_SETS,), made, numbers.paused_class,
         "A deployment gets no set of a class that users have asked for only while it was paused."),
    Rule("revisions_grow", (MACHINE_SETS, MACHINE_DEPLOYMENTS), there, numbers.revisions,
         "The revision of a set or deployment never falls.", fresh=True),
    Rule("complete_is_true", (MACHINE_DEPLOYMENTS,), there, numbers.complete,
         "A deployment whose rollout has not been complete since its spec was written does not say that it "
         "is."),
    Rule("a_rollout_is_reported", (), always, numbers.late_report,
         "A rollout is not reported as complete for long after it began, and is reported as late in time."),
    Rule("no_phase_goes_back", (MACHINES,), changed, lives.phase_back,
         "A machine that was up never returns to a phase before that, and one that is Terminating stays "
         "so."),
    Rule("a_healthy_machine_is_not_failed", (MACHINES,), there, lives.failed_though_ready,
         "No machine is called Failed while its node is Ready, and was for longer than the manager is "
         "stale; but for one whose node could not be updated in place."),
    Rule("no_pod_is_forced_early", (PODS,), does(DELETES), drains.forced,
         "A pod is deleted, and not evicted, only when the drain's time is up or its node is gone."),
    Rule("budgets_hold", (PODS,), leaves, drains.budget, "No pod begins to leave whose disruption budget "
         "has none to spare, unless force is due."),
    Rule("volumes_leave_one_by_one", (PODS,), leaves, drains.volumes_at_once,
         "Of the pods with volumes on a node one leaves at a time, unless force is due."),
    Rule("volumes_move_before_the_next_pod", (PODS,), leaves, drains.volumes_left,
         "A pod with volumes begins to leave when those of the pods before are detached, or have had their "
         "time."),
    Rule("volumes_are_detached_first", (VMS,), vm_ends, drains.attached,
         "A VM is deleted when its volumes are detached, or have had their time, or force is due."),
    Rule("what_was_seen_is_deleted", (PODS, MACHINES, NODES), does(DELETES, EVICTS), drains.whichever,
         "Pods, machines and nodes are removed by uid or version."),
    Rule("a_vm_is_deleted_for_its_machine", (VMS,), does(DELETES), drains.vm_of_another,
         "A VM is deleted for the machine that has it.", owner=MACHINES),
    Rule("replacements_are_limited", (MACHINES,), lives.given_up, lives.others_replaced,
         "No machine is Failed for its health while others of its group are, as many as may "
         "be.", fresh=True),
    Rule("a_machine_has_its_time", (MACHINES,), lives.given_up, lives.failed_early,
         "No machine is Failed before its own creation or health time-out is over."),
    Rule("a_machine_is_given_up_in_time", (MACHINES,), lives.given_up, lives.failed_late,
         "A machine is Failed soon after its time-out.", bound=20.0),
    Rule("updates_leave_enough", (NODES,), selects, numbers.available_beside,
         "No node is selected for an update that takes its deployment below what must be available."),
    Rule("a_moved_machine_stays", (MACHINES,), leaves, numbers.moved,
         "No machine is deleted between its move to another set and the moment when that set counts it."),
)  # fmt: skip

OF_CLUSTERS: tuple[Rule, ...] = (
    Rule("a_paused_cluster_is_never_written", (CLUSTERS,), was_there, owners.paused_cluster,
         "It stays, with its status and finalizers as they are, until a user ends the pause."),
    Rule("a_part_gets_its_owner_after_the_finalizer", (FOO_CLUSTERS, FOO_PLANES), there,
         owners.claimed_early, "A part gets its controller when the Cluster has our finalizer, so that it "
         "will be deleted in order.", owner=CLUSTERS),
    Rule("parts_are_deleted_in_order", PARTS, ends.part_ends, ends.after(ends.parts_before),
         "Nothing is deleted while something is left that needs it, and the Cluster is the last to "
         "go.", owner=CLUSTERS),
    Rule("an_endpoint_stays", (CLUSTERS,), changed, lives.other_endpoint,
         "Clients of a cluster know its address, so it never changes."),
    Rule("a_control_plane_stays_initialized", (CLUSTERS,), changed, lives.uninitialized,
         "A control plane that was initialized once never goes back."),
    Rule("infrastructure_ready_is_copied", (CLUSTERS,), there, lives.ready_alone,
         "A Cluster says that its infrastructure is ready only if that has said so.", owner=FOO_CLUSTERS),
)  # fmt: skip

OF_WHOLE_CLUSTERS: tuple[Rule, ...] = (
    Rule("a_machine_has_one_vm", (VMS,), made, lives.two_vms_of_cluster,
         "No VM is made for a machine while another of it exists.", bound=1),
    Rule("no_vm_is_left_behind", (INFRA_MACHINES,), gone, ends.after(ends.vm_of_machine),
         "A KubewrightMachine goes after its VM."),
    Rule("no_vm_is_forgotten", (), always, lives.orphan_of_cluster,
         "A VM that comes later all the same is deleted soon.", owner=INFRA_MACHINES, bound=60.0),
    Rule("one_machine_runs_init", (VMS,), made, lives.second_init,
         "Of all machines that a cluster ever has, one runs ``kubeadm init``.", bound=1),
    Rule("no_certificate_is_replaced", (SECRETS,), has_certificates, secrets.other_certificate,
         "The authorities and keys of a cluster are what they were when they were made."),
    Rule("nothing_of_a_paused_cluster_is_written", (), carried_out, owners.written_in_pause,
         "While a Cluster is paused, no controller writes it or its objects, nor its workload cluster; but "
         "for a write that was begun before the pause was known.", owner=CLUSTERS, bound=1.0),
    *(
        Rule("an_object_has_one_controller", kinds, there, owners.controllers,
             "It gets its controller once, of the right kind, and keeps it.", owner=owner)
        for owner, kinds in owners.CONTROLLED.items()
    ),
    Rule("an_owner_is_real", (), is_object, owners.unreal_owner,
         "Each new owner is, or was, an object of this name and uid."),
    Rule("what_runs_is_owned", (CLUSTER_MACHINES,), there, owners.lonely,
         "When a machine is Running, all that it needs has the owners that it should have."),
    Rule("not_too_many_workers", (CLUSTER_MACHINES,), made, numbers.surge_of_workers,
         "A machine is made only within the wanted number and the surge."),
    Rule("not_too_few_workers", (CLUSTER_MACHINES,), begins_to_go, numbers.running_workers,
         "A machine that runs is deleted only if enough others run."),
    Rule("hooks_hold_a_machine", (INFRA_MACHINES,), there, ends.hooks,
         "No VM is given up while its machine lives, or an annotation holds up the deletion of "
         "it.", owner=CLUSTER_MACHINES),
    Rule("bootstrap_goes_after_the_vm", (CONFIGS,), goes, ends.after(ends.infra_of_config),
         "The KubeadmConfig of a machine is deleted when its KubewrightMachine is "
         "gone.", owner=CLUSTER_MACHINES),
    Rule("a_workers_node_goes_after_its_vm", (NODES,), of_a_node, ends.after(ends.vm_of_deleted_node),
         "No manager deletes a Node whose VM lives."),
    Rule("a_machine_goes_last", (CLUSTER_MACHINES,), always, ends.after(ends.objects_of_machine),
         "A Machine loses its finalizer when its objects are gone.", MACHINE_FINALIZER),
    Rule("secrets_stay_secret", (), always, secrets.shown_secret,
         "No key, token or bootstrap data is in an event, in a status or in a log line."),
    Rule("a_token_is_needed", (SECRETS,), secrets.is_token, secrets.needless_token,
         "A token is made or kept for one machine, which joins by it and has not joined yet, as far as its "
         "manager can know.", bound=60.0),
)  # fmt: skip

OF_CONTROL_PLANES: tuple[Rule, ...] = (
    Rule("nothing_is_ready_that_does_not_answer", (), always, programs.silent_though_ready,
         "An object is ready only if it answered its clients a moment ago: a probe has to fail "
         "first.", bound=10.0),
    Rule("no_authority_is_replaced", (SECRETS,), is_authority, secrets.other_authority,
         "Authorities, and the key of service accounts, stay the same; or one phase of a rotation is done."),
    Rule("every_credential_verifies", (), secrets.begins_to_talk, secrets.unverified,
         "What each program presents was signed by what those that it talks to trust."),
    Rule("a_snapshot_is_what_it_says", (SNAPSHOTS,), there, programs.other_file,
         "The file of a complete snapshot exists, with its hash and what was there since it began."),
    Rule("nothing_runs_while_data_is_replaced", (WORKLOADS,), does(RESTORE), programs.runs_meanwhile,
         "No component has an instance when the data of a member is replaced."),
    Rule("data_is_never_mixed", (PROGRAMS,), does(STARTS), programs.mixed_data,
         "An etcd starts with the data of one cluster."),
    Rule("nothing_starts_without_its_data", (PROGRAMS,), does(STARTS), programs.vanished_data,
         "A member whose data has vanished starts only after it was replaced, or a user has given it up."),
    Rule("services_come_first", (PROGRAMS,), does(STARTS), programs.lacks_service,
         "A program with clients starts after its Service was made."),
    Rule("no_service_outlives_its_component", COMPONENT_KINDS, gone, ends.after(ends.service_of_component),
         "A component goes after its Service."),
    Rule("a_users_secret_stays", (SECRETS,), was_there, owners.users_secret,
         "No controller writes, owns or deletes a Secret that a user made."),
    Rule("nothing_outlives_its_component", COMPONENT_KINDS, gone, ends.after(ends.data_of_component),
         "A component goes after its programs and their data."),
    Rule("what_others_manage_is_left_alone", (), always, owners.touched_elsewhere,
         "Of a component that another program manages, ours write nothing and run nothing."),
    Rule("nothing_of_a_paused_plane_is_touched", (), always, owners.touched_in_pause,
         "While it is paused, nothing of a control plane is written, nor asked of a host."),
    Rule("what_sleeps_runs_nothing", (), always, programs.awake,
         "While a control plane sleeps nothing of it is started, and what ran ends soon.", bound=120.0),
    Rule("what_starts_finds_what_it_needs", (PROGRAMS,), does(STARTS), programs.start_without_need,
         "etcd, then the API server, then the controller manager: each when the one before it "
         "answers.", bound=10.0),
    Rule("what_ends_has_what_it_needs", (WORKLOADS,), does(REMOVE), programs.end_of_needed,
         "Where both are deleted, one ends after the other that needs it, unless that takes too "
         "long.", bound=LONGEST_WAIT.total_seconds()),
    Rule("one_at_a_time", (WORKLOADS,), does(REPLACE), programs.two_replaced,
         "An instance that serves is not replaced while another of its component is.", bound=10.0),
    Rule("versions_go_in_order", (PROGRAMS,), does(STARTS), programs.newer_than_needed,
         "Nothing starts that is newer than what it needs, which follows the control plane's version."),
    Rule("one_change_of_members_at_a_time", (WORKLOADS,), changes_members, programs.second_change,
         "While a member has no vote yet no other is added or removed."),
    Rule("no_majority_is_lost_by_a_change", (WORKLOADS,), always, programs.lost_majority,
         "What a manager asks for leaves a majority."),
    Rule("etcds_data_is_kept", (PROGRAMS,), does(DATA_GONE), programs.lost_data,
         "The data of an etcd goes when its object is deleted and does not say that it is to be kept."),
)  # fmt: skip
