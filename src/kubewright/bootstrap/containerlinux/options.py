"""The options of etcd and flannel that a Container Linux Config may have, by version, in their order.

Theory.      An option has the name of a flag with underscores. Each minor version of etcd has its own, in an
             order of its own, in which they stand on the command line. An option that not all versions of its
             table have says which: ``@2-`` from minor version 2 on, ``@-4`` to minor version 4.
Source       the notation's published specification; v0.9.4 of its transpiler.
Called by    ``programs``, ``notation``.
"""

from collections.abc import Iterator

Version = tuple[int, int, int]

_ETCD_2 = """
advertise_client_urls ca_file cert_file client_cert_auth cors data_dir debug discovery discovery_fallback
discovery_srv discovery_proxy election_timeout enable_pprof force_new_cluster heartbeat_interval
initial_advertise_peer_urls initial_cluster initial_cluster_state initial_cluster_token key_file
listen_client_urls listen_peer_urls log_package_levels max_snapshots max_wals name peer_ca_file
peer_cert_file peer_key_file peer_client_cert_auth peer_trusted_ca_file proxy proxy_dial_timeout
proxy_failure_wait proxy_read_timeout proxy_refresh_interval proxy_write_timeout snapshot_count
strict_reconfig_check trusted_ca_file wal_dir
"""
"""etcd 2.3 and later."""

_ETCD_3_0 = """
name data_dir wal_dir snapshot_count heartbeat_interval election_timeout enable_pprof enable_v2@2-
listen_peer_urls listen_client_urls max_snapshots max_wals cors quota_backend_bytes@3- max_txn_ops@3-
max_request_bytes@3- grpc_keepalive_min_time@3- grpc_keepalive_interval@3- grpc_keepalive_timeout@3-
initial_advertise_peer_urls initial_cluster initial_cluster_state initial_cluster_token
advertise_client_urls discovery discovery_srv discovery_fallback discovery_proxy strict_reconfig_check
auto_compaction_retention auto_compaction_mode@3- proxy proxy_failure_wait proxy_refresh_interval
proxy_dial_timeout proxy_write_timeout proxy_read_timeout ca_file cert_file key_file client_cert_auth
client_crl_file@3- trusted_ca_file auto_tls peer_ca_file peer_cert_file peer_key_file
peer_client_cert_auth peer_crl_file@3- peer_trusted_ca_file peer_auto_tls peer_cert_allowed_cn@3-
auth_token@2- debug log_package_levels force_new_cluster metrics@1- log_output@1- listen_metrics_urls@3-
experimental_initial_corrupt_check@3- experimental_corrupt_check_time@3- experimental_enable_v2v3@3-
"""
"""etcd 3.0 to 3.3."""

_ETCD_3_4 = """
name data_dir wal_dir snapshot_count heartbeat_interval election_timeout initial_election_tick_advance
listen_peer_urls listen_client_urls max_snapshots max_wals quota_backend_bytes
backend_bbolt_freelist_type@5- backend_batch_interval backend_batch_limit max_txn_ops max_request_bytes
grpc_keepalive_min_time grpc_keepalive_interval grpc_keepalive_timeout socket_reuse_port@5-
socket_reuse_address@5- initial_advertise_peer_urls initial_cluster initial_cluster_state
initial_cluster_token advertise_client_urls discovery discovery_fallback discovery_proxy discovery_srv
discovery_srv_name strict_reconfig_check pre_vote auto_compaction_retention auto_compaction_mode enable_v2
v2_deprecation@5- cert_file key_file client_cert_auth client_crl_file client_cert_allowed_hostname
trusted_ca_file auto_tls peer_cert_file peer_key_file peer_client_cert_auth peer_trusted_ca_file
peer_cert_allowed_cn peer_cert_allowed_hostname peer_auto_tls self_signed_cert_validity@5- peer_crl_file
cipher_suites cors host_whitelist auth_token bcrypt_cost auth_token_ttl enable_pprof metrics
listen_metrics_urls logger log_outputs log_level enable_log_rotation@5- log_rotation_config_json@5-
experimental_enable_distributed_tracing@5- experimental_distributed_tracing_address@5-
experimental_distributed_tracing_service_name@5- experimental_distributed_tracing_instance_id@5- proxy
proxy_failure_wait proxy_refresh_interval proxy_dial_timeout proxy_write_timeout proxy_read_timeout
experimental_initial_corrupt_check experimental_corrupt_check_time experimental_enable_v2v3
experimental_backend_bbolt_freelist_type@-4 experimental_enable_lease_checkpoint
experimental_compaction_batch_limit experimental_watch_progress_notify_interval
experimental_warning_apply_duration experimental_txn_mode_write_with_shared_buffer@5- force_new_cluster
debug@-4 log_package_levels@-4 unsafe_no_fsync@5-
"""
"""etcd 3.4 and later; what is newer than 3.5 has the options of 3.5."""

