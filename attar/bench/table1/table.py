"""The paper's Table 1 on this machine: measured, and with what follows from it."""

import msgspec
import torch

from attar.bench.machine import Machine, this_machine
from attar.bench.ops import Tell, busy_notes
from attar.bench.table1.costs import Costs, Sizes, measure_costs, sizes_for
from attar.bench.table1.findings import Exponent, Finding, exponents, findings
from attar.bench.table1.tokens import faiss_is_installed
from attar.bench.table1.turns import schedule_for
from attar.errors import DeviceError, OptionError
from attar.ops import COMPILED, product_in_use


class Table1(msgspec.Struct, frozen=True):
    """The machine, what was measured on it, and what follows."""

    machine: Machine
    device: str
    sizes: Sizes
    costs: Costs
    exponents: list[Exponent]
    findings: list[Finding]
    notes: list[str]

    @property
    def whole(self) -> bool:
        """Whether our own ways were right, and so were measured, at every size."""
        points = [*self.costs.asking, *self.costs.encoding, *self.costs.sharing]
        return all(way in point.costs for point in points for way in ("linear", "gated"))


def measure_table(
    size: int = 100,
    device: str | None = None,
    *,
    quick: bool = False,
    tell: Tell = lambda done, total, what: None,
) -> Table1:
    """Measure all of it on "cpu" or "cuda"; by default on a GPU where there is one."""
    device = device_for(device)
    machine = this_machine()  # before the first size adds to its load
    COMPILED.now()  # a program that asks so often has the compiled product; it must not come in the middle
    torch.manual_seed(0)
    sizes = sizes_for(size, device, quick=quick)
    costs = measure_costs(sizes, device, schedule_for(device, quick=quick), tell)
    notes = [*costs.notes, *notes_on(machine, device, sizes)]
    lines = exponents(costs, sizes)
    return Table1(machine, device, sizes, costs, lines, findings(costs, sizes, device), notes)


def device_for(wanted: str | None) -> str:
    """The device asked for, if it is there.

    >>> device_for("cpu")
    'cpu'
    """
    if wanted is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    if wanted not in ("cpu", "cuda"):
        raise OptionError("--device", "cpu or cuda", repr(wanted))
    if wanted == "cuda" and not torch.cuda.is_available():
        raise DeviceError("--device cuda", "a CUDA device", "none", "use --device cpu")
    return wanted


def notes_on(machine: Machine, device: str, sizes: Sizes) -> list[str]:
    """What a reader of the numbers should know."""
    clock = (
        "one thread, CPU seconds" if device == "cpu" else "the device's own time, without Python's launches"
    )
    found = [
        f"Made-up states of size k = {sizes.k} in float32; {clock}; medians, all ways and sizes of a part "
        "timed in turns. Every result was checked against float64 before it was timed.",
        f"Exponents are fitted from n = {sizes.fit_from:,} and from m = {sizes.fit_heaps_from:,} on, where a "
        "call's own cost no longer shows; ± is a 95 % interval of the fit.",
        "In brackets: the lower quartile of one side's rounds against the upper one of the other's.",
    ]
    if device == "cpu":
        found.append(f"Packed memories were multiplied by: {product_in_use()}.")
    if device != "cpu":
        found.append("FAISS is measured on a CPU only: --device cpu.")
    elif not faiss_is_installed():
        found.append("FAISS is not installed: pip install 'attar[search]' for its column.")
    return [*found, *busy_notes(machine, "trust ratios, not times.")]
