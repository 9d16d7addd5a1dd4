"""A first schedule, in a plain script.

    duly dev 01_first_schedule.py       runs it, and starts it anew when you change it
    python 01_first_schedule.py         the same without the command

A task is called as its function is, wherever it is imported from: what one program enqueues, any
other one runs.
"""

from duly import Duly

duly = Duly()  # duly.db here; or DULY_URL=postgresql://…


@duly.schedule("every 10s")  # or "Mon..Fri 02:00 Europe/Berlin", or "0 2 * * 1-5 Europe/Berlin"
@duly.task
def hello() -> None:
    print("hello", flush=True)


if __name__ == "__main__":
    duly.run()  # until Ctrl-C
