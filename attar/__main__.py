"""`python -m attar` is the `attar` command."""

from attar.cli.main import main

if __name__ == "__main__":
    main()
