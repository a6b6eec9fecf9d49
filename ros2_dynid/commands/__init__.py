"""The commands of the command line, one a file: add_parser(subparsers), run(args) -> dict, show(result, console).

Nothing heavy is imported at the top of these files, so that `dynid --help` answers at once.
"""
