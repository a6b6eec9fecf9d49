# SPDX-License-Identifier: Apache-2.0

"""The commands of the command line, one per file; `shared` says what a command is and holds what they have in common.

A command builds a typed request, calls the use case (`ros2_dynid.usecases`) and prints the typed outcome. Nothing heavy
is imported at the top of these files, so that `dynid --help` answers at once.
"""
