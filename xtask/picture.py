"""Draws text with a terminal's colours, on standard input, as SVG: picture.py TITLE COLUMNS FILE."""

import os
import re
import sys

from rich.console import Console
from rich.text import Text

title, columns, file = sys.argv[1:]
console = Console(record=True, width=int(columns), file=open(os.devnull, "w"))
console.print(Text.from_ansi(sys.stdin.read()))
with open(file, "w") as out:
    # No fonts from the network.
    out.write(re.sub(r"@font-face \{.*?\}\s*", "", console.export_svg(title=title), flags=re.DOTALL))
