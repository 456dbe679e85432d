"""One of several processes that record refusals in one directory: `refuser.py DIRECTORY OWNER COUNT`.

It archives what it finds meanwhile, as servers do, and ends without closing anything.
"""

import os
import sys
import time
from pathlib import Path

from audit_directory import SOLD_OUT, count

from holdfast.audit.archivist import Archivist
from holdfast.audit.recorder import WRITE_EVERY_S, Recorder

if __name__ == "__main__":
    directory, owner_id, wanted = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    for part in range(4):
        recorder = Recorder(directory)
        recorder.start()
        for number in range(wanted // 4):
            recorder.note(SOLD_OUT, "sku", owner_id, 1, f"{part}-{number}")
        recorder.stop()
        Archivist(directory, 30).pass_once()
    last = Recorder(directory)
    last.start()
    last.note(SOLD_OUT, "sku", owner_id, 1, "last")
    while count(directory, owner_id) <= wanted:
        time.sleep(WRITE_EVERY_S)
    os._exit(0)