_NUMBERS = """
auth_token_ttl backend_batch_limit bcrypt_cost election_timeout experimental_compaction_batch_limit
heartbeat_interval max_request_bytes max_snapshots max_txn_ops max_wals proxy_dial_timeout
proxy_failure_wait proxy_read_timeout proxy_refresh_interval proxy_write_timeout quota_backend_bytes
self_signed_cert_validity snapshot_count
"""
"""The options of etcd that are numbers; until 3.2, ``auto_compaction_retention`` is one, too."""

_SWITCHES = """
auto_tls client_cert_auth debug enable_log_rotation enable_pprof enable_v2
experimental_enable_distributed_tracing experimental_enable_lease_checkpoint
experimental_initial_corrupt_check experimental_txn_mode_write_with_shared_buffer force_new_cluster
initial_election_tick_advance peer_auto_tls peer_client_cert_auth pre_vote socket_reuse_address
socket_reuse_port strict_reconfig_check unsafe_no_fsync
"""
"""Those that are true or false. All others are text."""

_FLANNEL = """
etcd_username@6- etcd_password@6- etcd_endpoints etcd_cafile etcd_certfile etcd_keyfile etcd_prefix ip_masq
subnet_file interface public_ip kube_subnet_mgr@7-
"""
"""flannel 0.5 to 0.7; what is newer than 0.7 has the options of 0.7."""

FLAGS = {"interface": "iface"}
"""Options whose flag has another name."""

ETCD_DEFAULT, ETCD_OLDEST, ETCD_NEWEST = (3, 5, 0), (2, 3, 0), {2: 3, 3: 5}
"""The version of etcd that is meant where none is given, the oldest, and the newest minor versions."""

FLANNEL_DEFAULT, FLANNEL_OLDEST, FLANNEL_NEWEST = (0, 6, 0), (0, 5, 0), 7

TEXT, NUMBER, COUNT, SWITCH = "text", "number", "number from 0 on", "switch"
"""The types of fields."""


def etcd(version: Version) -> dict[str, str]:
    """The options of a version of etcd, with their types; empty for a version that is not known."""
    major, minor, _ = version
    if major == 2 and minor >= ETCD_NEWEST[2]:
        names = _ETCD_2.split()
    elif major == 3:
        newest = min(minor, ETCD_NEWEST[3])
        names = list(_of(_ETCD_3_0 if newest < 4 else _ETCD_3_4, newest))
    else:
        return {}
    found = {name: _type(name) for name in names}
    if version < (3, 3, 0) and "auto_compaction_retention" in found:
        found["auto_compaction_retention"] = NUMBER
    return found


def flannel(version: Version) -> dict[str, str]:
    """The options of a version of flannel, with their types; empty for a version that is not known."""
    major, minor, _ = version
    if major or minor < FLANNEL_OLDEST[1]:
        return {}
    names = _of(_FLANNEL, min(minor, FLANNEL_NEWEST))
    return {name: SWITCH if name == "kube_subnet_mgr" else TEXT for name in names}


def _of(table: str, minor: int) -> Iterator[str]:
    for word in table.split():
        name, _, range_ = word.partition("@")
        first, _, last = range_.partition("-")
        if int(first or 0) <= minor <= int(last or minor):
            yield name


def _type(name: str) -> str:
    if name in _NUMBERS.split():
        return NUMBER
    return SWITCH if name in _SWITCHES.split() else TEXT
