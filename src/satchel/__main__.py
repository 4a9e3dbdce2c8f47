"""`python -m satchel` is the command `satchel`."""

from satchel.cli.app import main

if __name__ == "__main__":
    main()
