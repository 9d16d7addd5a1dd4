"""``duly plan``, ``duly apply`` and ``duly export``: a file, a store, and people in between."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from duly.app import Store
from duly.app.access import login
from duly.cli.main import main
from duly.model.access import Actor
from duly.model.job import Owner
from duly.model.limit import Queue, Rate
from duly.policy.retry import Retry
from tests.cli.test_schedules import changes, on, plan, store
from tests.factories import plan as made_plan

__all__ = ["store"]

FILE = """\
[defaults]
zone = "Europe/Berlin"

[schedules.backup]
rule = "30 2 * * *"
shell = "/srv/backup --full"
attempts = 2

[schedules.ping]
rule = "every 5m"
http = { url = "https://example.com/ping" }
queue = "web"

[queues.web]
concurrency = 3
rate = "5/s"

[limits.crm]
concurrency = 2
"""
TASKS = """\
from datetime import date
from duly import Duly, Limit, Retry
duly = Duly()

@duly.task(queue="mail", priority="high", title="greet {name}", retry=Retry(attempts=7),
           limits=[Limit("greet:{name}", concurrency=1)], timeout="5m", executor="process")
def greet(name: str, day: date | None = None) -> None: ...

@duly.task(queue="slow")
def count(n: int = 1) -> None: ...
"""
GREET = """\
[schedules.ada]
rule = "every 1h"
task = "greet"
args = { name = "ada" }
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DULY_APP", raising=False)
    write(FILE)
    return tmp_path


@pytest.fixture
def shop(folder: Path) -> str:
    """An app; under a name of its own, since a module is imported once."""
    name = f"shop_{abs(hash(folder))}"
    (folder / f"{name}.py").write_text(TASKS)
    return name


def write(text: str) -> None:
    Path("schedules.toml").write_text(text)


def edit(old: str, new: str) -> None:
    text = Path("schedules.toml").read_text()
    assert old in text
    write(text.replace(old, new))


def duly(*words: str) -> Result:
    return CliRunner().invoke(main, words, prog_name="duly")


def said(*words: str, exit_code: int = 0) -> list[str]:
    result = duly(*words)
    assert result.exit_code == exit_code, result.output
    return result.stdout.splitlines()


def there(url: str, *names: str) -> Any:  # noqa: ANN401 - a Standing, with its mappings
    return on(url, lambda opened: opened.schedules.standing(names))


def person_sets(url: str, name: str, **fields: object) -> None:
    async def change(opened: Store) -> None:
        await opened.acting(Actor("grace", "program")).schedules.edit(
            name,
            lambda old: replace(old, **fields),  # type: ignore[arg-type]
        )

    on(url, change)


def test_a_file_is_planned_applied_and_then_nothing_is_left_to_do(store: str) -> None:
    planned = [
        "+ schedule backup  30 2 * * * Europe/Berlin  shell",
        "+ schedule ping  every 5m Europe/Berlin  http",
        "+ queue web  concurrency 3, rate 5/s",
        "+ limit crm  concurrency 2",
        "4 to add",
    ]
    assert said("plan") == planned
    assert there(store, "backup", "ping").schedules == {}
    assert said("apply") == planned
    assert said("plan") == ["nothing to do: 4 unchanged"]
    backup = plan(store, "backup")
    assert (backup.owner, backup.task, backup.zone) == (Owner.FILE, "duly.shell", "Europe/Berlin")
    assert backup.policies.retry == Retry(attempts=2).as_json()
    assert there(store).queues["web"] == Queue(name="web", concurrency=3, rate=Rate.parse("5/s"))
    assert there(store).limits["crm"].concurrency == 2
    assert changes(store, "backup") == [(login(), "added")]


def test_what_changes_in_the_file_changes_in_the_store_and_nothing_else(store: str) -> None:
    said("apply")
    needs = {"gpu": 1}  # a file has no word for it
    on(store, lambda opened: opened.schedules.edit("ping", lambda old: replace(old, needs=needs)))
    edit('"every 5m"', '"every 1m"')
    edit("concurrency = 3\n", "concurrency = 4\n")
    assert said("apply") == [
        '~ schedule ping  rule: "every 5m" -> "every 1m"',
        "~ queue web  concurrency: 3 -> 4",
        "2 to change, 2 unchanged",
    ]
    ping = plan(store, "ping")
    assert (ping.rule, ping.needs, ping.queue) == ("every 1m", needs, "web")
    assert there(store).queues["web"].rate == Rate.parse("5/s")


