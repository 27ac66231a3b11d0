"""A load by `wrk`, where it is installed: a client in C leaves the server more of the machine than one in Python."""

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from attar.errors import OptionError

# Requests come from a file, each behind its length in ten digits; what came of them goes out as JSON.
SCRIPT = """
local requests, at = {}, 0
function init(arguments)
  local file = io.open(arguments[1], "rb")
  while true do
    local length = file:read(10)
    if length == nil then break end
    requests[#requests + 1] = file:read(tonumber(length))
  end
  file:close()
end
function request()
  at = at % #requests + 1
  return requests[at]
end
function done(summary, latency, _)
  local errors = summary.errors
  io.write(string.format(
    '\\n{"seconds": %f, "answers": %d, "refused": %d, "lost": %d, "p50": %f, "p99": %f}\\n',
    summary.duration / 1e6, summary.requests, errors.status,
    errors.connect + errors.read + errors.write + errors.timeout,
    latency:percentile(50) / 1e6, latency:percentile(99) / 1e6))
end
"""


class Driven(msgspec.Struct):
    """What wrk counted: answers, among them those with a status from 400 up, and what never came."""

    seconds: float
    answers: int
    refused: int
    lost: int
    p50: float
    p99: float


def wrk() -> str | None:
    """Where wrk is, if it is installed (Debian: `apt-get install wrk`)."""
    return shutil.which("wrk")


def drive_by_wrk(port: int, requests: Sequence[bytes], connections: int, seconds: float) -> Driven:
    """Send requests in turn over so many connections to this machine's own port, from one thread."""
    with tempfile.TemporaryDirectory(prefix="attar-wrk-") as folder:
        script, file = Path(folder) / "drive.lua", Path(folder) / "requests"
        script.write_text(SCRIPT)
        file.write_bytes(b"".join(b"%010d" % len(each) + each for each in requests))
        command = ["wrk", "-t1", f"-c{connections}", f"-d{max(1, round(seconds))}s", "--timeout", "30s"]
        command += ["-s", str(script), f"http://127.0.0.1:{port}", "--", str(file)]
        ran = subprocess.run(command, capture_output=True, text=True)
    lines = [line for line in ran.stdout.splitlines() if line.startswith('{"seconds"')]
    if ran.returncode or not lines:
        said = (ran.stderr or ran.stdout).strip().splitlines()
        raise OptionError("wrk", "a load that is driven", said[-1] if said else f"code {ran.returncode}")
    return msgspec.json.decode(lines[0], type=Driven)
