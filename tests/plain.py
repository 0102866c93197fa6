"""Run a script in a process that cannot import ruplar: what users of transformers and PEFT alone see."""

import json
import subprocess
import sys
from typing import Any

_ALONE = "import json, sys\nsys.modules['ruplar'] = None\ngiven = json.loads(sys.stdin.read())\n"


def run_without_ruplar(script: str, given: Any) -> Any:
    """Run `script`, which reads the variable `given` and sets `found` → its `found`."""
    code = f"{_ALONE}{script}\nprint('\\nFOUND' + json.dumps(found))"
    done = subprocess.run([sys.executable, "-c", code], input=json.dumps(given), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.split("\nFOUND")[1])
