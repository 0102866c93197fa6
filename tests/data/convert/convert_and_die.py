"""Converts a file by rules in processes that kill themselves, as kill -9 does, at each call that touches the disk: `FILE FOLDER`.

Process n dies at the n-th call; where that is a write and n is odd, half of its bytes are left behind. After each death the
conversion is run again, undisturbed. FOLDER/n.jsonl is what then stands there; the number of calls is printed.
"""

import os
import signal
import sys
from pathlib import Path

from ruplar.data.convert.prose import read_prose
from ruplar.data.convert.run import convert

rows, folder = read_prose(sys.argv[1]), Path(sys.argv[2])


def die_at(last):
    """Replace the calls by ones that count."""
    calls = 0

    def dying(real):
        def call(*args, **kwargs):
            nonlocal calls
            calls += 1
            if calls == last:
                if real is write and last % 2:
                    write(args[0], bytes(args[1])[: len(args[1]) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **kwargs)

        return call

    write = os.write
    os.write, os.fsync, os.replace = dying(os.write), dying(os.fsync), dying(os.replace)


last = 1
while True:
    output = folder / f"{last}.jsonl"
    child = os.fork()
    if child == 0:
        die_at(last)
        convert(rows, output, "arithmetic")
        os._exit(0)
    if os.WIFEXITED(os.waitpid(child, 0)[1]):
        break
    convert(rows, output, "arithmetic")
    last += 1
sys.stdout.write(f"{last - 1}\n")
