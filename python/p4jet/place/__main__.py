"""`python -m p4jet.place` is `p4jet-place`."""

import sys

from .cli import main

sys.exit(main())
