from kubewright.apiserver.registry.kind import Object
def prepare(new: Object, old: Object | None) -> Object:
    return new
def check(new, old):
    return []
