"""The commands of the program, one module each, imported only when the command is called.

A module has `DESCRIPTION`, `EXAMPLES`, `add_arguments(parser)` and `execute(options)`; `dispatch` does everything else.
"""

from lopgpn_exp.commands.dispatch import COMMANDS, CommandResult, main

__all__ = ["COMMANDS", "CommandResult", "main"]
