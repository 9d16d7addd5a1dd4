"""What importers gather: names that are free, found without looking at all that are not."""

from duly.files.importers.collector import ImportCollector
from duly.files.schedule_file import ScheduleEntry


def test_a_name_that_many_have_is_not_looked_for_among_all_of_them() -> None:
    asked = 0

    class Counted(dict[str, ScheduleEntry]):
        def __contains__(self, name: object) -> bool:
            nonlocal asked
            asked += 1
            return super().__contains__(name)

    basket = ImportCollector(entries=Counted())
    for _ in range(1_000):
        name = basket.free_name("job")
        basket.entries[name] = ScheduleEntry(name=name, rule="every 5m", task="x")
    assert list(basket.entries)[:3] == ["job", "job-2", "job-3"]
    assert list(basket.entries)[-1] == "job-1000"
    assert asked < 3_000  # and not half a million


def test_a_name_that_was_not_taken_is_offered_again() -> None:
    basket = ImportCollector()
    basket.entries["job"] = ScheduleEntry(name="job", rule="every 5m", task="x")
    assert basket.free_name("job") == basket.free_name("job") == "job-2"
