"""Schedules: bounded text, moments with time zones, words."""

import time
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import pytest
from celery.schedules import crontab as celery_crontab
from hypothesis import given, settings
from hypothesis import strategies as st

from crontasks.errors import BadScheduleError
from crontasks.schedule.crontab import FIELDS, Crontab, parse
from crontasks.schedule.moments import Every, Timed, build, upcoming
from crontasks.schedule.words import in_words

pytestmark = pytest.mark.fast
# The first day that a month does not have.
LATER_THAN_LAST = {2: 30, 4: 31, 6: 31, 9: 31, 11: 31}
NOW = datetime(2026, 3, 28, 20, 0, tzinfo=UTC)
BERLIN = "Europe/Berlin"


def timed(text: str, zone: str = "UTC") -> Timed:
    schedule = build(crontab=text, interval_seconds=None, zone=zone)
    assert isinstance(schedule, Timed)
    return schedule


def texts(moments: list[datetime], zone: str = BERLIN) -> list[str]:
    return [f"{moment.astimezone(ZoneInfo(zone)):%d %H:%M}" for moment in moments]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("1--100000000 * * * *", "no minute"),
        ("0-99999999999999 * * * *", "no minute"),
        ("*/100000000 * * * *", "no minute"),
        ("* 0-24 * * *", "no hour"),
        ("60 * * * *", "0 to 59"),
        ("* * 0 * *", "1 to 31"),
        ("* * * 13 *", "1 to 12"),
        ("* * * * 8", "0 to 7"),
        ("* * * * fri-mon", "backwards"),
        ("*/0 * * * *", "step"),
        ("5/10 * * * *", "step needs"),
        ("*-5 * * * *", "begins with"),
        ("1-2-3 * * * *", "no minute"),
        ("٣ * * * *", "no minute"),
        (", * * * *", "no minute"),
        ("* * * *", "five fields"),
        ("", "five fields"),
        *((f"0 0 {day} {month} *", "never come") for month, day in LATER_THAN_LAST.items()),
        ("0 0 31 2 *", "never come"),
        ("0 0 30,31 feb *", "never come"),
        (",".join(["1"] * 200) + " * * * *", "at most 200"),
    ],
)
def test_text_that_is_no_schedule_is_refused_quickly_with_the_reason(text, word):
    began = time.thread_time()
    with pytest.raises(BadScheduleError) as refused:
        parse(text)
    assert time.thread_time() - began < 0.2
    assert word in refused.value.sentence
    assert refused.value.next_step


@given(st.text(max_size=300))
@settings(max_examples=300)
def test_any_text_is_read_or_refused_and_never_expands_without_bounds(text):
    try:
        crontab = parse(text)
    except BadScheduleError:
        return
    for field, values in crontab.fields():
        assert 1 <= len(values) <= field.most - field.least + 1
        assert all(field.least <= value <= field.most for value in values)


crontab_texts = st.tuples(
    *(
        st.one_of(
            st.just("*"),
            st.lists(st.integers(f.least, f.most), min_size=1, max_size=4).map(
                lambda values: ",".join(map(str, values))
            ),
            st.integers(1, f.most).map(lambda step: f"*/{step}"),
            st.tuples(st.integers(f.least, f.most), st.integers(f.least, f.most)).map(
                lambda pair: f"{min(pair)}-{max(pair)}"
            ),
        )
        for f in FIELDS
    )
).map(" ".join)


@given(crontab_texts)
@settings(max_examples=150)
def test_what_beat_is_given_means_the_same_to_celery(text):
    try:
        crontab = parse(text)
    except BadScheduleError:
        return
    minute, hour, day, month, weekday = crontab.texts()
    theirs = celery_crontab(minute, hour, weekday, day, month)
    assert theirs.minute == set(crontab.minutes)
    assert theirs.hour == set(crontab.hours)
    assert theirs.day_of_month == set(crontab.days)
    assert theirs.month_of_year == set(crontab.months)
    assert theirs.day_of_week == set(crontab.weekdays)
    # The columns of beat's table.
    assert all(len(t) <= n for t, n in zip(crontab.texts(), (240, 96, 124, 64, 64), strict=True))


@given(crontab_texts, st.integers(946_684_800, 3_786_912_000))
@settings(max_examples=60, deadline=None)
def test_latest_and_following_agree(text, seconds):
    try:
        schedule = timed(text, BERLIN)
    except BadScheduleError:
        return
    now = datetime.fromtimestamp(seconds, UTC)
    later = list(islice(schedule.following(now), 3))
    assert all(now < moment for moment in later)
    assert all(a < b for a, b in pairwise(later))
    for moment in later:
        assert schedule.latest(moment) == moment
        local = moment.astimezone(schedule.zone)
        assert local.minute in schedule.crontab.minutes
    latest = schedule.latest(now)
    if latest is not None and later:
        assert latest <= now < next(schedule.following(latest))


