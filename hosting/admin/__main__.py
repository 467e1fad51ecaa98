"""`python -m hosting.admin`."""

from hosting.admin.command_line import main

if __name__ == "__main__":
    raise SystemExit(main())
