"""`python -m ruplar`: the command line."""

from ruplar.cli import main

main()