@given(st.integers(1, 31 * 86_400), st.integers(0, 10_000), st.integers(0, 4_000_000_000_000))
def test_an_interval_names_the_same_moments_on_every_host(seconds, number, milliseconds):
    schedule = build(crontab="", interval_seconds=seconds, zone="UTC", number=number)
    now = datetime.fromtimestamp(milliseconds / 1_000, UTC)
    latest = schedule.latest(now)
    assert latest is not None
    assert now - timedelta(seconds=seconds) <= latest <= now + timedelta(milliseconds=1)
    following = next(schedule.following(latest))
    assert following - latest == timedelta(seconds=seconds)
    assert datetime.fromisoformat(latest.isoformat()) == latest


def test_intervals_of_many_instances_are_spread():
    moments = {
        build(crontab="", interval_seconds=10, zone="UTC", number=n).latest(NOW) for n in range(20)
    }
    assert len(moments) == 20


def test_when_clocks_go_forward_a_missing_time_runs_as_late_as_it_would_have():
    assert texts(upcoming(timed("30 2 * * *", BERLIN), NOW, 3)) == [
        "29 03:30",
        "30 02:30",
        "31 02:30",
    ]
    assert texts(upcoming(timed("*/30 * * * *", BERLIN), NOW + timedelta(hours=4), 4)) == [
        "29 01:30",
        "29 03:00",
        "29 03:30",
        "29 04:00",
    ]


def test_when_clocks_go_back_a_time_runs_once_and_every_hour_runs_in_both():
    before = datetime(2026, 10, 24, 23, 50, tzinfo=UTC)
    assert texts(upcoming(timed("30 2 * * *", BERLIN), before, 2)) == ["25 02:30", "26 02:30"]
    assert texts(upcoming(timed("30 * * * *", BERLIN), before, 3)) == [
        "25 02:30",
        "25 02:30",
        "25 03:30",
    ]


def test_the_leap_day_on_a_monday_is_found_across_a_century_without_one():
    schedule = timed("0 0 29 2 mon")
    assert next(schedule.following(datetime(2080, 1, 1, tzinfo=UTC))) == datetime(
        2112, 2, 29, tzinfo=UTC
    )
    assert schedule.latest(datetime(2111, 1, 1, tzinfo=UTC)) == datetime(2072, 2, 29, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("* * * * *", "every minute (UTC)"),
        ("*/5 * * * *", "every 5 minutes (UTC)"),
        ("0 * * * *", "every hour (UTC)"),
        ("17 * * * *", "every hour at minute 17 (UTC)"),
        ("30 2 * * *", "at 02:30 every day (UTC)"),
        ("30 2 * * mon-fri", "at 02:30 on Monday to Friday (UTC)"),
        ("0 6,18 * * 0,7", "at 06:00 and 18:00 on Sunday (UTC)"),
        ("0 0 1 1,7 *", "at 00:00 on day 1 of the month in January and July (UTC)"),
        ("0 0 1-7 * 1", "at 00:00 on Monday if it is day 1 to 7 of the month (UTC)"),
        ("5,20 * * * *", "at the minutes 5 and 20 (UTC)"),
        ("*/20 8-17 * * *", "every 20 minutes in the hours 08 to 17 every day (UTC)"),
    ],
)
def test_words(text, words):
    assert in_words(timed(text)) == words


def test_words_of_a_schedule_that_is_no_crontab():
    assert in_words(object()) == "by its own rule"


@pytest.mark.parametrize(("month", "later"), LATER_THAN_LAST.items())
def test_the_last_day_of_a_month_comes(month, later):
    coming = next(timed(f"0 0 {later - 1} {month} *").following(NOW))
    assert (coming.month, coming.day) == (month, later - 1)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(1, "every second"), (10, "every 10 seconds"), (60, "every minute"), (7_200, "every 2 hours")],
)
def test_words_of_an_interval(seconds, words):
    assert in_words(Every(seconds)) == words


@pytest.mark.parametrize(
    ("crontab", "interval", "zone"),
    [
        ("", None, "UTC"),
        ("* * * * *", 10, "UTC"),
        ("", 0, "UTC"),
        ("", 31 * 86_400 + 1, "UTC"),
        ("* * * * *", None, "Mars/Olympus"),
        ("* * * * *", None, "../../etc/passwd"),
    ],
)
def test_an_instance_has_exactly_one_schedule_within_its_limits(crontab, interval, zone):
    with pytest.raises(BadScheduleError):
        build(crontab=crontab, interval_seconds=interval, zone=zone)


def test_a_crontab_is_a_value():
    assert (
        parse("0 0 * * 7")
        == parse("0 0 * * sun")
        == Crontab((0,), (0,), tuple(range(1, 32)), tuple(range(1, 13)), (0,))
    )
