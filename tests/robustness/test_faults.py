"""After any failed system call during writing, earlier files are unchanged and no partial files remain."""

import errno

import pytest
from faults import FILES, FOLDERS, content, fault_of_file, fault_of_folder


@pytest.mark.parametrize("name", FILES)
def test_files(name, tmp_path):
    if name in ("a.mp4", "a.gif"):
        pytest.importorskip("av")
    number, there = 0, True
    while there:
        number += 1
        fault, there = fault_of_file(name, tmp_path, number)
        assert fault is None, number
    assert number > 4


@pytest.mark.slow
@pytest.mark.parametrize("name", FOLDERS)
def test_folders(name, tmp_path):
    """After a failure at any call, resuming gives the same bytes."""
    FOLDERS[name](tmp_path / "whole")
    expected = content(tmp_path / "whole")
    assert expected
    place = tmp_path / "place"
    place.mkdir()
    number, there = 0, True
    while there:
        number += 1
        fault, there = fault_of_folder(name, place, expected, number)
        assert fault is None, number
    assert number > 10


def test_other_errors(tmp_path):
    """The error of the system is passed to the user."""
    for error in (errno.EACCES, errno.EIO):
        for number in (1, 2, 3):
            assert fault_of_file("a.urdf", tmp_path, number, error) == (None, True)
