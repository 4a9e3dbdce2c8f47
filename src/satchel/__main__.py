"""`python -m satchel` is the command `satchel`."""

from satchel.cli import main

if __name__ == "__main__":
    main()
