"""What a line of shell is called."""

import pytest

from duly.files.importers.program_name import program_name


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("/srv/backup.sh --full", "backup"),
        ("cd /srv && ./backup", "backup"),
        ("LANG=C A=b /usr/bin/report", "report"),
        ("sleep 30; /srv/late", "late"),
        ("sudo -u www-data -- php /srv/cron.php", "cron"),
        ("su - postgres -c 'psql -c \"vacuum\"'", "psql"),
        ("bash -lc 'cd /srv && make reports'", "reports"),
        ("sh /srv/tidy.sh now", "tidy"),
        ("/usr/bin/env python3.11 -u -m shop.reports.daily", "shop-reports-daily"),
        ("python3 -W ignore /srv/a.py", "a"),
        ("java -jar /opt/batch.jar", "batch"),
        ("nohup nice -n 5 /srv/slow > /dev/null 2>&1 &", "slow"),
        ("timeout 5m curl https://example.com", "curl"),
        ("> /var/log/x.log 2>&1 /srv/first", "first"),
        ("for x in 1 2; do /srv/loop $x; done", "for"),
        ("while true; do /srv/loop; done", "loop"),
        ("echo hello", "echo"),
        ("perl -e 'sleep 1'", "perl"),
        ('echo "unclosed', "echo"),
        ("$HOME/bin/Tidy_Up.py", "tidy_up"),
        ("`which backup` --all", "x"),
        ("??", "command"),
        (";", "command"),
    ],
)
def test_a_line_is_called_by_the_program_that_it_is_about(line: str, name: str) -> None:
    assert program_name(line) == name
