"""`python -m benchmarks.bank`: a bank of memories of one's own encoder, on a CPU or GPU: bytes, and time per lookup.

Memories are those of a `MemoryAttention` with a ridge, k = d = 64. Different documents repeat a few thousand memories,
since times do not depend on values.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import torch
import typer

from attar.nn import MemoryAttention
from attar.ops import MemoryBank
from attar.paper.compare import aligned_table
from attar.paper.table1 import quantity, this_machine
from benchmarks.command import run_command
from benchmarks.timing import Timer, relative_error

SIZE = 64
DIFFERENT = 2000
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "int8": torch.int8}
TOLERANCES = {"float32": 1e-5, "bfloat16": 1e-2, "int8": 2e-2}


def main(
    documents: Annotated[int, typer.Option(help="How many memories the bank has.")] = 20_000,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    batch: Annotated[int, typer.Option(help="Questions per call.")] = 4096,
) -> None:
    """Fill a bank by name, save it, open it again, and look up in random documents."""
    torch.manual_seed(0)
    print(this_machine())
    print(f"{documents:,} documents, k = d = {SIZE}, prepared ridge, {batch:,} questions per call\n")
    layer = MemoryAttention(SIZE, mechanism="keyed", ridge=True).to(device)
    with torch.no_grad():
        states = torch.randn(min(DIFFERENT, documents), 128, SIZE, device=device)
        matrices = layer.mechanism.matrices(layer.encode(states).prepare())
    rows = [measure(name, documents, matrices, device, batch) for name in DTYPES]
    columns = ["dtype", "bytes per document", "written", "file", "opened in"]
    print(aligned_table([*columns, "lookup by name", "by index", "per second"], rows))


@torch.no_grad()
def measure(name: str, documents: int, matrices: torch.Tensor, device: str, batch: int) -> list[str]:
    """One row: a bank that gives wrong readouts is not timed."""
    bank = MemoryBank(documents, SIZE, values=SIZE, dtype=DTYPES[name], device=device)
    names = [f"document {number}" for number in range(documents)]
    start = time.perf_counter()
    for first in range(0, documents, len(matrices)):
        some = names[first : first + len(matrices)]
        bank.write(some, matrices[: len(some)])
    filling = _elapsed(start, device)
    queries = torch.randn(batch, SIZE, device=device)
    places = torch.randint(documents, (batch,), device=device)
    expected = torch.einsum("qkd,qk->qd", matrices[places % len(matrices)].double(), queries.double())
    error = relative_error(bank.lookup(places, queries), expected)
    if error > TOLERANCES[name] * 10:
        raise SystemExit(f"{name}: readouts are off by {error:.1e}")
    asked = [names[place] for place in places.tolist()]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bank.safetensors"
        bank.save(path)
        size = path.stat().st_size
        start = time.perf_counter()
        MemoryBank.load(path, device=device)
        opening = _elapsed(start, device)
    by_name = _seconds(lambda: bank.lookup(asked, queries), device) / batch
    by_index = _seconds(lambda: bank.lookup(places, queries), device) / batch
    return [
        name,
        f"{bank.nbytes / documents:,.0f}",
        f"{documents / filling:,.0f} / s",
        quantity(float(size), "B"),
        quantity(opening, "s"),
        quantity(by_name, "s"),
        quantity(by_index, "s"),
        f"{1 / by_index:,.0f}",
    ]


def _elapsed(start: float, device: str) -> float:
    if device != "cpu":
        torch.cuda.synchronize()
    return time.perf_counter() - start


def _seconds(run: Callable[[], object], device: str) -> float:
    """The best of a few runs: on the CPU by its own time, without what other programs take."""
    timer = Timer(clock="cpu" if device == "cpu" else "gpu")
    run()
    return min(timer.seconds_for(run, 1) for _ in range(5))


if __name__ == "__main__":
    run_command(main)
