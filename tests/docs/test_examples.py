"""Examples run as they are."""

import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from duly import Duly
from tests.app.waiting import eventually
from tests.cli.terminals import CTRL_C, terminal

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


def test_two_schedulers_lose_and_double_nothing() -> None:
    said = run("two_schedulers.py")
    assert said.splitlines()[-1].endswith("nothing lost, nothing doubled")


def test_a_node_runs_and_ends_in_order(tmp_path: Path) -> None:
    store = str(tmp_path / "jobs.db")
    migrate = [sys.executable, "-m", "duly", "db", "migrate", "--store", store]
    subprocess.run(migrate, check=True, capture_output=True)
    assert run("node.py", store, "--seconds", "1").splitlines()[-1] == "healthy"


def test_a_worker_runs_coroutines_threads_and_processes(tmp_path: Path) -> None:
    charged, reminded, crunched = run("worker.py", "--demo", folder=tmp_path).splitlines()
    assert charged.startswith("Receipt(customer=7, total=42.5)")
    assert "charging 7" in charged
    assert reminded == "['reminded 0', 'reminded 1', 'reminded 2']"
    here, there = crunched.removeprefix("here: ").split(" there: (")
    assert not there.startswith(here)


def test_a_learning_platform_keeps_its_promises_through_an_outage() -> None:
    told = run("learning_platform.py")
    assert "skipped cancelled by class.cancelled" in told
    assert "runs Thu 2027-01-07 08:00 Europe/Berlin" in told, "a day before what it was moved to"
    assert re.search(r"clean_up\n  Sun 03:00  queued  queued 6 hours late\n", told)
    sent = told.partition("\nsent\n")[2].partition("\nwhy\n")[0].splitlines()
    assert [line.strip() for line in sent] == [
        "2 reports for 2027-01-04",
        "2 reports for 2027-01-05",
        "2 reports for 2027-01-06",
        "class 1",
        "2 reports for 2027-01-07",
        "2 reports for 2027-01-08",
        "class 3",
        "old recordings are gone",
        "2 reports for 2027-01-10",
    ]
    assert "skipped at 09:00: it could not start within 4 hours of its due time" in told
    assert "no scheduler was running" in told


def test_a_shop_at_work_has_something_of_everything(tmp_path: Path) -> None:
    asked = {**os.environ, "DULY_STORE_OF_COMMAND": str(tmp_path / "shop.db")}
    command = [sys.executable, "-m", "duly", "up", str(EXAMPLES / "shop.py")]
    shop = subprocess.Popen(command, env=asked, cwd=tmp_path, stderr=subprocess.DEVNULL)
    try:
        opening = [sys.executable, str(EXAMPLES / "shop.py")]
        subprocess.run(opening, env=asked, cwd=tmp_path, check=True, timeout=60)
        app = Duly(str(tmp_path / "shop.db"))
        opened = partial(app.jobs.count, "state:succeeded task:open_shop")
        failed = partial(app.jobs.count, "state:failed task:broken")
        eventually(lambda: 0 < opened() == failed(), "a job that fails for good each time it opens")
        eventually(
            lambda: "skipped" in {fire.outcome for fire in app.schedules.history("rollup")},
            "a moment that is skipped",
        )
    finally:
        shop.terminate()
        assert shop.wait(30) == 0
    names = {schedule.name for schedule in app.schedules.list()}
    assert names == {
        "nightly_report",
        "invoices",
        "stock",
        "rollup_eu",
        "heartbeat",
        "rollup",
        "open_shop",
        "daily_sales",
        "remind",
    }
    app.close()


@pytest.mark.thorough("the demo takes half a minute when it is to be shown once")
def test_the_demo_is_for_whoever_looks_and_ends_by_itself_if_it_is_to_be_shown_once(
    tmp_path: Path,
) -> None:
    """Both at once: most of it is waiting for what the shop does meanwhile."""
    with unwatched_demo(tmp_path) as unwatched:
        stays_open_until_ctrl_c()
        ends_by_itself(unwatched, tmp_path)


