"""Rules in words."""

import pytest

from duly.rules import parse


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("* * * * *", "Every minute."),
        ("*/5 * * * *", "Every 5 minutes."),
        ("*/5 * * * * Asia/Kolkata", "Every 5 minutes, Asia/Kolkata."),
        ("0 * * * *", "Every hour."),
        ("30 * * * *", "Every hour at minute 30."),
        ("5,7,11 * * * *", "At minutes 5, 7 and 11 of every hour."),
        ("*/7 * * * *", "At minutes 0, 7, 14, 21, 28, 35, 42, 49 and 56 of every hour."),
        ("30 2 * * * UTC", "Every day at 02:30 UTC."),
        ("0 9 * * 1-5 UTC", "Weekdays at 09:00 UTC."),
        ("0 9,12,17 * * sat,sun UTC", "Saturdays and Sundays at 09:00, 12:00 and 17:00 UTC."),
        ("0 0 1 * * UTC", "On the 1st of every month at 00:00 UTC."),
        ("0 0 1,15 * * UTC", "On the 1st and 15th of every month at 00:00 UTC."),
        ("0 0 13 * 5 UTC", "On the 13th of every month and every Friday at 00:00 UTC."),
        ("Fri *-*-13 UTC", "Every Friday that is the 13th of every month at 00:00 UTC."),
        ("0 4 1 1 * UTC", "On the 1st of January at 04:00 UTC."),
        ("*/15 9-17 * * 1-5 UTC", "Weekdays every 15 minutes from 09:00 to 17:45, UTC."),
        ("0 */6 * * * UTC", "Every day at 00:00, 06:00, 12:00 and 18:00 UTC."),
        ("0 */2 * * * UTC", "Every 2 hours, UTC."),
        ("0 22-2 * * * UTC", "Every day at minute 0 of hours 0 to 2, 22 and 23 UTC."),
        ("*-*~01 12:00 UTC", "On the last day of every month at 12:00 UTC."),
        ("Mon *-05~07/1 UTC", "Every Monday that is one of the last 7 days of May at 00:00 UTC."),
        ("0 0 LW * * UTC", "On the last weekday of every month at 00:00 UTC."),
        ("0 0 15W * * UTC", "On the weekday nearest the 15th of every month at 00:00 UTC."),
        ("0 0 * * FRI#2 UTC", "On the 2nd Friday of every month at 00:00 UTC."),
        ("0 0 * * 5L UTC", "On the last Friday of every month at 00:00 UTC."),
        ("0 9 * 6-8 1-5 UTC", "Weekdays in June to August at 09:00 UTC."),
        ("2026..2028-12-24 18:00 UTC", "On the 24th of December in 2026 to 2028 at 18:00 UTC."),
        ("*/10 * * * * *", "Every 10 seconds."),
        ("* * * * * *", "Every second."),
        ("30 0 9 * * * UTC", "Every day at 09:00:30 UTC."),
        ("*:*:0/0.5", "Every 0.5 seconds."),
        ("15,45 * * * * *", "Every minute at seconds 15 and 45."),
        ("every 90s", "Every 1 minute and 30 seconds."),
        ("every 1h from 2026-01-01T00:15Z", "Every hour from 2026-01-01 00:15:00 UTC."),
        (
            "every 2 weeks at 09:00 from 2026-01-05 UTC",
            "Every 2 weeks on Monday from 2026-01-05 at 09:00 UTC.",
        ),
        (
            "every 3 months at 09:00 from 2026-01-15 UTC",
            "On the 15th every 3 months from 2026-01-15 at 09:00 UTC.",
        ),
        ("2026-12-24T18:00Z", "Once, at 2026-12-24 18:00:00 UTC."),
        ("2026-12-24T18:00 Europe/Berlin", "On 2026-12-24 at 18:00 Europe/Berlin."),
        ("spaced 10m", "10 minutes after the end of the last run."),
        (
            "Mon..Fri 09:00 UTC | Sat 11:00 UTC",
            "Weekdays at 09:00 UTC; or Saturdays at 11:00 UTC.",
        ),
        (
            "0 9 * * * UTC - dates(2026-12-24,2026-12-25)",
            "Every day at 09:00 UTC; except on 2026-12-24 and 2026-12-25.",
        ),
        (
            "every 5m - (0 22 * * * UTC lasting=8h)",
            "Every 5 minutes; except for 8 hours from every day at 22:00 UTC.",
        ),
        (
            "09:00 UTC - dates(2026-12-24..2027-01-02)",
            "Every day at 09:00 UTC; except from 2026-12-24 to 2027-01-02.",
        ),
        ("every 1h jitter=10m seed=1", "Every hour, up to 10 minutes later."),
        (
            "0 9 * * * UTC start=2026-12-01T00:00Z count=3",
            "Every day at 09:00 UTC, from 2026-12-01 00:00 UTC, 3 times.",
        ),
    ],
)
def test_a_rule_explains_itself(text: str, sentence: str) -> None:
    assert parse(text).explain() == sentence


def test_a_cron_line_and_a_calendar_for_the_same_moments_say_the_same() -> None:
    assert parse("0 9 * * 1-5 UTC").explain() == parse("Mon..Fri 09:00 UTC").explain()
