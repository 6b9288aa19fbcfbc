#!/usr/bin/env bash
# A network-config that netplan takes leaves the machine without a network where cloud-init writes for systemd-networkd itself.
#
# Versions:  cloud-init 22.4.2-1+deb12u4 of Debian 12, renderer networkd (no netplan in the image)
# Guess:     the renderer writes what netplan would; an address in capitals becomes lower case. Of the rest nothing was guessed.
# Seen:      with `match: macaddress` and no `set-name` the file also matches Name=ID, the key of the entry, which no device has, so
#            nothing is set up; `to: default` is an error; a route of an entry without an address or DHCP and a misspelled key are
#            dropped without a word; "no" as a text turns DHCP on.
# Means:     give every entry `set-name`, routes as 0.0.0.0/0, and booleans without quotes; then both renderers do the same.
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
cat > networks.py <<'PY'
import yaml
from cloudinit.net import network_state, networkd

MAC = "match: {macaddress: '52:54:00:aa:bb:cc'}"
for title, entry in (
    ("match alone", f"nic: {{{MAC}, addresses: [192.0.2.5/24]}}"),
    ("match and set-name", f"nic: {{{MAC}, set-name: eth0, addresses: [192.0.2.5/24]}}"),
    ("a default route by name", f"nic: {{{MAC}, set-name: eth0, addresses: [192.0.2.5/24], routes: [{{to: default, via: 192.0.2.1}}]}}"),
    ("a default route by address", f"nic: {{{MAC}, set-name: eth0, addresses: [192.0.2.5/24], routes: [{{to: 0.0.0.0/0, via: 192.0.2.1}}]}}"),
    ("a route and no address", f"nic: {{{MAC}, set-name: eth0, routes: [{{to: 10.0.0.0/8, via: 192.0.2.1}}]}}"),
    ("no as a text", "eth0: {dhcp4: 'no'}"),
    ("a misspelled key", "eth0: {addreses: [192.0.2.5/24]}"),
):
    try:
        state = network_state.parse_net_config_data(yaml.safe_load(f"{{version: 2, ethernets: {{{entry}}}}}"))
        (text,) = networkd.Renderer({})._render_content(state).values()
        print(f"{title}: {' '.join(text.split())}")
    except ValueError as error:
        print(f"{title}: refused, {error}")
PY
PYTHONPATH=usr/lib/python3/dist-packages venv/bin/python networks.py > seen
cat > expected <<'END'
match alone: [Address] Address=192.0.2.5/24 [Match] MACAddress=52:54:00:aa:bb:cc Name=nic [Network] DHCP=no
match and set-name: [Address] Address=192.0.2.5/24 [Match] MACAddress=52:54:00:aa:bb:cc Name=eth0 [Network] DHCP=no
a default route by name: refused, Address default is not a valid ip address
a default route by address: [Address] Address=192.0.2.5/24 [Match] MACAddress=52:54:00:aa:bb:cc Name=eth0 [Network] DHCP=no [Route] Destination=0.0.0.0/0 Gateway=192.0.2.1
a route and no address: [Match] MACAddress=52:54:00:aa:bb:cc Name=eth0 [Network] DHCP=no
no as a text: [Match] Name=eth0 [Network] DHCP=ipv4
a misspelled key: [Match] Name=eth0 [Network] DHCP=no
END
cat seen
diff expected seen
