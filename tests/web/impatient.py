"""``duly``, whose streams are not quiet for longer than half a second."""

from duly.cli import main
from duly.web import live

if __name__ == "__main__":
    live.QUIET_SECONDS = 0.5
    main(prog_name="duly")
