"""A file of variables is read the same by everything that reads it, or it is refused."""

import os
import re
import stat
import subprocess

import pytest

from operators.setup import env_file

VALUES = {
    "PLAIN": "redis://:p-W_o.r%40d@host:6379/0?x=1,2",
    "OPTIONS": "postgres://a:b@h/n?sslmode=verify-full&sslrootcert=system",
    "ODD": '$HOME `id` "x" #y ~z ; | <(*) !1 {a,b} [c]',
}


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_shell_reads_what_was_written_and_runs_nothing(tmp_path, shell):
    file = tmp_path / ".env"
    env_file.create(file, "# It's a comment.\n" + "".join(f"{env_file.line_of(*pair)}\n" for pair in VALUES.items()))

    told = subprocess.run(
        [shell, "-c", f"set -a; . {file}; exec env -0"], env={"PATH": os.environ["PATH"]}, check=True,
        capture_output=True, text=True,
    ).stdout  # fmt: skip

    assert VALUES.items() <= dict(pair.partition("=")[::2] for pair in told.split("\0")).items()
    assert env_file.read_variables(file.read_text()) == VALUES


@pytest.mark.parametrize("value", ["it's", "back\\slash", "two\nlines", "tab\tbed", "ümlaut"])
def test_a_value_that_readers_disagree_about_is_not_written(value):
    with pytest.raises(ValueError, match=r"^NAME holds") as caught:
        env_file.line_of("NAME", value)
    assert value not in str(caught.value)


@pytest.mark.parametrize(
    "line",
    [
        'A="b"',
        "export A=b",
        "A=b c",
        "A=b&c",
        "A=$B",
        "A='b\\c'",
        "A='b' # c",
        "A=~/b",
        " A=b",
        "A",
        "A-B=c",
        "A=b\r",
        "A=b\x0c",
    ],
)
def test_a_line_that_readers_disagree_about_is_refused_by_its_number(line):
    with pytest.raises(ValueError, match=r"^line 2 is neither"):
        env_file.read_variables(f"# first\n{line}\n")


def test_a_variable_that_is_set_twice_is_refused_and_an_empty_one_is_not_set():
    with pytest.raises(ValueError, match=re.escape("line 3 sets A again.")):
        env_file.read_variables("A=1\n\nA=2\n")
    assert env_file.read_variables("A=\nB=''\n") == {}


def test_only_its_owner_reads_the_file_whatever_the_umask(tmp_path):
    before = os.umask(0)
    try:
        env_file.create(tmp_path / "new", "")
        env_file.replace(tmp_path / "copy", "")
        env_file.replace(tmp_path / "copy", "A=1\n")
    finally:
        os.umask(before)

    assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {
        "new": 0o600,
        "copy": 0o600,
    }
    assert (tmp_path / "copy").read_text() == "A=1\n"


def test_a_file_or_a_link_that_is_there_is_not_written(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileExistsError):
        env_file.create(tmp_path / "link", "A=1\n")
    assert not (tmp_path / "elsewhere").exists()


def test_no_key_is_added_to_a_file_that_others_read(tmp_path):
    file = tmp_path / ".env"
    file.write_text("A=1\n")
    file.chmod(0o640)

    with pytest.raises(PermissionError, match="chmod 600"):
        env_file.append(file, "KEY=secret\n")
    assert file.read_text() == "A=1\n"

    file.chmod(0o600)
    env_file.append(file, "B=2\n")
    assert file.read_text() == "A=1\nB=2\n"
