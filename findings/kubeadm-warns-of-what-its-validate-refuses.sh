#!/usr/bin/env bash
# kubeadm works with a config that `kubeadm config validate` refuses, and with a Kubernetes newer than itself.
#
# Versions:  kubeadm of k8s.io/kubernetes v1.36.3
# Guess:     `config images list` warns of a misspelled field and goes on, `config validate` refuses it, the same for a key twice; the
#            images listed for 1.35 are those of kubeadm 1.35. Of `init` and of 1.37 nothing was guessed.
# Seen:      only `validate` and `migrate` refuse such a config; elsewhere it is a warning, the misspelled field is lost, and of two values the
#            last counts. 1.37.0 is taken (1.34 is not), and etcd, CoreDNS and pause are this kubeadm's, whatever the version asked for.
# Means:     run `kubeadm config validate` on what you generate before a machine boots from it: on the machine the warning is one line of its
#            log. Images for an older minor are listed right by that minor's kubeadm only.
#
# Needs Go and its module proxy, and builds kubeadm (two minutes). Prints what was seen; ends with 1 when that is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'chmod -R u+w "$folder"; rm -rf "$folder"' EXIT
cd "$folder"
minor=36.3
{
    go mod init finding
    go mod download -json "k8s.io/kubernetes@v1.$minor" > module
    published=(-require "k8s.io/kubernetes@v1.$minor")
    while read -r name; do
        published+=(-replace "$name=$name@v0.$minor")
    done < <(sed -n 's|^\t*\(k8s.io/[a-z0-9-]*\) => ./staging.*|\1|p' "$(sed -n 's/.*"GoMod": "\(.*\)".*/\1/p' module)")
    go mod edit "${published[@]}"
    printf 'package main\n\nimport _ "k8s.io/kubernetes/cmd/kubeadm/app"\n\nfunc main() {}\n' > main.go
    go mod tidy
    version=k8s.io/component-base/version  # which a release is told when it is built
    go build -ldflags "-X $version.gitVersion=v1.$minor -X $version.gitMajor=1 -X $version.gitMinor=${minor%.*}" -o kubeadm k8s.io/kubernetes/cmd/kubeadm
} > build.log 2>&1 || { tail -n 5 build.log; exit 1; }

head='apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v1.36.3
certificatesDir: '$folder/pki
printf '%s\nimageRepositry: example.org/mine\n' "$head" > misspelled.yaml
printf '%s\nimageRepository: example.org/a\nimageRepository: example.org/b\n' "$head" > twice.yaml

images() { # ARGUMENTS of `config images list`: the API server's and etcd's image, or that it refuses
    if ./kubeadm config images list "$@" > images 2>/dev/null; then
        grep -E 'kube-apiserver|etcd' images | paste -sd ' '
    else
        echo refused
    fi
}
begin() { # FILE: does a phase of `kubeadm init` work with it?
    ./kubeadm init phase certs ca --config "$1" >/dev/null 2>&1 && echo begun || echo refused
}
validate() {
    ./kubeadm config validate --config "$1" >/dev/null 2>&1 && echo valid || echo refused
}
{
    echo "a misspelled field: $(validate misspelled.yaml), init $(begin misspelled.yaml); $(images --config misspelled.yaml)"
    echo "a key twice: $(validate twice.yaml), init $(begin twice.yaml); $(images --config twice.yaml)"
    for version in v1.34.0 v1.35.0 v1.37.0; do
        echo "$version: $(images --kubernetes-version $version)"
    done
} > seen
cat > expected <<'END'
a misspelled field: refused, init begun; registry.k8s.io/kube-apiserver:v1.36.3 registry.k8s.io/etcd:3.6.8-0
a key twice: refused, init begun; example.org/b/kube-apiserver:v1.36.3 example.org/b/etcd:3.6.8-0
v1.34.0: refused
v1.35.0: registry.k8s.io/kube-apiserver:v1.35.0 registry.k8s.io/etcd:3.6.8-0
v1.37.0: registry.k8s.io/kube-apiserver:v1.37.0 registry.k8s.io/etcd:3.6.8-0
END
cat seen
diff expected seen
