"""What is told of runs that take long, by a clock of the tests' own."""

from __future__ import annotations

import io
from collections.abc import Callable

from mqcheck.manifest import Counts, Model, Tier
from mqcheck.progress import EVERY_S, Pace, lines
from mqcheck.runner import Batch, Check
from mqcheck.tlc import Exit


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def batch(states: int) -> Batch:
    model = Model("MC_M", "", Tier.FULL, {}, Counts(distinct=1, states=states, depth=1))
    return Batch((Check(model, frozenset({"TypeOK"}), Exit.HOLDS),))


def started(asked: list[Batch]) -> tuple[Clock, io.StringIO, Callable[[Batch], None]]:
    clock, stream = Clock(), io.StringIO()
    return clock, stream, lines(Pace(asked, clock), stream, clock)


def test_a_line_is_written_where_the_last_is_old() -> None:
    asked = [batch(5_000), batch(15_000), batch(5_000)]
    clock, stream, done = started(asked)
    clock.now += EVERY_S / 2
    done(asked[0])
    assert stream.getvalue() == ""
    clock.now += EVERY_S / 2
    done(asked[1])
    # 20,000 states in 30 s; a start is worth 5,000: three quarters of the work are done.
    assert stream.getvalue() == "2 of 3 runs, 667 states/s, some 10 s left\n"
    clock.now += EVERY_S / 2
    done(asked[2])
    assert stream.getvalue().count("\n") == 1


def test_before_a_run_has_ended_there_is_no_estimate() -> None:
    clock = Clock()
    pace = Pace([batch(5_000)], clock)
    clock.now += 1
    assert str(pace) == "0 of 1 runs"
    assert pace.share == 0
    pace.add(batch(5_000))
    assert str(pace) == "1 of 1 runs, 5,000 states/s, some 0 s left"
    assert pace.share == 1
