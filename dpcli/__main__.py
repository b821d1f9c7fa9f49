"""``python -m dpcli`` is ``dpcli``."""

from dpcli.cli import main

if __name__ == "__main__":
    main(prog_name="dpcli")
