"""Situations that need real programs: scripts, workers, children, servers."""

import os
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path
from wsgiref.simple_server import WSGIRequestHandler, make_server

import pytest

from tests.app.programs import Programs
from tests.app.waiting import eventually
from tests.docs.situations import EXAMPLES, Open


def test_1_a_script_runs_what_other_programs_enqueue(
    situation: Open, programs: Programs, tmp_path: Path
) -> None:
    """Its tasks have the same names as a script and as a module."""
    first = situation("01_first_schedule")
    store = str(tmp_path / "duly.db")
    script = programs.start(str(EXAMPLES / "01_first_schedule.py"), DULY_URL=store)
    script.hear("registered as number")
    first.hello.enqueue().result("15s")
    assert "hello\n" in script.said
    assert [one.name for one in first.duly.schedules.list()] == ["hello"]
    script.signal()
    assert script.end() == 0


def test_5_one_at_a_time_for_each_customer(situation: Open) -> None:
    crm = situation("05_limits")
    with crm.duly.running(scheduler=False):
        jobs = crm.duly.enqueue_many(crm.sync_customer.bind(7 + n % 2) for n in range(10))
        for job in jobs:
            job.result("15s")
    assert crm.most == {7: 1, 8: 1}


def test_6_work_is_stopped_when_its_time_is_up(tmp_path: Path) -> None:
    done = run("06_cpu_heavy.py", folder=tmp_path)
    right, failed = done.splitlines()
    assert right == str(sum(number * number % 7 for number in range(100_000)))
    assert failed.endswith("(crunch) failed: attempt 1 of 1 ran longer than 1s; no attempt is left")


@pytest.mark.parametrize("whose", ["duly's", "ours"])
async def test_8_jobs_run_on_the_loop_of_the_application(situation: Open, whose: str) -> None:
    shop = situation("08_beside_asyncio")
    lifespan = shop.lifespan if whose == "ours" else shop.duly.lifespan
    async with lifespan(object()):
        number = await shop.buy(7)
        job = await shop.duly.jobs.aget(number)
        assert await job.aresult("15s") == "order 7 is confirmed"
    await shop.duly.aclose()


def test_9_a_view_enqueues_and_another_process_works(
    situation: Open, programs: Programs, tmp_path: Path
) -> None:
    shop = situation("09_beside_wsgi")
    programs.start(
        "-m",
        "duly",
        "up",
        str(EXAMPLES / "09_beside_wsgi.py"),
        DULY_URL=str(tmp_path / "duly.db"),
    )
    with make_server("127.0.0.1", 0, shop.application, handler_class=Silent) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/7") as answer:
                number = int(answer.read())
        finally:
            server.shutdown()
            thread.join()
    assert shop.duly.jobs.get(number).result("15s") == "order 7 is confirmed"


def test_10_a_test_of_a_night_passes(tmp_path: Path) -> None:
    asked = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, *asked, str(EXAMPLES / "10_virtual_time.py")],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert (done.returncode, "2 passed" in done.stdout) == (0, True), done.stdout
    assert list(tmp_path.iterdir()) == []


def test_13_a_crontab_runs_without_cron(tmp_path: Path) -> None:
    """Its line is due at night; here it is run by hand."""
    line = f"30 2 * * * cd {tmp_path} && echo kept | tee -a backup.log"
    folders = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    with subprocess.Popen(
        ["sh", str(EXAMPLES / "13_crontab.sh")],
        env={**os.environ, "PATH": folders},
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as script:
        assert script.stdin is not None
        assert script.stderr is not None
        try:
            script.stdin.write(f"# a copy, every night\n{line}\n")
            script.stdin.close()
            assert any("registered as number" in said for said in script.stderr)  # a worker
            command = [sys.executable, "-m", "duly", "schedules", "run", "tee"]
            subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
            log = tmp_path / "backup.log"
            eventually(lambda: log.exists() and log.read_text() == "kept\n", "what the line does")
        finally:
            script.terminate()
    assert script.returncode == 0
    assert 'title = "a copy, every night"' in (tmp_path / "schedules.toml").read_text()


class Silent(WSGIRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        """Nothing."""


def run(name: str, *, folder: Path) -> str:
    command = [sys.executable, "-W", "error", str(EXAMPLES / name)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout
