"""The `@tune` events: saying, reading, folding, drawing, relaying."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunebuild import progress
from tunebuild.progress import Display, Event, Relay, fold, line, parse


def folded(*lines: str, now_s: float = 0.0) -> Display:
    display = Display()
    for text in lines:
        event = parse(text)
        assert event is not None
        display = fold(display, event, now_s)
    return display


# --- reading


@pytest.mark.parametrize("text", ["", "compiling dot_f32", "@tuned plan", " @tune plan", "@tuneplan scope=a"])
def test_chatter_is_no_event(text: str) -> None:
    assert parse(text) is None


def test_bare_prefix_is_an_event_without_a_kind() -> None:
    assert parse("@tune\n") == Event("")


def test_value_with_a_space_is_cut_at_the_space() -> None:
    event = parse("@tune begin name=two words total=3")
    assert event is not None
    assert event.text("name") == "two"
    assert event.number("total") == 3
    assert "words" not in line(fold(folded("@tune plan scope=s total=1"), event, 0.0), 0.0, 80)


@pytest.mark.parametrize("word", ["", "many", "1.5", "0x10"])
def test_malformed_or_missing_integer_reads_as_zero(word: str) -> None:
    assert Event("plan", (("total", word),)).number("total") == 0
    assert Event("plan").number("total") == 0


def test_unknown_kind_settle_and_abort_change_nothing() -> None:
    before = folded("@tune plan scope=s total=2", "@tune begin name=dot total=5")
    settled = "@tune settle name=dot winner=u1 verdict=holds"
    for text in ("@tune narrowed rows=3", settled, "@tune abort reason=interrupt at=dot", "@tune"):
        event = parse(text)
        assert event is not None and fold(before, event, 9.0) == before


# --- saying


def test_what_is_said_is_read_back() -> None:
    said = [
        progress.plan("tunekit", 3),
        progress.begin("dot_f32", 32),
        progress.step(1, "screening", 20),
        progress.end("dot_f32", "isa_avx2_u4", "beats", 812),
        progress.settle("dot_f32", "isa_avx2_u1", "holds"),
        progress.abort("interrupt", "axpy"),
    ]
    assert said[0] == "@tune plan scope=tunekit total=3\n"
    assert said[3] == "@tune end name=dot_f32 winner=isa_avx2_u4 verdict=beats ms=812\n"
    assert [event.kind for text in said if (event := parse(text))] == list(progress.KINDS)


def test_empty_winner_is_said_and_read() -> None:
    event = parse(progress.end("dot", "", "rejected", 5))
    assert event is not None and event.text("winner") == "" and event.text("verdict") == "rejected"


@pytest.mark.parametrize("name", ["two words", "a\tb", "line\nbreak"])
def test_emitter_refuses_a_value_with_a_space(name: str) -> None:
    with pytest.raises(ValueError, match="holds a space"):
        progress.begin(name, 1)


def test_emitter_refuses_an_unknown_verdict() -> None:
    with pytest.raises(ValueError, match="holds, beats, rejected, skipped"):
        progress.end("dot", "u4", "won", 1)


# --- folding


def test_chatter_starts_no_display_and_plan_starts_it_at_none_of_total() -> None:
    assert not Display().active
    display = folded("@tune plan scope=s total=4")
    assert display.active
    assert line(display, 0.0, 80) == f"[{'-' * 28}] 0/4  0s"


def test_begin_and_step_show_name_phase_rounds_and_live() -> None:
    display = folded(
        "@tune plan scope=s total=4", "@tune begin name=dot total=8", "@tune step i=2 phase=finalists live=3"
    )
    assert line(display, 0.0, 80).endswith("0/4  dot  finalists 2/8  3 live  0s")


def test_round_budget_of_zero_shows_no_inner_count() -> None:
    display = folded(
        "@tune plan scope=s total=4", "@tune begin name=dot total=0", "@tune step i=2 phase=best-of live=0"
    )
    assert line(display, 0.0, 80).endswith("0/4  dot  0s")


def test_each_end_counts_one_and_keeps_the_name_until_the_next_begin() -> None:
    display = folded(
        "@tune plan scope=s total=2", "@tune begin name=dot total=8", "@tune step i=1 phase=x live=9"
    )
    for done in (1, 2):
        display = fold(display, Event("end"), 0.0)
        assert (display.done, display.kernel, display.live, display.rounds) == (done, "dot", 0, 0)


def test_second_plan_discards_everything_of_the_first() -> None:
    first = folded(
        "@tune plan scope=a total=9", "@tune begin name=dot total=8", "@tune step i=1 phase=x live=9"
    )
    second = fold(fold(first, Event("end"), 0.0), Event("plan", (("total", "2"),)), 50.0)
    assert second == Display(active=True, started_s=50.0, total=2)


# --- drawing


@given(st.integers(0, 50), st.integers(0, 50), st.integers(1, 300))
def test_bar_has_8_to_28_cells_filled_in_proportion(done: int, total: int, columns: int) -> None:
    drawn = line(Display(active=True, total=total, done=done), 0.0, columns)
    bar = drawn[1 : drawn.index("]")]
    assert 8 <= len(bar) <= 28
    assert bar == "#" * bar.count("#") + "-" * bar.count("-")
    expected = len(bar) * min(done, total) // total if total else 0
    assert bar.count("#") == expected


def test_bar_is_empty_at_none_and_full_at_all() -> None:
    assert "#" not in line(Display(active=True, total=5, done=0), 0.0, 80)
    assert "-" not in line(Display(active=True, total=5, done=5), 0.0, 80)


def test_counters_survive_on_a_narrow_terminal() -> None:
    stream = io.StringIO()
    relay = Relay(stream, isatty=True, columns=20, clock=lambda: 0.0)
    relay.feed("@tune plan scope=s total=12\n")
    assert "0/12" in stream.getvalue()


def test_bar_cells_fill_what_the_terminal_leaves() -> None:
    display = Display(active=True, total=10, done=1, kernel="dot")
    head, tail = "1/10", "  dot  0s"
    assert line(display, 0.0, 40).index("]") - 1 == 40 - len(head) - len(tail) - 6


@pytest.mark.parametrize(
    ("seconds", "said"), [(0, "0s"), (59.9, "59s"), (60, "01m00s"), (125, "02m05s"), (3725, "62m05s")]
)
def test_elapsed_is_seconds_then_minutes(seconds: float, said: str) -> None:
    assert progress.elapsed(seconds) == said


# --- relaying


def relay(verbosity: progress.Verbosity = "normal", isatty: bool = False) -> tuple[Relay, io.StringIO]:
    stream = io.StringIO()
    return Relay(stream, isatty=isatty, verbosity=verbosity, columns=60, clock=lambda: 0.0), stream


@pytest.mark.parametrize("word", progress.VERBOSITIES)
def test_pipe_gets_events_unchanged_at_every_verbosity(word: progress.Verbosity) -> None:
    passing, stream = relay(word)
    said = progress.plan("s", 2) + progress.step(1, "screening", 3)
    for text in said.splitlines(keepends=True):
        passing.feed(text)
    assert stream.getvalue() == said


@pytest.mark.parametrize("word", progress.VERBOSITIES)
def test_terminal_never_shows_a_raw_event(word: progress.Verbosity) -> None:
    passing, stream = relay(word, isatty=True)
    passing.feed(progress.plan("s", 2))
    passing.feed(progress.begin("dot", 3))
    assert "@tune" not in stream.getvalue()
    assert ("0/2" in stream.getvalue()) == (word == "normal")


def test_drawn_line_is_padded_between_carriage_returns() -> None:
    passing, stream = relay(isatty=True)
    passing.feed(progress.plan("s", 2))
    drawn = stream.getvalue()
    assert drawn.startswith("\r") and drawn.endswith("\r") and len(drawn) == 61 and "\n" not in drawn


def test_abort_is_printed_raw_on_a_terminal() -> None:
    passing, stream = relay(isatty=True)
    passing.feed(progress.plan("s", 2))
    passing.feed(progress.abort("interrupt", "dot"))
    assert stream.getvalue().endswith("@tune abort reason=interrupt at=dot\n")


def test_tuner_without_events_prints_as_if_nothing_were_there() -> None:
    for word in ("normal", "verbose"):
        passing, stream = relay(progress.verbosity(word))
        passing.feed("hello\n")
        passing.feed("world")
        assert stream.getvalue() == "hello\nworld\n"


def test_silent_drops_chatter_and_notes() -> None:
    passing, stream = relay("silent")
    passing.feed("hello\n")
    passing.note("careful")
    assert stream.getvalue() == ""


def test_normal_drops_chatter_while_a_display_is_active_even_in_a_pipe() -> None:
    passing, stream = relay()
    passing.feed(progress.plan("s", 1))
    passing.feed("chatter\n")
    passing.finish()
    passing.feed("after\n")
    assert stream.getvalue() == progress.plan("s", 1) + "after\n"


def test_note_wipes_the_line_and_leaves_the_display_active() -> None:
    passing, stream = relay(isatty=True)
    passing.feed(progress.plan("s", 1))
    passing.note("dot is demoted")
    assert stream.getvalue().endswith("\r" + " " * 59 + "\rdot is demoted\n")
    assert passing.display.active


def test_finish_ends_a_drawn_line_once() -> None:
    passing, stream = relay(isatty=True)
    passing.feed(progress.plan("s", 1))
    passing.finish()
    passing.finish()
    assert stream.getvalue().count("\n") == 1
    assert not passing.display.active


def test_verbosity_takes_its_three_words_and_reads_others_as_normal() -> None:
    assert [progress.verbosity(word) for word in progress.VERBOSITIES] == list(progress.VERBOSITIES)
    assert progress.verbosity("loud") == progress.verbosity("") == "normal"
