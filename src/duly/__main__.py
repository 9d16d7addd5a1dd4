"""``python -m duly``: the command."""

from duly.cli import main

if __name__ == "__main__":
    main(prog_name="duly")
