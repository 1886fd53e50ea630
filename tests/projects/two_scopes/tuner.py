"""A tuner without a clock: it writes the winner that $WINNER names, or fails as $FAIL says. One for both scopes."""

import os
import sys

from tunebuild import harness

seen = {name: os.environ.get(f"TUNEBUILD_{name}", "") for name in ("ONLY", "RELAUNCH")}
print(f"tuner at work: {seen}", flush=True)
if "FAIL" in os.environ:
    sys.exit(int(os.environ["FAIL"]))
for key in harness.demanded():
    if harness.selected(key):
        harness.set_winner(key, os.environ.get("WINNER", "u2"))