@contextmanager
def unwatched_demo(folder: Path) -> Iterator["subprocess.Popen[bytes]"]:
    with (
        (folder / "said").open("wb") as said,
        (folder / "talk").open("wb") as talk,
        subprocess.Popen(
            ["sh", "scripts/demo", "--once"],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=talk,
        ) as demo,
    ):
        try:
            yield demo
        finally:
            demo.terminate()


def ends_by_itself(demo: "subprocess.Popen[bytes]", folder: Path) -> None:
    code = demo.wait(90)
    said, talk = ((folder / name).read_text() for name in ("said", "talk"))
    assert code == 0, talk
    assert "100 % page 10 of 10" in talk
    for shown in (
        "  nightly_report\n",  # by the calendar
        "heartbeat +in ",  # an interval
        "scheduled  remind ",
        "succeeded at attempt 2",  # charge
        'overlap="skip", and the run of ',
        "failed     broken ",
        "nothing lost, nothing doubled",
    ):
        assert re.search(shown, said), shown
    assert "stays open" not in said


@pytest.mark.thorough("the demo works for ten seconds")
def test_the_demo_serves_its_dashboard_without_a_terminal_and_says_where_first() -> None:
    asked = {**os.environ, "DULY_WEB": "yes", "DULY_PORT": "0"}
    with subprocess.Popen(
        ["sh", "scripts/demo"],
        cwd=ROOT,
        env=asked,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as demo:
        assert demo.stdout is not None
        try:
            first = demo.stdout.readline()
            [address] = re.findall(r"^dashboard: (http://\S+)$", first, re.MULTILINE)
            browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
            with browser.open(address) as answer:
                assert b"</html>" in answer.read()
        finally:
            demo.terminate()
        assert demo.wait(30) == 143


@pytest.mark.thorough("the demo works for ten seconds")
def test_the_demo_closes_its_shop_when_nobody_reads_it_any_more(tmp_path: Path) -> None:
    """As in ``scripts/demo --once | head -1``."""
    with subprocess.Popen(
        ["sh", "scripts/demo", "--once"],
        cwd=ROOT,
        env={**os.environ, "DULY_WEB": "no", "TMPDIR": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as demo:
        assert demo.stdout is not None
        assert demo.stderr is not None
        demo.stdout.readline()
        demo.stdout.close()
        talk = demo.stderr.read()
        assert demo.wait(60) == 141
    assert "Traceback" not in talk
    assert list(tmp_path.iterdir()) == []  # the shop's files are removed when it has ended


def stays_open_until_ctrl_c() -> None:
    with terminal(["/bin/sh", "scripts/demo"], ROOT) as shown:
        shown.until("#] 100 % page 10 of 10")
        told = shown.until("duly jobs state:failed", within=90)
        [store] = re.findall(r"export DULY_URL=(\S+)", told)
        shown.shown = ""
        shown.until("heartbeat")  # what happens, in lines
        asked = [sys.executable, "-m", "duly", "why", "rollup", "--store", store]
        answer = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
        assert answer.startswith("rollup was due ")
        shown.type(CTRL_C)
        assert shown.ended() == 0
    assert "Your turn:" in shown.shown
    assert "stopping now" not in shown.shown
    assert not Path(store).exists()


@pytest.mark.thorough("builds and installs the package")
def test_the_package_has_the_shop_for_whoever_has_no_clone(tmp_path: Path) -> None:
    with terminal([sys.executable, "-m", "duly", "dev", "--demo"], tmp_path) as shown:
        shown.until("duly why rollup --store duly-demo.db")
        shown.until("order 4711 has no address", within=60)
        shown.type(CTRL_C)
        assert shown.ended() == 0
    assert (tmp_path / "duly-demo.db").exists()


def test_every_example_is_tested_here() -> None:
    found = {path.name for path in EXAMPLES.glob("[!0-9]*.py")}  # the numbered: test_situations
    assert found == {
        "learning_platform.py",
        "node.py",
        "shop.py",
        "two_schedulers.py",
        "worker.py",
    }


def run(name: str, *words: str, folder: Path | None = None) -> str:
    command = [sys.executable, "-W", "error", str(EXAMPLES / name), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout
