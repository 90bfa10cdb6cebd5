"""What `python -m` runs."""

from . import main

main()
