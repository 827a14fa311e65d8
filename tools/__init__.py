"""The command lines `tg` and `tg-opt`, a module for each group of their subcommands, and scripts of this repository."""
