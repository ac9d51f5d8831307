"""The real client's process queue, where what it does decides what a rule may say."""

from __future__ import annotations

import subprocess
from dataclasses import replace

from mqspec.core.offset_commit import ProcessQueue, must_wait


def test_flow_control_does_not_bound_what_is_finished_behind_a_stuck_message(
    java_command: list[str],
) -> None:
    """OFFSET-024, and the same of our process queue."""
    done = subprocess.run(
        [*java_command, "StuckMessage"], capture_output=True, text=True, check=True, timeout=180
    )
    words = done.stdout.splitlines()[-1].split()
    seen = {name: int(number) for name, number in zip(words[::2], words[1::2], strict=True)}
    assert seen["pulled"] >= 20_000
    assert seen["progress"] == 0
    batch = tuple(range(seen["span"] - 31, seen["span"] + 1))
    alone = ProcessQueue(1, next_offset=seen["pulled"], last_pull_ms=0, msg_tree_map=(0,))
    assert must_wait(replace(alone, msg_tree_map=(0, *batch)))
    assert not must_wait(alone)