def test_what_a_person_set_stays_is_told_and_can_be_taken_back(store: str) -> None:
    said("apply")
    person_sets(store, "ping", queue="other")
    edit('"every 5m"', '"every 1m"')
    drift = (
        '! schedule ping  drift: queue is "other" (set by a person), the file says "web"; '
        "put it into the file, or --take-back"
    )
    assert drift in said("plan", exit_code=6)
    assert drift in said("apply", exit_code=6)
    assert (plan(store, "ping").queue, plan(store, "ping").rule) == ("other", "every 1m")
    assert json.loads("".join(said("plan", "-o", "json", exit_code=6)))["drift"] is True
    refused = duly("apply", "--take-back")
    assert refused.exit_code == 2
    assert "this would take back 1: add --yes" in refused.stderr
    assert plan(store, "ping").queue == "other"
    assert said("apply", "--take-back", "--yes") == [
        '~ schedule ping  queue: "other" -> "web"',
        "1 to change, 3 unchanged",
    ]
    assert plan(store, "ping").queue == "web"
    assert said("plan") == ["nothing to do: 4 unchanged"]


def test_what_left_the_file_stays_until_it_is_pruned(store: str) -> None:
    said("apply")
    write(
        '[schedules.ping]\nrule = "every 5m"\nqueue = "web"\nhttp.url = "https://example.com/ping"'
    )
    kept = said("apply")
    assert "? schedule backup  no longer in the file; --prune removes it" in kept
    assert plan(store, "backup").owner is Owner.FILE
    refused = duly("apply", "--prune")
    assert (refused.exit_code, "this would remove 3: add --yes" in refused.stderr) == (2, True)
    assert "- schedule backup" in said("apply", "--prune", "--yes")
    standing = there(store, "backup", "ping")
    assert (list(standing.schedules), standing.limits) == (["ping"], {})
    assert standing.queues["web"] == Queue(name="web")
    assert said("plan", "--prune") == ["nothing to do: 1 unchanged"]


def test_what_somebody_else_owns_is_not_taken_without_a_word(store: str) -> None:
    on(store, lambda opened: opened.schedules.add([made_plan("backup", owner=Owner.CODE)]))
    line = "! schedule backup  belongs to code; --take-back makes it the file's"
    assert line in said("apply", exit_code=6)
    assert (plan(store, "backup").owner, plan(store, "backup").task) == (Owner.CODE, "work")
    said("apply", "--take-back", "--yes")
    assert (plan(store, "backup").owner, plan(store, "backup").task) == (Owner.FILE, "duly.shell")


def test_a_pause_is_written_and_ended_by_the_file(store: str) -> None:
    write('[schedules.x]\nrule = "every 1h"\nshell = "true"\npaused = true\nnote = "the relay"\n')
    said("apply")
    found = there(store, "x").schedules["x"]
    assert (found.pause.note, found.pause.by, found.next_at) == ("the relay", login(), None)
    edit('paused = true\nnote = "the relay"\n', "")
    said("apply")
    assert there(store, "x").schedules["x"].pause is None
    on(
        store,
        lambda opened: opened.acting(Actor("grace", "program")).schedules.pause(
            "x", note="hands off"
        ),
    )
    assert any("drift: paused is true" in line for line in said("plan", exit_code=6))


def test_two_files_are_remembered_apart(store: str) -> None:
    said("apply")
    Path("other.toml").write_text('[schedules.x]\nrule = "every 1h"\nshell = "true"\n')
    assert said("apply", "other.toml", "--prune")[-1] == "1 to add"
    assert said("plan") == ["nothing to do: 4 unchanged"]
    assert said("plan", "other.toml", "--prune") == ["nothing to do: 1 unchanged"]
    renamed = said("plan", "other.toml", "--name", "third", "--prune")
    assert renamed == ["nothing to do: 1 unchanged"]
    assert there(store, "backup").schedules


def test_a_task_says_what_the_file_does_not(store: str, shop: str) -> None:
    write(GREET)
    said("apply", "--app", shop)
    ada = plan(store, "ada")
    assert (ada.queue, ada.priority, ada.title) == ("mail", 50, "greet ada")
    assert ada.policies.retry == Retry(attempts=7).as_json()
    assert [lane.name for lane in ada.limits] == ["greet:ada"]
    assert ada.terms.timeout is not None
    assert said("plan") == ["nothing to do: 1 unchanged"]


