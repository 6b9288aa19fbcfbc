"""What a user may choose about components that run as processes."""

import pwd

import pytest

from kubewright.api.controlplane.names import Component
from kubewright.api.meta import OwnerReference
from kubewright.base.errors import InvalidInput
from kubewright.controlplanes.hosting.contract import WorkloadIdentity
from kubewright.controlplanes.hosting.processes import options as users
from kubewright.controlplanes.hosting.processes.options import ProcessOptions, settings, user_of

OURS = pwd.getpwnam("nobody")


@pytest.mark.parametrize(
    ("name", "uid", "expected"),
    [
        pytest.param("", 1000, None, id="we are no root, and no user is named"),
        pytest.param(
            "", 0, (OURS.pw_uid, OURS.pw_gid), id="we are root, without a range: an unprivileged user"
        ),
        pytest.param("root", 0, None, id="we are root, and root is named"),
        pytest.param("nobody", OURS.pw_uid, None, id="the user that is named is who we are"),
        pytest.param(
            "root", 1000, "components can run as user root only where kubewright", id="another user"
        ),
        pytest.param("no-such-user", 0, "there is no user no-such-user for components", id="no such user"),
    ],
)
def test_who_programs_run_as(name, uid, expected):
    if isinstance(expected, str):
        with pytest.raises(InvalidInput, match=expected):
            user_of(name, uid, ALL)
    else:
        assert user_of(name, uid, ALL) == expected


def test_folders_of_the_option_are_looked_into_first(tmp_path):
    options = ProcessOptions(("/a", "/b"), addresses="127.77.0.0/16")
    found = settings(options, tmp_path, {"KUBEWRIGHT_ASSETS": "/c", "HOME": "/h"}, uid=1000)
    assert [str(each) for each in found.where.versioned] == ["/a", "/b", "/c", "/h/.cache/kubewright/kube"]
    assert (found.folder, found.addresses, found.user) == (tmp_path, "127.77.0.0/16", None)


def test_a_range_that_is_none_is_refused_at_once():
    with pytest.raises(InvalidInput, match=r"8\.0\.0\.0/8"):
        ProcessOptions(addresses="8.0.0.0/8")
    with pytest.raises(InvalidInput, match="from 1000 to 2147483646"):
        ProcessOptions(users="0-5")


ALL, FEW, ALONE = "0 0 4294967295", "0 100000 65536\n65536 300000 1000", "0 1000 1"


@pytest.mark.parametrize(
    ("options", "uid", "uid_map", "user", "uids"),
    [
        pytest.param({}, 0, ALL, None, (1_900_000_000, 1_999_999_999), id="root"),
        pytest.param({}, 1000, ALL, None, None, id="no root"),
        pytest.param(
            {"user": "nobody"}, 0, ALL, (OURS.pw_uid, OURS.pw_gid), None, id="root, and a user is named"
        ),
        pytest.param({}, 0, FEW, (OURS.pw_uid, OURS.pw_gid), None, id="root of few users"),
        pytest.param({}, 0, ALONE, None, None, id="root of no other user"),
        pytest.param(
            {"user": "nobody"}, 0, ALONE, "nobody does not exist in this user namespace", None, id="not there"
        ),
        pytest.param(
            {"users": "60000-60099"},
            0,
            FEW,
            None,
            (60000, 60099),
            id="root of few users, and these are named",
        ),
        pytest.param(
            {"users": "70000-70009"}, 0, FEW, "do not exist in this user namespace", None, id="not theirs"
        ),
    ],
)
def test_each_control_plane_has_a_user_where_that_is_possible(tmp_path, options, uid, uid_map, user, uids):
    asked = ProcessOptions(**options)
    if isinstance(user, str):
        with pytest.raises(InvalidInput, match=user):
            settings(asked, tmp_path, {}, uid=uid, uid_map=uid_map)
        return
    found = settings(asked, tmp_path, {}, uid=uid, uid_map=uid_map)
    assert (found.user, found.uids and (found.uids[0], found.uids[-1])) == (user, uids)


@pytest.mark.parametrize(
    "text",
    ["", "1", "5-", "-5", "2000-1999", "999-2000", "1000-2147483647", "a-b", "1e3-2e3"],
)
def test_ranges_of_users_that_are_none_are_refused(text):
    with pytest.raises(InvalidInput):
        users.read_uids(text)


OWNER = OwnerReference(api_version="v1", kind="Toy", name="toy", uid="u")


def plane(name, namespace="team", component=Component.ETCD):
    return WorkloadIdentity(namespace, name, component, OWNER)


def test_users_are_given_once_and_kept(tmp_path):
    found = users.Users(tmp_path, range(1_900_000_000, 1_900_000_003), "salt")
    one, other = found.of(plane("a")), found.of(plane("b"))
    assert {one, other, found.of(plane("a", "other"))} == {
        (uid, uid) for uid in range(1_900_000_000, 1_900_000_003)
    }
    assert found.of(plane("a", component=Component.API_SERVER)) == one
    with pytest.raises(InvalidInput, match="there is no user id left for control plane team/c"):
        found.of(plane("c"))
    again = users.Users(tmp_path, range(5000, 5009), "another")
    assert again.of(plane("b")) == other
    again.free(plane("b"))
    assert again.of(plane("b"))[0] in range(5000, 5009)
    assert (tmp_path / users.FILE).stat().st_mode & 0o777 == 0o600


def test_the_user_of_a_control_plane_follows_from_its_name_and_the_salt_of_the_folder():
    uids = users.read_uids(users.UIDS)
    assert users.choose_uid("a", "salt", (), uids) == users.choose_uid("a", "salt", (), uids)
    assert len({users.choose_uid(key, salt, (), uids) for key in "ab" for salt in ("x", "y")}) == 4


def test_no_account_of_the_machine_is_given():
    assert users.choose_uid("a", "salt", (), range(OURS.pw_uid - 1, OURS.pw_uid + 1)) == OURS.pw_uid - 1


def test_no_user_is_given_without_a_range_and_a_damaged_file_stops_the_start(tmp_path):
    assert users.Users(tmp_path, None, "salt").of(plane("a")) is None
    (tmp_path / users.FILE).write_text("{")
    with pytest.raises(InvalidInput, match="who programs run as"):
        users.Users(tmp_path, None, "salt")


@pytest.mark.parametrize(
    ("namespace", "present", "refused"),
    [
        ("a", [], ""),
        ("a", ["a"], ""),
        ("a", ["b"], "b"),
        ("a", ["a", "b"], ""),
        ("b", ["a", "b"], "a"),
        ("c", ["b", "a"], "a"),
    ],
)
def test_namespaces_are_not_mixed_where_programs_have_one_user(namespace, present, refused):
    told = users.mixed(namespace, present)
    assert (f"namespace {refused} run" in told) if refused else told == ""
