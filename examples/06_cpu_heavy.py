"""Work that takes all of a core, and is stopped when its time is up, whatever it does.

    python 06_cpu_heavy.py

It runs in a process of its own, which imports this file to find the task. When the time is up, the
task hears of it (``SoftTimeout``), has its ``grace`` to tidy up, and is killed after that.
"""

from duly import Duly, JobFailed

duly = Duly()


@duly.task(executor="process", timeout="10m", grace="1s", memory="2GB", retry=None)
def crunch(rounds: int) -> int:
    total = 0
    for number in range(rounds):
        total += number * number % 7
    return total


if __name__ == "__main__":
    with duly.running():
        print(crunch.enqueue(100_000).result("30s"))
        try:
            crunch.using(timeout="1s").enqueue(10**12).result("30s")
        except JobFailed as failed:
            print(failed)