def test_other_arguments_mean_other_limits_and_another_title(store: str, shop: str) -> None:
    write(GREET)
    said("apply", "--app", shop)
    person_sets(store, "ada", queue="vip")
    edit('"ada" }', '"bob", day = "2026-03-05" }')
    told = said("apply", "--app", shop, exit_code=6)
    assert told[1] == (
        '! schedule ada  drift: queue is "vip" (set by a person), the file leaves it at "mail"; '
        "put it into the file, or --take-back"
    )
    ada = plan(store, "ada")
    assert (ada.title, [lane.name for lane in ada.limits]) == ("greet bob", ["greet:bob"])
    assert ada.queue == "vip"
    edit('task = "greet"\nargs = { name = "bob", day = "2026-03-05" }', 'task = "count"')
    said("apply", "--app", shop, exit_code=6)
    assert (plan(store, "ada").task, plan(store, "ada").queue) == ("count", "vip")
    said("apply", "--app", shop, "--take-back", "--yes")
    ada = plan(store, "ada")
    assert (ada.task, ada.queue, ada.title, ada.limits) == ("count", "slow", "", ())
    assert ada.terms.timeout is None
    assert said("plan") == ["nothing to do: 1 unchanged"]


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("--queue", "ops", 'queue is "ops" (set by a person), the file leaves it at "default"'),
        ("--priority", "9", "priority is 9 (set by a person), the file leaves it at 0"),
        ("--title", "Ops", 'title is "Ops" (set by a person), the file leaves it out'),
        ("--tags", "ops", 'tags is ["ops"] (set by a person), the file says nothing'),
        ("--overlap", "allow", 'overlap is "allow" (set by a person), the file says "skip"'),
        ("--start-within", "4h", 'start_within is "4h" (set by a person), the file says nothing'),
    ],
)
def test_what_a_person_edits_is_drift_whether_or_not_the_file_mentions_it(
    store: str, option: str, value: str, told: str
) -> None:
    write('[schedules.c]\nrule = "every 1h"\nshell = "true"\n')
    said("apply")
    said("schedules", "edit", "c", option, value)
    line = f"! schedule c  drift: {told}; put it into the file, or --take-back"
    assert said("plan", exit_code=6) == [line, "1 drifted"]
    edit('"every 1h"', '"every 2h"')
    said("apply", exit_code=6)
    assert said("plan", exit_code=6) == [line, "1 drifted"]
    said("apply", "--take-back", "--yes")
    assert said("plan") == ["nothing to do: 1 unchanged"]
    assert plan(store, "c").queue == "default"


def test_a_persons_queue_is_kept_when_the_file_begins_to_name_one(store: str) -> None:
    write('[schedules.c]\nrule = "every 1h"\nshell = "true"\n')
    said("apply")
    said("schedules", "edit", "c", "--queue", "ops")
    edit('"true"\n', '"true"\nqueue = "default"\n')
    said("apply", exit_code=6)
    assert plan(store, "c").queue == "ops"
    edit('queue = "default"', 'queue = "ops"')
    assert said("apply") == ["nothing to do: 1 unchanged"]
    edit('queue = "ops"\n', "")
    assert said("apply")[0] == '~ schedule c  queue: "ops" -> nothing'
    assert plan(store, "c").queue == "default"


def test_what_was_applied_before_tasks_were_remembered_is_left_alone(store: str, shop: str) -> None:
    write(GREET)
    said("apply", "--app", shop)

    async def forget(opened: Store) -> None:
        record = await opened.schedules.applied("schedules.toml")
        assert record is not None
        said_only = record.partition("# decided")[0]
        await opened.acting(Actor("ada", "program")).schedules.apply(
            "schedules.toml", expected=record, record=said_only, steps=[]
        )

    on(store, forget)
    person_sets(store, "ada", queue="vip")
    assert said("plan") == ["nothing to do: 1 unchanged"]
    edit('"every 1h"', '"every 2h"')
    said("apply")
    person_sets(store, "ada", queue="ops")
    assert 'the file leaves it at "vip"' in said("plan", exit_code=6)[0]


def test_without_an_app_a_task_is_refused_by_name_and_nothing_is_written(store: str) -> None:
    write(FILE + GREET)
    refused = duly("apply")
    assert refused.exit_code == 3
    assert '[schedules.ada] task = "greet": its app says' in refused.stderr
    assert "Add --app APP" in refused.stderr
    assert there(store, "backup").schedules == {}


