"""Container Linux Configs: what the transpiler takes, what it remarks on, and what it refuses.

tests/conformance/test_container_linux.py asks the transpiler itself; the unit tests know its answers.
"""

SUM = "0" * 128

TAKEN = {
    "a file": 'storage:\n  files:\n  - path: /a\n    mode: 0640\n    contents: {inline: "a b\'c/é%\\n"}\n',
    "an octal mode of YAML 1.2": "storage: {files: [{path: /a, mode: 0o640}]}",
    "a decimal mode": "storage: {files: [{path: /a, mode: 416}]}",
    "a file with all of it": (
        "storage:\n  files:\n  - filesystem: root\n    path: /a\n    mode: 0600\n    overwrite: true\n"
        "    user: {id: 500}\n    group: {name: core}\n    contents: {inline: !!binary aGVsbG8=}\n"
    ),
    "a file that is appended to": "storage: {files: [{path: /a, mode: 0644, append: true, contents: {inline: x}}]}",
    "a remote file": (
        "storage:\n  files:\n  - path: /a\n    mode: 0644\n    contents:\n      remote:\n"
        "        url: https://example.com/a?b=c\n        compression: gzip\n"
        f"        verification: {{hash: {{function: sha512, sum: '{SUM}'}}}}\n"
    ),
    "a remote file in S3": "storage: {files: [{path: /a, mode: 0644, contents: {remote: {url: 's3://b/k?versionId=1'}}}]}",
    "a remote file with a space": "storage: {files: [{path: /a, mode: 0644, contents: {remote: {url: 'http://e/a b?c d'}}}]}",
    "half a hash": (
        "storage: {files: [{path: /a, mode: 0644, contents: {remote: {url: 'http://e', verification: {hash: {sum: x}}}}}]}"
    ),
    "a folder and a link": (
        "storage:\n  directories: [{path: /d, mode: 0700, user: {name: core}}]\n"
        "  links: [{path: /l, target: /d, hard: true, overwrite: false}, {path: /m, target: x}]\n"
    ),
    "a disk": (
        "storage:\n  disks:\n  - device: /dev/sda\n    wipe_table: true\n    partitions:\n"
        "    - label: ROOT\n      number: 1\n      size: 10GiB\n      start: 1MiB\n"
        "      type_guid: raid_containing_root\n      guid: 00000000-1111-2222-3333-444444444444\n"
        "    - label: ''\n      size: 0\n    - size: 1.5GB\n    - size: 512MiB512MiB\n    - {}\n"
    ),
    "types of partitions": (
        "storage: {disks: [{device: /dev/sda, partitions: [{type_guid: linux_filesystem_data},"
        " {type_guid: swap_partition}, {type_guid: raid_partition},"
        " {type_guid: 0657fd6d-a4ab-43c4-84e5-0933c84b4f4f}]}]}"
    ),
    "a RAID": (
        "storage: {raid: [{name: md, level: raid1, devices: [/dev/a, /dev/b], spares: 1, options: [--force]},"
        " {name: n, level: stripe, devices: []}]}"
    ),
    "file systems": (
        "storage:\n  filesystems:\n  - name: data\n    mount:\n      device: /dev/a\n      format: ext4\n"
        "      wipe_filesystem: true\n      label: DATA\n      uuid: x\n      options: [-F]\n"
        "  - name: there\n    path: /there\n"
        "  files: [{filesystem: data, path: /a, mode: 0644}]\n"
    ),
    "units": (
        "systemd:\n  units:\n  - name: a.service\n    enabled: true\n"
        "    contents: |\n      [Service]\n      ExecStart=/a \\\n        b\n      [Install]\n      WantedBy=x\n"
        '    dropins: [{name: 10.conf, contents: "[Service]\\nA=b\\n"}, {name: 20.conf}]\n'
        "  - name: b.timer\n    enable: true\n  - name: c.mount\n    mask: true\n  - name: d.path\n    enabled: false\n"
    ),
    "networks": (
        'networkd:\n  units:\n  - name: 00-eth0.network\n    contents: "[Match]\\nName=eth0\\n"\n'
        '    dropins: [{name: a.conf, contents: "[Network]\\nDHCP=yes"}]\n'
    ),
    "users and groups": (
        "passwd:\n  users:\n  - name: core\n    password_hash: $6$a #b\n    ssh_authorized_keys: [a, b]\n    uid: 0\n"
        "    gecos: G\n    home_dir: /h\n    no_create_home: true\n    primary_group: g\n    groups: [x]\n"
        "    no_user_group: yes\n    system: on\n    no_log_init: y\n    shell: /bin/sh\n"
        "  - name: empty\n    password_hash: ''\n    system: false\n"
        "  groups: [{name: g, gid: 0, password_hash: h, system: true}]\n"
    ),
    "updates": (
        "update: {group: Beta, server: 'https://u', pcr_policy_server: p, download_user: d, download_password: w,"
        " machine_alias: m}"
    ),
    "reboots": (
        "locksmith: {reboot_strategy: etcd-lock, window_start: 'Sun 1:00', window_length: 1h30m, group: g,"
        " etcd_endpoints: 'http://a', etcd_cafile: /c, etcd_certfile: /d, etcd_keyfile: /e}\nupdate: {group: stable}\n"
    ),
    "reboots alone": "locksmith: {reboot_strategy: 'off'}",
    "docker": "docker: {flags: [--a=b, '-c']}",
    "docker without flags": "docker: {}",
    "etcd": "etcd: {name: n, listen_client_urls: 'http://0.0.0.0', snapshot_count: 10, enable_v2: false}\n",
    "etcd of a version": 'etcd: {version: 3.3.1, name: "a\\tb\\"é\\x01", debug: yes, auto_compaction_retention: 1}',
    "etcd of a version with a number": "etcd: {version: 3.1.0, auto_compaction_retention: 1}",
    "etcd, a pre-release": "etcd: {version: 3.4.0-rc.1+git, name: a}",
    "etcd without anything": "etcd: {}",
    "flannel": (
        "flannel: {version: 0.7.0, etcd_endpoints: 'http://a', interface: eth0, network_config: '{\"Network\": \"10.1.0.0/16\"}',"
        " etcd_cafile: /c, etcd_certfile: /d, etcd_keyfile: /k}"
    ),
    "flannel by Kubernetes": "flannel: {version: 0.7.0, kube_subnet_mgr: true}",
    "flannel without a version": "flannel: {etcd_prefix: /p}",
    "all programs and a unit": "docker: {}\netcd: {}\nflannel: {}\nsystemd: {units: [{name: a.service}]}\n",
    "Ignition itself": (
        "ignition:\n  timeouts: {http_response_headers: 20, http_total: 0}\n"
        f"  config: {{append: [{{source: 'https://e', verification: {{hash: {{function: sha512, sum: '{SUM}'}}}}}}],"
        " replace: {source: 'data:,%7B%7D'}}\n"
        "  security: {tls: {certificate_authorities: [{source: 'data:;base64,aGVsbG8='}]}}\n"
    ),
    "its version": "version: 0\ndocker: {}\n",
    "anchors": "storage:\n  files:\n  - &a {path: /a, mode: 0644}\n  - *a\n",
    "nulls": "storage:\netcd:\nflannel: ~\nsystemd: {units: ~}\n",
    "numbers where text belongs": "systemd: {units: [{name: 1.service, contents: 1e3}]}\npasswd: {users: [{name: 08}]}\n",
    "another spelling of a switch": "systemd: {units: [{name: a.service, mask: Yes, enabled: OFF}]}",
    "text where switches belong": "passwd: {users: [{name: a, system: 'yes', no_log_init: \"n\"}]}",
}
REMARKED = {
    "an empty text": "# nothing\n",
    "a name that is not known": "storage: {}\nfoo: {a: 1}\n",
    "a name that is not known further down": "storage: {files: [{path: /a, mode: 0644, Contents: x}]}",
    "a file without a mode": "storage: {files: [{path: /a, contents: {inline: x}}]}",
    "a file without a mode that is appended to": "storage: {files: [{path: /a, append: true}]}",
    "a folder without a mode": "storage: {directories: [{path: /a}]}",
    "a file system elsewhere": "storage: {files: [{filesystem: oem, path: /a, mode: 0644}]}",
    "a name that is there twice": "storage: {filesystems: [{name: a, path: /a}, {name: a, path: /b}]}",
    "a file system that is created": (
        "storage: {filesystems: [{name: a, mount: {device: /dev/a, format: btrfs, create: {force: true, options: [-f]}}}]}"
    ),
    "a user that is created": "passwd: {users: [{name: a, create: {uid: 1, groups: [b], shell: /bin/sh, system: true}}]}",
    "a unit that nothing wants": 'systemd: {units: [{name: a.service, enabled: true, contents: "[Service]\\nA=b"}]}',
    "an unknown group of updates": "update: {group: foo}",
    "a label with a colon": "storage: {disks: [{device: /dev/a, partitions: [{label: 'a:b'}]}]}",
    "an etcd that is new": "etcd: {version: 3.7.1, name: a}",
    "an option of another etcd": "etcd: {version: 3.0.0, pre_vote: true}",
    "a flannel that is new": "flannel: {version: 0.11.0, kube_subnet_mgr: true}",
    "an option of another flannel": "flannel: {kube_subnet_mgr: true}",
    "a partition that is wiped": "storage: {disks: [{device: /dev/a, partitions: [{wipe_partition_entry: true}]}]}",
}
REFUSED = {
    "a size of very many digits": f"storage: {{disks: [{{device: /dev/a, partitions: [{{size: '{'9' * 100_000}'}}]}}]}}",
    "a size of as many with a unit": f"storage: {{disks: [{{device: /dev/a, partitions: [{{start: {'9' * 5_000}GiB}}]}}]}}",
    "a size of no disk": f"storage: {{disks: [{{device: /dev/a, partitions: [{{size: {'9' * 30}GiB}}]}}]}}",
    "a version of very many digits": f"etcd: {{version: '3.{'5' * 5_000}.0'}}",
    "a source that is no URL": 'storage: {files: [{path: /a, mode: 0644, contents: {remote: {url: "s3://[\'"}}}]}',
    "no YAML": "a: [",
    "a list": "- a",
    "a word": "a",
    "another version": "version: 1",
    "a name twice": "docker: {}\ndocker: {}\n",
    "a word for a map": "storage: x",
    "a map for a list": "storage: {files: {}}",
    "a word for a list": "docker: {flags: x}",
    "a mode that is none": "storage: {files: [{path: /a, mode: x}]}",
    "a mode that is too large": "storage: {files: [{path: /a, mode: 07777777}]}",
    "a switch that is none": "systemd: {units: [{name: a.service, mask: maybe}]}",
    "a relative path": "storage: {files: [{path: a, mode: 0644}]}",
    "no path": "storage: {files: [{mode: 0644}]}",
    "two contents": "storage: {files: [{path: /a, mode: 0644, contents: {inline: x, remote: {url: 'http://e'}}}]}",
    "a local file": "storage: {files: [{path: /a, mode: 0644, contents: {local: x}}]}",
    "append and overwrite": "storage: {files: [{path: /a, mode: 0644, append: true, overwrite: true}]}",
    "an id and a name": "storage: {files: [{path: /a, mode: 0644, user: {id: 1, name: a}}]}",
    "a scheme that is not fetched": "storage: {files: [{path: /a, mode: 0644, contents: {remote: {url: 'ftp://e'}}}]}",
    "data that a URL cannot have": "storage: {files: [{path: /a, mode: 0644, contents: {remote: {url: 'data:,{}'}}}]}",
    "no scheme": "storage: {files: [{path: /a, mode: 0644, contents: {remote: {url: e/f}}}]}",
    "another compression": (
        "storage: {files: [{path: /a, mode: 0644, contents: {remote: {url: 'http://e', compression: xz}}}]}"
    ),
    "another hash": (
        "storage: {files: [{path: /a, mode: 0644, contents: {remote: {url: 'http://e',"
        " verification: {hash: {function: sha256, sum: x}}}}}]}"
    ),
    "a hash that is short": (
        "storage: {files: [{path: /a, mode: 0644, contents: {remote: {url: 'http://e',"
        " verification: {hash: {function: sha512, sum: x}}}}}]}"
    ),
    "a size that is none": "storage: {disks: [{device: /dev/a, partitions: [{size: big}]}]}",
    "a size without a unit": "storage: {disks: [{device: /dev/a, partitions: [{size: 1048576}]}]}",
    "a size in small letters": "storage: {disks: [{device: /dev/a, partitions: [{size: 1mb}]}]}",
    "a size that is no whole MiB": "storage: {disks: [{device: /dev/a, partitions: [{size: 1KiB}]}]}",
    "a long size": f"storage: {{disks: [{{device: /dev/a, partitions: [{{size: {'0' * 20_000}x}}]}}]}}",
    "a size below zero": "storage: {disks: [{device: /dev/a, partitions: [{size: -1GiB}]}]}",
    "a GUID that is none": "storage: {disks: [{device: /dev/a, partitions: [{type_guid: swap}]}]}",
    "a number twice": "storage: {disks: [{device: /dev/a, partitions: [{number: 1}, {number: 1}]}]}",
    "a label that is too long": f"storage: {{disks: [{{device: /dev/a, partitions: [{{label: {'a' * 37}}}]}}]}}",
    "a disk without a device": "storage: {disks: [{wipe_table: true}]}",
    "a RAID of no level": "storage: {raid: [{name: a, devices: [/dev/a]}]}",
    "spares of a stripe": "storage: {raid: [{name: a, level: raid0, devices: [/dev/a], spares: 1}]}",
    "a relative device": "storage: {raid: [{name: a, level: raid1, devices: [sda]}]}",
    "a file system of nothing": "storage: {filesystems: [{name: a}]}",
    "a file system of both": "storage: {filesystems: [{name: a, path: /a, mount: {device: /d, format: ext4}}]}",
    "a format that is not known": "storage: {filesystems: [{name: a, mount: {device: /d, format: zfs}}]}",
    "a label of a file system that is too long": (
        f"storage: {{filesystems: [{{name: a, mount: {{device: /d, format: xfs, label: {'a' * 13}}}}}]}}"
    ),
    "create and wipe": (
        "storage: {filesystems: [{name: a, mount: {device: /d, format: xfs, wipe_filesystem: true, create: {force: true}}}]}"
    ),
    "a unit of no kind": "systemd: {units: [{name: a}]}",
    "a unit that is none": 'systemd: {units: [{name: a.service, contents: "[Service\\nA=b"}]}',
    "an option that is none": 'systemd: {units: [{name: a.service, contents: "[Service]\\nfoo\\n"}]}',
    "something after a section": 'systemd: {units: [{name: a.service, contents: "[Service] x\\nA=b\\n"}]}',
    "a line that is too long": f'systemd: {{units: [{{name: a.service, contents: "[Service]\\nA={"b" * 3000}"}}]}}',
    "a drop-in of no kind": "systemd: {units: [{name: a.service, dropins: [{name: a}]}]}",
    "a network of no kind": "networkd: {units: [{name: a.service}]}",
    "a user that is made twice": "passwd: {users: [{name: a, shell: /x, create: {uid: 1}}]}",
    "a strategy that is not known": "locksmith: {reboot_strategy: never}",
    "a window without a length": "locksmith: {window_start: '10:00'}",
    "a window on no day": "locksmith: {window_start: 'Foo 10:00', window_length: 1h}",
    "a window at no time": "locksmith: {window_start: '25:00', window_length: 1h}",
    "a window of no length": "locksmith: {window_start: '10:00', window_length: long}",
    "an etcd that is old": "etcd: {version: 2.2.0}",
    "an etcd that is not known": "etcd: {version: 4.0.0}",
    "an etcd of no version": "etcd: {version: 3.5}",
    "a number that is none": "etcd: {snapshot_count: many}",
    "a variable of a platform": "etcd: {advertise_client_urls: 'http://{PRIVATE_IPV4}:2379'}",
    "a flannel that is old": "flannel: {version: 0.4.0}",
    "a network that is no JSON": "flannel: {network_config: x}",
    "a network that is no object": "flannel: {network_config: '[]'}",
    "a network beside Kubernetes": "flannel: {version: 0.7.0, kube_subnet_mgr: true, network_config: '{}'}",
}
