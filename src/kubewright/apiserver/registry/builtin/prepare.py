from kubewright.apiserver.registry.kind import Object


def of(definition):
    return lambda new, old: new


def grace_seconds(pod: Object) -> int:
    return int(pod.get("spec", {}).get("terminationGracePeriodSeconds", 30))
