#!/usr/bin/env bash
# containerd 1.6 ignores settings of its config.toml that stand under another version's name.
#
# Versions:  containerd 1.6.20~ds1-1+deb12u3 of Debian 12 (amd64)
# Guess:     a table under version 2's name in a file without a version is dropped, or an error; a misspelled setting is an error.
#            Of a file with `version = 3` nothing was guessed.
# Seen:      without `version = 2` the table io.containerd.grpc.v1.cri is dropped (the only word is that version 1 is deprecated);
#            with `version = 3` the file is taken and the tables of version 3 are dropped; a misspelled setting is dropped; none of
#            the three is told. Only version 2 with version 1's table, and a value of a wrong type, are errors.
# Means:     a node whose sandbox image or cgroup driver is not what you wrote starts all the same. Compare what
#            `containerd config dump` prints with what you meant, and do so again with each release of the image.
#
# Needs Debian 12's packages (apt-get). Prints what was seen; ends with 1 when that is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get -qq download containerd=1.6.20~ds1-1+deb12u3 2>/dev/null
dpkg -x containerd_*.deb .

try() { # TITLE, then config.toml on stdin: the sandbox image that containerd would use, or its refusal
    cat > config.toml
    if usr/bin/containerd --config "$folder/config.toml" config dump > out 2> errors; then
        echo "$1: $(sed -n 's/ *sandbox_image = //p' out), told: $(grep -v deprecated errors | grep -c . || true)"
    else
        echo "$1: refused"
    fi
}

{
    try "no version, the table of version 2" <<< '[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "mine:1"'
    try "no version, the table of version 1" <<< '[plugins.cri]
sandbox_image = "mine:1"'
    try "version 2, the table of version 2" <<< 'version = 2
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "mine:1"'
    try "version 2, the table of version 1" <<< 'version = 2
[plugins.cri]
sandbox_image = "mine:1"'
    try "version 2, a misspelled setting" <<< 'version = 2
[plugins."io.containerd.grpc.v1.cri"]
sandbox_imge = "mine:1"'
    try "version 3, the table of version 3" <<< 'version = 3
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "mine:1"'
} > seen
cat > expected <<'END'
no version, the table of version 2: "registry.k8s.io/pause:3.6", told: 0
no version, the table of version 1: "mine:1", told: 0
version 2, the table of version 2: "mine:1", told: 0
version 2, the table of version 1: refused
version 2, a misspelled setting: "registry.k8s.io/pause:3.6", told: 0
version 3, the table of version 3: "registry.k8s.io/pause:3.6", told: 0
END
cat seen
diff expected seen
