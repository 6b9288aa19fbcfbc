#!/usr/bin/env bash
# In cloud-init's templates a missing value is a text in the file, or the end of all user data: it depends on the dots.
#
# Versions:  cloud-init 22.4.2-1+deb12u4 of Debian 12 with jinja2 3.1.6
# Guess:     a value that is not there is an error, and the whole user data is not used.
# Seen:      a missing name or last part becomes the text CI_MISSING_JINJA_VAR/NAME where it stands, and all is run; a part of a part that is
#            missing, and `local-hostname` with its hyphen (a subtraction), log one error and drop the whole user data: the machine
#            boots without it. `default(...)` helps for the first kind only.
# Means:     bootstrap data should use names that every source of it has, written with underscores; a node named CI_MISSING_JINJA_VAR/… is
#            this, and so is a machine that boots and does nothing.
#
# Needs Debian 12's packages (apt-get) and Python with pip. Prints what was seen; ends with 1 when that is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get -qq download cloud-init=22.4.2-1+deb12u4 2>/dev/null
dpkg -x cloud-init_*.deb .
python3 -m venv venv
venv/bin/pip -q --disable-pip-version-check install jinja2==3.1.6 pyyaml==6.0.2 jsonschema==4.23.0 configobj==5.0.9 \
    oauthlib==3.2.2 jsonpatch==1.33 requests==2.32.3
cat > render.py <<'PY'
from cloudinit.handlers.jinja_template import render_jinja_payload

DATA = {"ds": {"meta_data": {"local-hostname": "node-1"}}}
for text in (
    "{{ ds.meta_data.local_hostname }}",
    "{{ ds.meta_data['local-hostname'] }}",
    "{{ ds.meta_data.local-hostname }}",
    "{{ ds.meta_data.provider_id }}",
    "{{ ds.meta_data.provider_id | default('none') }}",
    "{{ ds.kubernetes.provider_id }}",
    "{{ ds.kubernetes.provider_id | default('none') }}",
):
    print(f"{text}: {render_jinja_payload('## template: jinja' + chr(10) + text, 'user-data', DATA)}")
PY
cat > expected <<'END'
{{ ds.meta_data.local_hostname }}: node-1
{{ ds.meta_data['local-hostname'] }}: node-1
{{ ds.meta_data.local-hostname }}: None
{{ ds.meta_data.provider_id }}: CI_MISSING_JINJA_VAR/provider_id
{{ ds.meta_data.provider_id | default('none') }}: none
{{ ds.kubernetes.provider_id }}: None
{{ ds.kubernetes.provider_id | default('none') }}: None
END
PYTHONPATH=usr/lib/python3/dist-packages venv/bin/python render.py > seen 2>errors
cat seen
diff expected seen
