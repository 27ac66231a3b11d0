# ruff: noqa
# mypy: ignore-errors
"""What a GPU must say about the bank, the adaptive scan and recall; needs torch, triton, msgspec, jaxtyping only.

python benchmarks/core_gpu.py bank|scan|recall|check OUT [seconds]
"""

import json
import sys
import time
import traceback
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

import torch

SOURCE = r"""
__device__ __forceinline__ float widened(unsigned short x) { return __uint_as_float(((unsigned int)x) << 16); }
extern "C" __global__ void __launch_bounds__(128, 2)
scan(const unsigned short* f, const float* hidden, const float* V, float* last, int stride_b, int stride_n, int n) {
  const int j = threadIdx.x, lane = j & 31, warp = j >> 5;
  const long long b = blockIdx.x;
  __shared__ float4 rows[3][32];
  __shared__ float4 sums[2][4];
  float C[128];
#pragma unroll
  for (int i = 0; i < 128; i++) C[i] = 0.f;
  const unsigned short* row = f + b * stride_b;
  const float2* u = (const float2*)(hidden + b * n * 2);
  const float v0 = V[j], v1 = V[128 + j];
  float own = widened(row[j]), a = 1.f;
  ((float*)rows[0])[j] = own;
  __syncthreads();
  int now = 0;
  for (int t = 0; t < n; t++) {
    const int following = now == 2 ? 0 : now + 1;
    const float next = t + 1 < n ? widened(row[(long long)(t + 1) * stride_n + j]) : 0.f;
    const float2 z = u[t];
    float r0 = 0.f, r1 = 0.f, r2 = 0.f, r3 = 0.f;
#pragma unroll
    for (int q = 0; q < 32; q++) {
      const float4 x = rows[now][q];
      r0 = fmaf(C[4 * q], x.x, r0); r1 = fmaf(C[4 * q + 1], x.y, r1);
      r2 = fmaf(C[4 * q + 2], x.z, r2); r3 = fmaf(C[4 * q + 3], x.w, r3);
    }
    const float r = (r0 + r1) + (r2 + r3);
    float s0 = r * r, s1 = r * v0, s2 = r * v1;
#pragma unroll
    for (int d = 16; d; d >>= 1) {
      s0 += __shfl_xor_sync(0xffffffffu, s0, d);
      s1 += __shfl_xor_sync(0xffffffffu, s1, d);
      s2 += __shfl_xor_sync(0xffffffffu, s2, d);
    }
    if (lane == 0) sums[t & 1][warp] = make_float4(s0, s1, s2, 0.f);
    ((float*)rows[following])[j] = next;
    __syncthreads();
    float norm = 0.f, along0 = 0.f, along1 = 0.f;
#pragma unroll
    for (int w = 0; w < 4; w++) {
      const float4 s = sums[t & 1][w];
      norm += s.x; along0 += s.y; along1 += s.z;
    }
    const float squashing = a * rsqrtf(1.f + a * a * norm * (1.f / 128.f));
    const float alpha = __fdividef(1.f, 1.f + __expf(-(z.x + squashing * along0)));
    const float beta = __fdividef(1.f, 1.f + __expf(-(z.y + squashing * along1)));
    a *= alpha;
    if (a < 1e-6f) {
#pragma unroll
      for (int i = 0; i < 128; i++) C[i] *= a;
      a = 1.f;
    }
    const float w = __fdividef(beta, a) * own;
#pragma unroll
    for (int q = 0; q < 32; q++) {
      const float4 x = rows[now][q];
      C[4 * q] = fmaf(x.x, w, C[4 * q]); C[4 * q + 1] = fmaf(x.y, w, C[4 * q + 1]);
      C[4 * q + 2] = fmaf(x.z, w, C[4 * q + 2]); C[4 * q + 3] = fmaf(x.w, w, C[4 * q + 3]);
    }
    own = next;
    now = following;
  }
#pragma unroll
  for (int i = 0; i < 128; i++) last[b * 16384 + i * 128 + j] = C[i] * a;
}
"""


