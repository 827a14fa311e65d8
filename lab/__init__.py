"""The laboratory: notebooks in which the compiler is watched and changed while it runs, and what they are made of.

`tg lab` opens the chapters, which are marimo notebooks: Python files, of which the cells that depend on a change run
again. They need `pip install '.[lab]'`.
"""

from tensorgrad.lab.show import code, diff, lines, memory, table
from tensorgrad.lab.workbench import Step, run, seconds_of

__all__ = ["Step", "code", "diff", "lines", "memory", "run", "seconds_of", "table"]
