#!/usr/bin/env bash
# A file's mode written as 644 is another mode: cloud-init makes 1204 of it, Ignition 204.
#
# Versions:  cloud-init 22.4.2-1+deb12u4 of Debian 12, github.com/coreos/ignition/v2 v2.22.0
# Guess:     cloud-init reads 644 as 0644, or refuses it; Ignition takes it as 01204 without a word.
# Seen:      cloud-init takes `permissions: 644` as the decimal number, which is 01204 (sticky, write-only for the owner); as a text it is
#            octal; a symbolic mode is told in the log and the default taken. Ignition reads decimal, too, drops the bit and warns of
#            "setuid/setgid/sticky bits", not of the mode; a text is an error.
# Means:     one manifest for both needs "0644" for cloud-init and 420 for Ignition; a check of bootstrap data should ask for just that.
#
# Needs Debian 12's packages (apt-get), Python with pip, Go and its module proxy. Prints what was seen; ends with 1 when that is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'chmod -R u+w "$folder"; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -qq download cloud-init=22.4.2-1+deb12u4 2>/dev/null
dpkg -x cloud-init_*.deb .
python3 -m venv venv
venv/bin/pip -q --disable-pip-version-check install jinja2==3.1.6 pyyaml==6.0.2 jsonschema==4.23.0 configobj==5.0.9 \
    oauthlib==3.2.2 jsonpatch==1.33 requests==2.32.3
cat > modes.py <<'PY'
from cloudinit.config.cc_write_files import decode_perms

for mode in (644, "644", "0644", 420, "u=rw"):
    print(f"cloud-init, {mode!r}: {decode_perms(mode, 0o600):o}")
PY
cat > main.go <<'GO'
package main

import (
	"fmt"

	"github.com/coreos/ignition/v2/config"
)

func main() {
	for _, mode := range []string{`644`, `420`, `"0644"`} {
		text := fmt.Sprintf(`{"ignition": {"version": "3.4.0"}, "storage": {"files": [{"path": "/a", "mode": %s}]}}`, mode)
		found, report, err := config.Parse([]byte(text))
		if err != nil {
			fmt.Printf("Ignition, %s: refused\n", mode)
			continue
		}
		fmt.Printf("Ignition, %s: %o, warned %v\n", mode, *found.Storage.Files[0].Mode, len(report.Entries) > 0)
	}
}
GO
cat > expected <<'END'
cloud-init, 644: 1204
cloud-init, '644': 644
cloud-init, '0644': 644
cloud-init, 420: 644
cloud-init, 'u=rw': 600
Ignition, 644: 204, warned true
Ignition, 420: 644, warned false
Ignition, "0644": refused
END
go mod init finding >/dev/null 2>&1
go get github.com/coreos/ignition/v2@v2.22.0 >/dev/null 2>&1
go mod tidy >/dev/null 2>&1
PYTHONPATH=usr/lib/python3/dist-packages venv/bin/python modes.py > seen
go run . >> seen
cat seen
diff expected seen