WORDS = [dict(warps=1, ahead=1, bits=b, registers=r) for b in (16, 8) for r in (128, 144, 168, 200)]
LAUNCHES = [(programs, per_warp) for programs in (8, 12, 16, 24) for per_warp in (8192,)]


def prepare(out):
    """Compile all variants of the bank's kernels, many at a time, into Triton's cache."""
    began = time.monotonic()
    with ProcessPoolExecutor(14, get_context("spawn")) as pool:
        futures = [pool.submit(compile_one, number) for number in range(len(WORDS) + len(LAUNCHES))]
        failed = [repr(future.exception())[:200] for future in futures if future.exception()]
    say(out, "prepare", seconds=time.monotonic() - began, failed=failed)


def compile_one(number):
    from attar.ops.bank import MemoryBank
    from attar.ops.triton import bank as kernels
    from attar.ops.triton import bank_words

    made = MemoryBank(64, 128, dtype=torch.int8, device="cuda")
    order, queries = torch.arange(64, device="cuda"), torch.randn(64, 128, device="cuda").bfloat16()
    if number < len(WORDS):
        bank_words.lookup(made.values, made.scales, order, queries, **WORDS[number])
    else:
        programs, per_warp = LAUNCHES[number - len(WORDS)]
        kernels.LAUNCHES[1] = kernels.Launch(132 * programs, 2, per_warp)
        made.lookup(order, queries)
    torch.cuda.synchronize()


def say(out, name, **found):
    line = json.dumps({"what": name, **found})
    print(line, flush=True)
    with (out / "core.jsonl").open("a") as file:
        file.write(line + "\n")


