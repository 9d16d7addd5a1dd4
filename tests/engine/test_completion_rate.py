"""How much a worker claims ahead: as much as it will have room for in a moment, and no more."""

from duly.engine.capacity import CompletionRate


class Workers:
    """Slots that are always full of jobs of one length."""

    def __init__(self, length: float) -> None:
        self.now = 0.0
        self.pace = CompletionRate(lambda: self.now)
        self.length = length
        self.ended = 0

    def run(self, slots: int, *, rounds: int) -> int:
        """How many are claimed ahead once that many have ended, together."""
        ahead = 0
        for _ in range(rounds):
            self.pace.rate(self.ended)
            self.now += self.length
            self.ended += slots
            for _ in range(slots):
                self.pace.took(self.length)
            ahead = self.pace.ahead(self.ended, slots)
        return ahead


def test_short_jobs_are_claimed_ahead() -> None:
    assert Workers(0.001).run(10, rounds=1_000) >= 490


def test_long_jobs_that_end_together_are_not_taken_for_short_ones() -> None:
    workers = Workers(5.0)
    workers.run(10, rounds=1)
    workers.now += 4.95
    workers.pace.rate(workers.ended)
    workers.now += 0.05
    for _ in range(10):
        workers.pace.took(5.0)
    assert workers.pace.rate(workers.ended + 10) > 20
    assert workers.pace.ahead(workers.ended + 10, 10) == 0