SIGNATURE = "greet(name: str, day: datetime.date | None = None)"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (('"greet"', '"great"'), 'there is no task "great"; did you mean "greet"?'),
        (
            ('{ name = "ada" }', "{ name = 7 }"),
            f"the task is {SIGNATURE}: argument `name`: expected str, got int",
        ),
        (('{ name = "ada" }', "{}"), f"the task is {SIGNATURE}: args has no `name`"),
        (
            ('{ name = "ada" }', '{ nam = "ada", name = "ada" }'),
            f"the task is {SIGNATURE}: it has no parameter `nam`",
        ),
    ],
)
def test_arguments_that_do_not_fit_are_refused_before_anything_is_written(
    store: str, shop: str, change: tuple[str, str], words: str
) -> None:
    write(FILE + GREET)
    edit(*change)
    for verb in ("plan", "apply"):
        refused = duly(verb, "--app", shop)
        assert refused.exit_code == 2, refused.output
        assert refused.stderr.splitlines()[-1] == f"Error: [schedules.ada] {words}"
    assert there(store, "backup").schedules == {}


def test_a_plan_without_an_app_says_that_tasks_were_not_checked(store: str, shop: str) -> None:
    write(FILE + GREET.replace('"greet"', '"nosuch"'))
    unchecked = duly("plan")
    assert (unchecked.exit_code, unchecked.stderr) == (
        0,
        f"database: {store}\n"
        "note: no app is named, so the tasks of ada were not checked: use --app APP\n",
    )
    Path(f"{shop}.py").rename("tasks.py")
    checked = duly("plan")
    assert (checked.exit_code, "there is no task" in checked.stderr) == (2, True)


HANDED_OFF = """\
[schedules.mail]
rule = "every 1h"
task = "duly.send"
args = { target = "main", task = "shop.tasks.send_email", kwargs = { user = 7 } }
"""


@pytest.mark.usefixtures("store")
def test_a_hand_off_needs_no_app_and_its_target_must_be_one_of_the_settings() -> None:
    write(HANDED_OFF)
    assert "the settings here have no [targets], so main was not checked" in duly("plan").stderr
    target = '[targets.{}]\nkind = "webhook"\nurl = "https://example.com/work"\n'
    Path("duly.toml").write_text(target.format("main") + target.format("other"))
    for command in ("plan", "apply"):
        write(HANDED_OFF.replace('"main"', '"mian"'))
        unknown = duly(command)
        assert unknown.exit_code == 2
        assert (
            '[schedules.mail] target = "mian": the settings have no [targets.mian]; there are: '
            "main, other" in unknown.stderr
        )
        write(HANDED_OFF.replace("kwargs", "words"))
        misfit = duly(command)
        assert (misfit.exit_code, "words" in misfit.stderr) == (2, True)
    write(HANDED_OFF)
    assert said("apply") == ["+ schedule mail  every 1h  duly.send", "1 to add"]
    assert said("plan") == ["nothing to do: 1 unchanged"]


def test_a_program_is_tried_as_often_as_the_file_says_from_then_on(store: str) -> None:
    edit("attempts = 2\n", "")
    said("apply")
    assert plan(store, "backup").policies.retry is None
    edit('full"\n', 'full"\nattempts = 3\n')
    assert said("apply")[0] == "~ schedule backup  attempts: 1 -> 3"
    assert plan(store, "backup").policies.retry == Retry(attempts=3).as_json()


def test_a_wrong_file_and_a_missing_one_are_told_apart_from_drift(store: str) -> None:
    missing = duly("plan", "nowhere.toml")
    assert (missing.exit_code, "there is no file nowhere.toml" in missing.stderr) == (3, True)
    edit('"every 5m"', '"evry 5m"')
    wrong = duly("plan")
    assert wrong.exit_code == 2
    assert "schedules.toml: [schedules.ping] rule" in wrong.stderr
    Path("schedules.toml").write_bytes(b"\xff")
    assert "not UTF-8" in duly("plan").stderr
    assert there(store, "ping").schedules == {}


def test_a_plan_for_a_store_that_is_not_there_makes_none_and_applying_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "none.db"
    monkeypatch.setenv("DULY_URL", str(path))
    assert duly("export").exit_code == 5
    planned = duly("plan")
    assert (planned.exit_code, planned.stderr) == (0, f"database: {path} (does not exist yet)\n")
    assert "to add" in planned.stdout
    assert not path.exists()
    assert duly("apply").exit_code == 0
    assert "nothing to do" in duly("plan").stdout


