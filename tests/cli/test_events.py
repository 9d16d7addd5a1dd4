"""``duly events``: what happened, said and seen by people. On SQLite, unless ``url`` is another."""

import json
from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result

from duly import Duly
from duly.cli import main
from tests.app.waiting import eventually


@pytest.fixture
def shop(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Duly]:
    monkeypatch.setenv("DULY_URL", url)
    monkeypatch.setenv("TZ", "UTC")
    app = Duly(url)

    @app.task
    def thank(invoice_id: int) -> int:
        return invoice_id

    app.schedules.add("on invoice.*", thank, name="bookkeeping")  # type: ignore[arg-type]
    app.schedules.add("on invoice.paid", thank, name="thank")  # type: ignore[arg-type]
    yield app
    app.close()


def command(*words: object) -> Result:
    return CliRunner().invoke(main, ["events", *map(str, words)])


def said(*words: object) -> int:
    done = command("emit", *words)
    assert done.exit_code == 0, done.output
    return int(done.stdout)


def seen(shop: Duly, number: int) -> None:
    with shop.running():
        eventually(lambda: len(shop.events.reactions(number)) == 2, "reactions")
        for fire in shop.events.reactions(number):
            if fire.job_id is not None:
                shop.jobs.get(fire.job_id).result("20s")


def test_what_is_emitted_starts_what_reacts_and_is_shown_with_it(shop: Duly) -> None:
    number = said("invoice.paid", "invoice_id=7", "token=hunter2", "--key", "i7")
    seen(shop, number)
    listed = command().stdout.splitlines()
    assert listed[0].split() == ["AT", "NAME", "KEY", "PAYLOAD", "REACTIONS", "ID"]
    [row] = listed[1:]
    assert f'invoice.paid  i7   {{"invoice_id": 7, "token": "***"}}  2 jobs     {number}' in row
    shown = command("show", number).stdout
    assert f"invoice.paid, event {number}" in shown
    table = [line.split() for line in shown.splitlines()[-3:]]
    assert table[0] == ["SCHEDULE", "OUTCOME", "WHY", "JOB"]
    assert [(row[0], row[1], row[-1]) for row in table[1:]] == [
        ("bookkeeping", "queued", "succeeded"),
        ("thank", "queued", "succeeded"),
    ]
    assert "hunter2" not in shown + listed[1]


def test_what_lacks_a_field_is_skipped_and_says_so(shop: Duly) -> None:
    number = said("invoice.paid", "note=007")
    seen(shop, number)
    assert "2 skipped" in command("list", "invoice.*").stdout
    assert 'has no field "invoice_id", which thank takes' in command("show", number).stdout


def test_values_are_json_where_they_look_like_it(shop: Duly) -> None:
    number = said("a.b", "n=7", "yes=true", "rows=[1, 2]", "code=007", "text=x", "at=2027-01-06")
    assert shop.events.get(number).payload == {
        "n": 7, "yes": True, "rows": [1, 2], "code": "007", "text": "x", "at": "2027-01-06",
    }  # fmt: skip
    number = said("a.b", "more=1", "--json", '{"deep": {"n": null}}')
    assert shop.events.get(number).payload == {"deep": {"n": None}, "more": 1}


def test_programs_read_the_same(shop: Duly) -> None:
    numbers = [said(f"a.{letter}", "--key", letter) for letter in "xyz"]
    assert command("-o", "name").stdout.split() == [str(one) for one in reversed(numbers)]
    [found] = json.loads(command("list", "a.y", "-o", "json").stdout)
    shown = json.loads(command("show", numbers[1], "-o", "json").stdout)
    assert found == shown
    assert (found["id"], found["key"], found["reactions"]) == (numbers[1], "y", [])
    lines = command("list", "--key", "z", "-o", "jsonl").stdout.splitlines()
    assert [json.loads(line)["name"] for line in lines] == ["a.z"]


def test_a_long_list_goes_on_where_it_ended(shop: Duly) -> None:
    numbers = [said("a", f"n={n}") for n in range(3)]
    first = command("list", "-n", "2", "-o", "name")
    assert first.stdout.split() == [str(numbers[2]), str(numbers[1])]
    cursor = first.stderr.split("--after ")[1].partition(",")[0]
    assert command("list", "-n", "2", "-o", "name", "--after", cursor).stdout.split() == [
        str(numbers[0])
    ]
    assert command("--until", "1d").stderr.endswith("no event matches\n")


def test_where_nothing_has_happened_the_first_step_is_told(shop: Duly) -> None:
    assert "try: duly events emit doc.changed doc_id=7" in command().stderr


def test_a_schedule_reacts_to_what_happened_before_it(shop: Duly) -> None:
    for n in range(6):
        said("invoice.paid", f"invoice_id={n}")
    tried = command("replay", "thank", "--since", "1h", "--dry-run")
    assert (tried.stdout, "thank would react to 6 events" in tried.stderr) == ("", True)
    refused = command("replay", "thank", "--since", "1h")
    assert (refused.exit_code, "add --yes" in refused.stderr) == (2, True)
    done = command("replay", "thank", "--since", "1h", "--yes")
    assert len(done.stdout.split()) == 6
    assert "thank reacted to 6 events: 6 jobs" in done.stderr
    again = command("replay", "thank", "--since", "1h", "--only", "invoice.paid", "-o", "json")
    assert json.loads(again.stdout)["events"] == 0
    assert again.exit_code == 0


@pytest.mark.parametrize(
    ("words", "code", "saying"),
    [
        (["emit", "no name"], 2, "is not the name of an event"),
        (["emit", "a", "7"], 2, '"7": the fields of a payload have names'),
        (["emit", "a", "n=1", "n=2"], 2, "n is given twice"),
        (["emit", "a", "--json", "[1]"], 2, "an object"),
        (["emit", "a", "--json", "{"], 2, "that is not JSON"),
        (["emit", "a", "--key", ""], 2, "the key is empty"),
        (["list", "a*b"], 2, "a star stands at the end"),
        (["list", "--after", "x"], 2, "not a cursor of events"),
        (["list", "--since", "7"], 2, "give a unit, 7s"),
        (["show", "12345678"], 3, "there is no event 12345678"),
        (["replay", "nope", "--since", "1d"], 3, 'there is no schedule "nope"'),
    ],
)
def test_what_cannot_be_is_refused(shop: Duly, words: list[str], code: int, saying: str) -> None:
    done = command(*words)
    assert (done.exit_code, done.stdout) == (code, "")
    assert saying in done.stderr


def test_what_an_event_starts_says_so_in_the_place_of_a_moment(shop: Duly) -> None:
    listed = CliRunner().invoke(main, ["schedules", "start:event"]).stdout
    rows = [line.split()[:2] for line in listed.splitlines()[1:]]
    assert rows == [["on", "invoice.*"], ["on", "invoice.paid"]]
    assert CliRunner().invoke(main, ["schedules", "start:clock"]).stdout == ""