def seconds(run, rounds=7, repeat=3):
    """The median of a few rounds, by the GPU's clock."""
    run()
    torch.cuda.synchronize()
    times = []
    for _ in range(rounds):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(repeat):
            run()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / 1e3 / repeat)
    return sorted(times)[len(times) // 2]


def off(found, expected):
    return ((found.double() - expected.double()).norm() / expected.double().norm()).item()


def bank(out, documents=1_000_000):
    from attar import ops
    from attar.ops.bank import MemoryBank
    from attar.ops.triton import bank as kernels
    from attar.ops.triton import bank_words

    source = torch.zeros(2**31, dtype=torch.int8, device="cuda")
    target = torch.empty_like(source)
    say(out, "copy", tb_per_s=2 * 2**31 / seconds(lambda: target.copy_(source)) / 1e12)
    del source, target
    for size, values, dtype in ((128, None, "int8"), (64, 64, "int8"), (64, 64, "bfloat16")):
        torch.manual_seed(0)
        made = MemoryBank(documents, size, values=values, dtype=getattr(torch, dtype), device="cuda")
        hidden = torch.randn(4096, 256 if values else 64, size, device="cuda") / 8
        if values is None:
            memories = ops.encode(hidden)
        else:
            memories = ops.ridge_solution(hidden.mT @ torch.cat([torch.randn_like(hidden), hidden], 2))
        for first in range(0, documents, 4096):
            places = torch.arange(first, min(first + 4096, documents), device="cuda")
            made.write(places, memories[: len(places)])
        order = torch.randperm(documents, device="cuda")
        queries = torch.randn(documents, size, device="cuda").bfloat16()
        few = slice(0, documents, documents // 256)
        expected = torch.einsum("qij,qi->qj", memories[order[few] % 4096].double(), queries[few].double())
        lookup_bytes = made.nbytes / documents + size * 2 + 4 * (values or size) + 8
        title = f"bank {size} x {values or size} {'pairs' if values else 'symmetric'} {dtype}"

        def measure(name, run):
            error, time_ = off(run()[few], expected), seconds(run)
            say(
                out,
                name,
                error=error,
                m_per_s=documents / time_ / 1e6,
                tb_per_s=lookup_bytes * documents / time_ / 1e12,
            )

        measure(title, lambda: made.lookup(order, queries))
        usual = dict(kernels.LAUNCHES)
        for programs, per_warp in LAUNCHES:
            each = getattr(torch, dtype).itemsize
            kernels.LAUNCHES[each] = kernels.Launch(132 * programs, 2, per_warp)
            measure(f"{title} {tuple(kernels.LAUNCHES[each])}", lambda: made.lookup(order, queries))
        kernels.LAUNCHES.update(usual)
        for options in WORDS if values is None and dtype == "int8" else ():
            for programs in (16, 32):
                bank_words.PROGRAMS = 132 * programs
                try:
                    measure(
                        f"{title} words {options} programs {programs}",
                        lambda options=options: bank_words.lookup(
                            made.values, made.scales, order, queries, **options
                        ),
                    )
                except Exception as error:
                    say(out, f"words {options}", failed=repr(error)[:300])
        del made


def scan(out):
    from attar import ops
    from benchmarks.core_gpu_kernels import column_kernel, lazy_kernel, twice_kernel

    torch.manual_seed(0)
    n, k = 750, 128
    cuda = None
    try:
        cuda = torch.cuda._compile_kernel(SOURCE, "scan")
    except Exception as error:
        say(out, "cuda", failed=repr(error)[:2000])
    for batch in (132, 264, 512, 528):
        h = torch.randn(batch, n, k, device="cuda").bfloat16()
        f = (torch.nn.functional.normalize(torch.randn(batch, n, k, device="cuda"), dim=-1)).bfloat16()
        cell = ops.AffineGates(
            torch.randn(2, k, device="cuda") * 0.02,
            torch.randn(2, k, device="cuda") / k**0.5,
            torch.tensor([4.0, 0.0], device="cuda"),
        )
        hidden, V = cell.of_hidden(h.float()).contiguous(), cell.read_weight.float().contiguous()
        few = slice(0, batch, max(1, batch // 4))
        exact = ops.AffineGates(*(None if x is None else x.cpu().double() for x in cell.tensors()))
        expected = ops.encode_adaptive(
            h[few].cpu().double(), f[few].cpu().double(), exact, backend="reference"
        )
        last = torch.empty(batch, k, k, device="cuda")
        strides = (f.stride(0), f.stride(1), n, k)
        ways = {"shipped": lambda: ops.encode_adaptive(h, f, cell)}
        ways["lazy"] = lambda: (
            lazy_kernel[(batch,)](f, hidden, V, last, *strides, K=k, num_warps=4, maxnreg=255),
            last,
        )[1]
        for lazy in (False, True):
            ways[f"columns lazy={lazy}"] = lambda lazy=lazy: (
                column_kernel[(batch,)](
                    f, hidden, V, last, *strides, K=k, LAZY=lazy, num_warps=4, maxnreg=255
                ),
                last,
            )[1]
            ways[f"columns, rows twice, lazy={lazy}"] = lambda lazy=lazy: (
                twice_kernel[(batch,)](
                    f, hidden, V, last, *strides, K=k, BRANCH=lazy, num_warps=4, maxnreg=255
                ),
                last,
            )[1]
        if cuda is not None:
            ways["cuda"] = lambda: (
                cuda((batch, 1, 1), (128, 1, 1), (f.view(torch.uint16), hidden, V, last, *strides[:3])),
                last,
            )[1]
        with torch.no_grad():
            for name, run in ways.items():
                try:
                    error = off(run()[few].cpu(), expected)
                    say(out, f"scan {name}, {batch} x {n} x {k}", error=error, ms=1e3 * seconds(run))
                except Exception as error:
                    say(out, f"scan {name}, {batch}", failed=repr(error)[:600])
        if batch == 512:
            h, f = h.requires_grad_(), f.requires_grad_()
            G = torch.randn(batch, k, k, device="cuda")
            both = lambda: torch.autograd.grad(ops.encode_adaptive(h, f, cell), (h, f), G)
            say(out, "scan shipped forward + backward, 512", ms=1e3 * seconds(both))


def gate(out):
    """What computing the gate of f on the chip gains: of the operation, and next to the GRU of a training step."""
    from attar import ops

    torch.manual_seed(0)
    batch, n, k = 512, 750, 128
    h = torch.randn(batch, n, k, device="cuda").bfloat16().requires_grad_()
    W, b = (
        (torch.randn(k, k, device="cuda") / 16).requires_grad_(),
        torch.zeros(k, device="cuda", requires_grad=True),
    )
    G = torch.randn(batch, k, k, device="cuda")
    gru = torch.nn.GRU(k, k, batch_first=True).cuda().bfloat16()
    out_grad = torch.randn(batch, n, k, device="cuda").bfloat16()
    ways = {
        "by torch": lambda: torch.autograd.grad(ops.encode(ops.gated(h, W, b)), (h, W, b), G),
        "GRU": lambda: torch.autograd.grad(gru(h)[0], (h, *gru.parameters()), out_grad),
    }
    for name, run in ways.items():
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        took = seconds(run)
        say(out, f"gate {name}", ms=1e3 * took, mb=(torch.cuda.max_memory_allocated() - before) / 1e6)


def recall(out, limit):
    from attar.paper.options import RecallOptions
    from attar.paper.recall import run_recall

    names = RecallOptions().mechanisms.split(",")
    rare = [name for name in names if name not in ("none", "softmax", "gated-delta")]
    sets = [
        ("pairs", RecallOptions(lengths="32,64,128,256,512", steps=800, vocabulary=1024), names, (64, 128)),
        (
            "rare",
            RecallOptions(task="rare", lengths="128,512,2048,4096", steps=600, vocabulary=64),
            rare,
            (64,),
        ),
    ]
    end = time.monotonic() + limit
    with ProcessPoolExecutor(15, get_context("spawn")) as pool:
        futures = {}
        for seed in range(3):
            for task, options, mechanisms, sizes in sets:
                for size in sizes:
                    for name in mechanisms:
                        futures[pool.submit(run_recall, options, "cuda", name, size, seed)] = task
        try:
            for future in as_completed(futures, timeout=limit):
                try:
                    run = future.result()
                except Exception as error:
                    say(out, "recall", failed=repr(error)[:600])
                    continue
                say(out, f"recall {futures[future]}", mechanism=run.mechanism, k=run.size, seed=run.seed, recall=run.recall,
                    merging={parts: [m.merged, m.rest, m.leak] for parts, m in run.merging.items()}, seconds=run.seconds)  # fmt: skip
                if time.monotonic() > end:
                    break
        except TimeoutError:
            pass
        for process in pool._processes.values():
            process.kill()


STORIES = "none,linear,gated,decayed,adaptive,adaptive-energy,keyed,keyed-ridge,softmax".split(",")


def told_stories(path):
    """The documents of `attar paper compare --minutes`, in the same order, without Parquet."""
    from random import Random

    from attar.paper.stories import _COUNTS, tell_story

    rng = Random(0)
    told = {
        split: [tell_story(rng, f"{split} {n}", facts=8) for n in range(count)]
        for split, count in _COUNTS.items()
    }
    return iter(told[Path(path).stem])


def patch_reading():
    import attar.paper.sets as sets

    torch.set_num_threads(1)
    sets.read_documents = told_stories


def story_run(folder, name, given):
    from attar.paper.compare import run_once
    from attar.paper.options import TrainingOptions
    from attar.paper.stories import SMALL

    out = Path(folder).parent / "runs" / name
    base = {**SMALL, "epochs": 10, "data": str(folder), "out": str(out)}
    result = run_once(TrainingOptions(**{**base, **given}), say=lambda line: None)
    return name, (out / "result.json").read_bytes(), str(result.test)[:80]


def stories(out, limit):
    """The order of Figure 1 with all mechanisms, and the second-order encoder, on the CPU's cores."""
    import tempfile

    from attar.paper.compare import _prepare
    from attar.paper.options import TrainingOptions

    patch_reading()
    folder = Path(tempfile.mkdtemp()) / "stories"
    folder.mkdir()
    for split in ("training", "validation", "test"):
        (folder / f"{split}.parquet").write_bytes(b"told, not read")
    _prepare(TrainingOptions(data=str(folder), out=str(folder)), lambda *_: None)
    given = {}
    for seed in range(3):
        for slow in (True, False):
            for name in STORIES:
                if name.startswith("adaptive") == slow:
                    given[f"{name}-{seed}"] = {"mechanism": name, "seed": seed}
            if slow:
                given[f"second-{seed}"] = {"mechanism": "linear", "encoder": "second-order", "seed": seed}
        given[f"gru60-{seed}"] = {"mechanism": "linear", "hidden_size": 60, "seed": seed}
    (out / "stories").mkdir(exist_ok=True)
    with ProcessPoolExecutor(8, get_context("spawn"), initializer=patch_reading) as pool:
        futures = [pool.submit(story_run, str(folder), name, options) for name, options in given.items()]
        try:
            for future in as_completed(futures, timeout=limit):
                name, data, accuracy = future.result()
                (out / "stories" / f"{name}.json").write_bytes(data)
                say(out, f"stories {name}", accuracy=accuracy)
        except TimeoutError:
            pass
        for process in pool._processes.values():
            process.kill()


def check(out):
    """Kernels' values and gradients against float64 on a few shapes."""
    from attar import ops
    from attar.ops.bank import MemoryBank
    from attar.ops.triton import bank_words

    torch.manual_seed(0)
    for k in (24, 100, 128):
        hidden = torch.randn(50, 60, k, device="cuda")
        for dtype in (torch.int8, torch.bfloat16):
            made = MemoryBank(50, k, dtype=dtype, device="cuda")
            made.write(torch.arange(50, device="cuda"), ops.encode(hidden))
            order, queries = torch.randint(50, (333,), device="cuda"), torch.randn(333, k, device="cuda")
            expected = torch.einsum("qij,qj->qi", made.read(order).double(), queries.double())
            say(out, f"check bank {k} {dtype}", error=off(made.lookup(order, queries), expected))
            if dtype == torch.int8 and k % 8 == 0:
                for bits in (16, 8):
                    found = bank_words.lookup(made.values, made.scales, order, queries, bits=bits)
                    say(out, f"check words {k} bits {bits}", error=off(found, expected))
    for k in (64, 100, 128):
        for dtype in (torch.float32, torch.bfloat16):
            h, f = (
                torch.randn(6, 300, 20, device="cuda").to(dtype),
                (torch.randn(6, 300, k, device="cuda") / k**0.5).to(dtype),
            )
            weights = [
                torch.randn(2, 20) * 0.5,
                torch.randn(2, k) / k**0.5,
                torch.tensor([3.0, 0.0]),
                torch.tensor([0.5, -1.0]),
            ]
            G = torch.randn(6, k, k)
            results = []
            for device, type_, backend in (("cuda", dtype, "auto"), ("cpu", torch.float64, "reference")):
                leaves = [
                    x.to(device, type_ if i < 2 else torch.float32 if device == "cuda" else type_)
                    .detach()
                    .requires_grad_()
                    for i, x in enumerate((h, f, *weights))
                ]
                memory = ops.encode_adaptive(
                    leaves[0], leaves[1], ops.AffineGates(*leaves[2:]), backend=backend
                )
                results.append([memory.detach(), *torch.autograd.grad(memory, leaves, G.to(memory))])
            say(
                out,
                f"check scan {k} {dtype}",
                errors=[off(a.cpu(), b) for a, b in zip(*results, strict=True)],
            )


if __name__ == "__main__":
    folder = Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    try:
        {
            "prepare": prepare,
            "bank": bank,
            "scan": scan,
            "gate": gate,
            "recall": recall,
            "check": check,
            "stories": stories,
        }[sys.argv[1]](folder, *map(float, sys.argv[3:]))
    except Exception:
        say(folder, sys.argv[1], failed=traceback.format_exc()[-3000:])
