# SPDX-License-Identifier: Apache-2.0

"""The panel's token: its file, and the terminal."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

from ros2_dynid.errors import InputError
from ros2_dynid.preview.panel_token import make_token, token_of_file

SHOW = "from ros2_dynid.preview.panel_token import show_on_terminal; print(show_on_terminal('the token'))"


def test_a_file_is_made_once_and_read_by_its_owner_alone(tmp_path):
    file = tmp_path / "token"
    token = token_of_file(file)
    assert token_of_file(file) == token and file.stat().st_mode & 0o777 == 0o600 and len(token) >= 12
    assert len({make_token() for _ in range(20)}) == 20
    file.chmod(0o640)
    with pytest.raises(InputError, match="others may read"):
        token_of_file(file)
    file.chmod(0o600)
    for text in ("", "short", "with space", "t\xf6kens-of-yesterday"):
        file.write_text(text)
        with pytest.raises(InputError, match="less than 8 characters"):
            token_of_file(file)


def test_a_line_goes_to_the_terminal_and_not_to_the_output():
    main, terminal = pty.openpty()
    shown = subprocess.run(
        ["setsid", "--ctty", sys.executable, "-c", SHOW], stdin=terminal, stdout=subprocess.PIPE, text=True, timeout=60
    )
    assert shown.stdout == "True\n" and os.read(main, 100) == b"the token\r\n"
    alone = subprocess.run([sys.executable, "-c", SHOW], capture_output=True, text=True, start_new_session=True)
    assert alone.stdout == "False\n" and alone.stderr == ""
