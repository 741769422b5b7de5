"""`python -m p4jet.lab` is `p4jet-lab`."""

import sys

from .cli import main

sys.exit(main())
