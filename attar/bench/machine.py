"""What a measurement was made on: enough to judge it by, and nothing that names the machine."""

import datetime
import importlib.metadata
import os
import platform
from pathlib import Path

import msgspec
import torch


class Machine(msgspec.Struct, frozen=True):
    """The header of every table of measurements."""

    cpu: str
    cores: int
    gpu: str | None
    python: str
    torch: str
    triton: str | None
    fla: str | None
    load: float
    date: str

    def __str__(self) -> str:
        parts = [f"{self.cpu}, {self.cores} cores", self.gpu or "no GPU", f"Python {self.python}"]
        for name, version in (("torch", self.torch), ("triton", self.triton), ("fla", self.fla)):
            parts += [f"{name} {version}"] if version else []
        return "; ".join([*parts, f"load {self.load:.1f}", self.date])

    @property
    def busy(self) -> bool:
        """Whether others were at work: a run by itself brings the load to about one."""
        return self.load > max(1.0, 0.75 * self.cores)


def this_machine() -> Machine:
    """The machine that runs this."""
    return Machine(
        cpu=cpu_model(),
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        gpu=torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        python=platform.python_version(),
        torch=str(torch.__version__),
        triton=version_of("triton"),
        fla=version_of("flash-linear-attention"),
        load=round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else 0.0,
        date=datetime.date.today().isoformat(),
    )


def cpu_model() -> str:
    """The processor's name as Linux knows it, or what Python knows of it elsewhere."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return " ".join(line.split(":", 1)[1].split())
    return platform.processor() or platform.machine()


def last_cache_bytes() -> int:
    """The size of the largest cache that a core reads through; 64 MB where Linux does not say.

    >>> last_cache_bytes() > 2**10
    True
    """
    sizes = [
        path.read_text().strip() for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")
    ]
    units = {"K": 2**10, "M": 2**20, "G": 2**30}
    known = [int(size[:-1]) * units[size[-1]] for size in sizes if size[-1:] in units]
    return max(known, default=64 * 2**20)


def version_of(package: str) -> str | None:
    """A package's version where it is installed.

    >>> version_of("no-such-package") is None
    True
    """
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