def test_what_is_exported_is_what_was_applied_and_not_what_code_declares(store: str) -> None:
    said("apply")
    plans = [
        made_plan("coded", owner=Owner.CODE),
        made_plan("hers", owner=Owner.PERSON, tenant="t"),
    ]
    on(store, lambda opened: opened.schedules.add(plans))
    result = duly("export")
    assert result.exit_code == 0
    assert "note:" not in result.stderr
    assert "[schedules.hers]" in result.stdout
    assert 'tenant = "t"' in result.stdout
    assert "coded" not in result.stdout
    write(result.stdout.replace("[schedules.hers]", "[schedules.again]"))
    assert said("plan")[-1] == "1 to add, 4 unchanged"


def test_secrets_do_not_end_in_the_log_of_a_build(store: str) -> None:
    assert store
    write('[schedules.x]\nrule = "every 1h"\nshell = "true"\nenv = { API_TOKEN = "hunter2" }\n')
    said("apply")
    edit("hunter2", "hunter3")
    for words in (["plan"], ["plan", "-o", "json"]):
        lines = "\n".join(said(*words))
        assert "env" in lines
        assert "hunter" not in lines


REACTIONS = """\
[defaults]
zone = "Europe/Berlin"

[schedules.thank]
rule = "on customer.*"
task = "greet"

[schedules.renamed]
rule = "on customer.left"
task = "greet"
args = { name = { "$event" = "customer" }, day = { "$event" = "day" } }

[schedules.note]
rule = "on customer.*"
shell = "echo somebody came"
overlap = "allow"
"""


def test_a_file_with_reactions_to_events_is_applied_and_then_nothing_is_left_to_do(
    store: str, shop: str
) -> None:
    write(REACTIONS)
    said("apply", "--app", shop)
    assert said("plan") == ["nothing to do: 3 unchanged"]
    assert json.loads(plan(store, "thank").args)["name"] == {"$event": "name"}
    edit('task = "greet"\n\n', 'task = "greet"\nargs = { name = { "$event" = "name" } }\n\n')
    assert said("plan") == ["nothing to do: 3 unchanged"]
    edit('{ "$event" = "name" }', '"ada"')
    assert said("plan")[-1] == "1 to change, 2 unchanged"
    said("apply", "--app", shop)
    assert said("plan") == ["nothing to do: 3 unchanged"]
    person_sets(store, "note", queue="vip")
    assert said("plan", exit_code=6)[-1].startswith("1 drifted")
    said("apply", "--app", shop, "--take-back", "--yes")
    assert said("plan") == ["nothing to do: 3 unchanged"]


def test_arguments_have_to_fit_when_an_entry_is_no_longer_paused(store: str, shop: str) -> None:
    """An importer leaves out what it cannot name, and pauses the entry until somebody does."""
    write('[schedules.ada]\nrule = "every 1h"\ntask = "greet"\npaused = true\n')
    said("apply", "--app", shop)
    kept = plan(store, "ada")
    assert (kept.queue, kept.args) == ("mail", "{}")
    assert said("plan") == ["nothing to do: 1 unchanged"]
    edit("paused = true\n", "")
    refused = duly("apply", "--app", shop)
    assert (refused.exit_code, "args has no `name`" in refused.output) == (2, True)
    edit('task = "greet"\n', 'task = "greet"\nargs = { name = "ada" }\n')
    said("apply", "--app", shop)
    kept = plan(store, "ada")
    assert (kept.args, kept.title, kept.queue) == ('{"name":"ada"}', "greet ada", "mail")
    assert [lane.name for lane in kept.limits] == ["greet:ada"]


def test_a_file_limits_the_runs_of_a_schedule_and_is_exported_with_the_limit(store: str) -> None:
    edit('rule = "every 5m"\n', 'rule = "every 5m"\nmax_runs = 3\n')
    said("apply")
    assert plan(store, "ping").policies.max_runs == 3
    assert "max_runs = 3" in said("export")
    edit("max_runs = 3", "max_runs = 5")
    assert "~ schedule ping  max_runs: 3 -> 5" in said("apply")
    edit("max_runs = 5", "max_runs = 0")
    assert "whole number from 1" in duly("plan").output


def test_a_file_says_the_tenant_and_the_submitter(store: str) -> None:
    edit('rule = "every 5m"\n', 'rule = "every 5m"\ntenant = "acme"\nsubmitter = "ann"\n')
    said("apply")
    ping = plan(store, "ping")
    assert (ping.tenant, ping.submitter) == ("acme", "ann")
    assert said("plan") == ["nothing to do: 4 unchanged"]
    assert 'tenant = "acme"' in said("export")
    edit('tenant = "acme"', 'tenant = "other"')
    said("apply")
    assert plan(store, "ping").tenant == "other"
