"""What a user may choose about components that run as processes."""

import pwd

import pytest

from kubewright.base.errors import InvalidInput
from kubewright.controlplanes.hosting.processes.options import ProcessOptions, settings, user_of

OURS = pwd.getpwnam("nobody")


@pytest.mark.parametrize(
    ("name", "uid", "expected"),
    [
        pytest.param("", 1000, None, id="we are no root, and no user is named"),
        pytest.param("", 0, (OURS.pw_uid, OURS.pw_gid), id="we are root: an unprivileged user"),
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
            user_of(name, uid)
    else:
        assert user_of(name, uid) == expected


def test_folders_of_the_option_are_looked_into_first(tmp_path):
    options = ProcessOptions(("/a", "/b"), addresses="127.77.0.0/16")
    found = settings(options, tmp_path, {"KUBEWRIGHT_ASSETS": "/c", "HOME": "/h"}, uid=1000)
    assert [str(each) for each in found.where.versioned] == ["/a", "/b", "/c", "/h/.cache/kubewright/kube"]
    assert (found.folder, found.addresses, found.user) == (tmp_path, "127.77.0.0/16", None)


def test_a_range_that_is_none_is_refused_at_once():
    with pytest.raises(InvalidInput, match=r"10\.0\.0\.0/8"):
        ProcessOptions(addresses="10.0.0.0/8")
