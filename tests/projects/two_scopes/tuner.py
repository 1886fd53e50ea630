"""A tuner without a clock: it writes the winner that $WINNER names, or fails as $FAIL says, after $PAUSE seconds. It
serves both scopes."""

import os
import sys
import time

from tunebuild import harness

seen = {name: os.environ.get(f"TUNEBUILD_{name}", "") for name in ("ONLY", "RELAUNCH")}
print(f"tuner at work: {seen}", flush=True)
time.sleep(float(os.environ.get("PAUSE", "0")))
if "FAIL" in os.environ:
    sys.exit(int(os.environ["FAIL"]))
for key in harness.demanded():
    if harness.selected(key):
        harness.set_winner(key, os.environ.get("WINNER", "u2"))
