"""Windows into phrases, by the network that reads texts, with torch.

Windows that are encoded together are padded to the longest. The network gives hidden states; every span of a sentence
has a prior; of each window the likeliest are kept, their vectors rounded to int8, all on the network's device.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from attar.errors import DeviceError, OptionError
from attar.memory.memory import Floats
from attar.options import LONGEST
from attar.progress import check_stopped
from attar.reader.parts import ReaderParts
from attar.reader.windows import FoundPhrases, Window

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from attar.nn.transformer import Transformer

# Pieces, with padding, that a GPU encodes together: several gigabytes of states and spans at most.
PIECES_ON_GPU = 2**16

Result = TypeVar("Result")


def find_device(name: "torch.device | str") -> "torch.device":
    """The CPU, or a GPU that PyTorch can use."""
    import torch

    try:
        device = torch.device(name)
    except RuntimeError:  # no such name
        device = torch.device("meta")
    if device.type not in ("cpu", "cuda"):
        raise OptionError.expected("device", "cpu or cuda", repr(str(name)))
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        which = "no GPU" if device.index is None else f"no GPU {device.index}"
        raise DeviceError(f"there is {which} that PyTorch can use", "leave the device out, or take cpu")
    return device


@contextmanager
def device_errors(device: "torch.device") -> Iterator[None]:
    """Report in one line that a GPU is lost, or that its memory is full."""
    try:
        yield
    except RuntimeError as fault:
        if device.type == "cpu":
            raise
        reason = (str(fault).strip().splitlines() or [type(fault).__name__])[0].rstrip(".")
        remedy = "what was confirmed is kept; start again, or leave the device out"
        raise DeviceError(f"{device} does not read any more: {reason}", remedy) from fault


class PaddedWindows(NamedTuple):
    """Windows on the device, between [CLS] and [SEP]: `[B, n]`; `mask` is where they are, `inside` without the two."""

    ids: "Tensor"
    sentences: "Tensor"
    mask: "Tensor"
    inside: "Tensor"


class EncodedBatch:
    """What was found in windows; it is on its way from the device until somebody asks for it."""

    def __init__(
        self, batch: Sequence[Window], spans: "Tensor", windows: PaddedWindows, states: "Tensor"
    ) -> None:
        """`spans` are the bytes of phrases (`FoundPhrases.of`), `states` `[B, n, d]` what signatures are made of."""
        self.batch, self.windows, self.states = batch, windows, states
        self._spans, self._arrived = spans, None
        if spans.device.type == "cuda":
            import torch

            self._spans = torch.empty(spans.shape, dtype=spans.dtype, pin_memory=True)
            self._spans.copy_(spans, non_blocking=True)
            self._arrived = torch.cuda.current_stream().record_event()

    def blocks(self) -> NDArray[np.uint8]:
        """The phrases of each window as bytes, once they have arrived."""
        if self._arrived is not None:
            self._arrived.synchronize()
        arrived: NDArray[np.uint8] = self._spans.numpy()
        return arrived

    def phrases(self) -> list[FoundPhrases]:
        """The phrases of each window."""
        return FoundPhrases.of(self.blocks())


def window_states(windows: Sequence[Window], states: "Tensor") -> list[Floats]:
    """The states `[n, d]` of the pieces of each window, from those of padded windows."""
    padded = states.float().cpu().numpy()
    return [rows[1 : len(window.ids) + 1] for rows, window in zip(padded, windows, strict=True)]


class TextEncoder:
    """The network that reads texts, its layers in int8 on a CPU, in bfloat16 on a GPU."""

    def __init__(self, parts: ReaderParts, signature_layers: int) -> None:
        self._parts, self._signature_layers = parts, signature_layers
        network = parts.network()
        self.device = network.encoder.words.weight.device
        from attar.nn.fast_layers import Int8Transformer

        self._encoder: Transformer | Int8Transformer
        if self.device.type == "cpu":
            self._encoder = Int8Transformer(network.encoder)
        else:
            self._encoder = copy.deepcopy(network.encoder).bfloat16()

    @cached_property
    def _tables(self) -> "list[Tensor]":
        """Which pieces continue a word, are articles, and are punctuation, `[V]` each."""
        import torch

        tokenizer = self._parts.tokenizer
        tables = (tokenizer.continuing, tokenizer.articles, tokenizer.marks)
        return [torch.from_numpy(table).to(self.device) for table in tables]

    def batches(self, windows: Sequence[Window], pieces: int | None = None) -> list[NDArray[np.int64]]:
        """The numbers of windows that are encoded together.

        On a CPU each is encoded alone: that is as fast, and its phrases have the same bytes whatever is read with it,
        so that extending equals reading at once. A GPU gets windows of similar length, so that little is padding.
        """
        if pieces is None and self.device.type == "cpu":
            return [*np.arange(len(windows))[:, None]]
        lengths = np.array([len(window.ids) for window in windows], np.int64)
        order = np.argsort(lengths, kind="stable")
        widths, made, first = lengths[order] + 2, [], 0
        while first < len(order):
            count = np.arange(1, len(order) - first + 1)
            last = first + max(1, int(((count * widths[first:]) <= (pieces or PIECES_ON_GPU)).sum()))
            made.append(order[first:last])
            first = last
        return made

    def states(self, windows: Sequence[Window]) -> list[Floats]:
        """The hidden states of each window that signatures are made of, by as few layers as these need."""
        import torch

        with torch.inference_mode():
            padded = self._padded(windows)
            states = self._encoder(padded.ids, padded.mask, layers=self._signature_layers)
        return window_states(windows, states)

    def encode(self, windows: Sequence[Window]) -> EncodedBatch:
        """The phrases of windows; nothing waits for the device before they are asked for."""
        import torch

        from attar.nn.phrases import at_spans

        network, settings = self._parts.network(), self._parts.config.network
        with torch.inference_mode():
            padded = self._padded(windows)
            states = self._encoder(padded.ids, padded.mask, layers=self._signature_layers)
            hidden = self._encoder.continued(states, padded.mask, slice(self._signature_layers, None))
            hidden = hidden.float()
            starts, ends = network.ends(hidden)
            priors = network.priors(network.piece_priors(hidden), self._valid(padded))
            if settings.distinct:
                priors = _distinct(padded.ids, priors, *self._tables[1:])
            counts = np.ceil(settings.density * np.array([len(window.ids) for window in windows]))
            most = torch.from_numpy(counts).to(self.device)
            places, values = _likeliest(priors.flatten(1), most, int(counts.max()))
            firsts = places.clamp(min=0) // LONGEST
            lasts = firsts + places.clamp(min=0) % LONGEST
            numbers, scales = quantized(at_spans(starts, ends, firsts, lasts))
            parts = (places[..., None], values[..., None], scales, numbers)
            spans = torch.cat([part.view(torch.uint8) for part in parts], -1)
            return EncodedBatch(windows, spans, padded, states)

    def encode_all(
        self,
        windows: Sequence[Window],
        encode: Callable[[Sequence[Window]], Result],
        take: Callable[[NDArray[np.int64], Result], None],
    ) -> None:
        """Encode windows in batches; `take` gets the numbers of each batch's windows and its result, in order.

        Each batch is encoded by one thread, as many at a time as torch has threads: threads that share one wait for
        each other, and could round it in another way.
        """
        batches = self.batches(windows)

        def encode_batch(batch: NDArray[np.int64]) -> Result:
            return encode([windows[at] for at in batch])

        with inference() as threads, ThreadPoolExecutor(threads) as pool:
            several = min(threads, len(batches)) > 1
            results = pool.map(encode_batch, batches) if several else map(encode_batch, batches)
            try:
                for batch, result in zip(batches, results, strict=True):
                    check_stopped()
                    take(batch, result)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _padded(self, windows: Sequence[Window]) -> PaddedWindows:
        import torch

        tokenizer, lengths = self._parts.tokenizer, np.array([[len(window.ids)] for window in windows])
        at = np.arange(int(lengths.max()) + 2)
        inside = (at > 0) & (at <= lengths)
        ids, sentences = np.zeros(inside.shape, np.int64), np.zeros(inside.shape, np.int64)
        ids[inside] = np.concatenate([window.ids for window in windows])
        sentences[inside] = np.concatenate([window.sentences for window in windows])
        ids[:, 0] = tokenizer.cls
        ids[at == lengths + 1] = tokenizer.sep
        parts = [torch.from_numpy(part) for part in (ids, sentences, at <= lengths + 1, inside)]
        if self.device.type == "cuda":
            # Copies of other memory would wait for what the device is doing.
            parts = [part.pin_memory() for part in parts]
        return PaddedWindows(*(part.to(self.device, non_blocking=True) for part in parts))

    def _valid(self, windows: PaddedWindows) -> "Tensor":
        """The spans of one sentence that neither start nor end inside a word, `[B, n, w]`."""
        from torch.nn import functional

        from attar.nn.phrases import following, valid_spans

        inner = self._tables[0][windows.ids]
        ends = functional.pad(~inner[:, 1:], (0, 1), value=True)
        whole = ~inner[..., None] & (following(ends.float()) > 0)
        return valid_spans(windows.sentences, windows.inside) & whole


def _likeliest(priors: "Tensor", counts: "Tensor", most: int) -> "tuple[Tensor, Tensor]":
    """The places of the `counts` `[B]` highest finite priors `[B, m]` of each row, in order, and these priors.

    Rows have `most` places; -1 after the last.

    >>> import torch
    >>> places, values = _likeliest(torch.tensor([[1.0, 3.0, float("-inf"), 2.0]]), torch.tensor([2]), 3)
    >>> places.tolist(), values[:, :2].tolist()
    ([[1, 3, -1]], [[3.0, 2.0]])
    """
    import torch

    most = min(most, priors.shape[1])
    highest, places = priors.topk(most)
    chosen = (torch.arange(most, device=priors.device) < counts[:, None]) & highest.isfinite()
    none = priors.shape[1]
    places = places.masked_fill(~chosen, none).sort().values
    values = priors.gather(1, places.clamp(max=none - 1))
    return places.masked_fill(places == none, -1).to(torch.int32), values


def quantized(vectors: "Tensor") -> "tuple[Tensor, Tensor]":
    """`attar.memory.memory.quantize` of vectors `[..., k]`: int8, and scales `[..., 1]`."""
    import torch

    scales = vectors.abs().amax(-1, keepdim=True)
    levels = torch.where(scales > 0, vectors / scales, 0.0) * 127
    return levels.round().to(torch.int8), scales


def _distinct(ids: "Tensor", priors: "Tensor", articles: "Tensor", marks: "Tensor") -> "Tensor":
    """Priors `[B, n, w]` with only the likeliest of the spans that are the same answer; -inf for the others.

    They differ in an article before them or in punctuation around them: "the boat" and "boat,".
    """
    import torch

    from attar.nn.phrases import following

    count = ids.shape[1]
    at = torch.arange(count, device=ids.device)
    # The first piece from here on that counts, and the last one up to here.
    after = torch.where(articles[ids] | marks[ids], count, at).flip(1).cummin(1).values.flip(1)
    before = torch.where(marks[ids], -1, at).cummax(1).values
    first, last = after[..., None], following(before.float(), -1.0).long()
    spans = torch.arange(priors[0].numel(), device=ids.device).view(priors.shape[1:]) + count * count
    same = torch.where(first <= last, first * count + last, spans).flatten(1)
    best = priors.new_full((len(ids), count * count + spans.numel()), float("-inf"))
    best = best.scatter_reduce(1, same, priors.flatten(1), "amax")
    return priors.masked_fill((priors.flatten(1) < best.gather(1, same)).view_as(priors), float("-inf"))


@contextmanager
def inference() -> Iterator[int]:
    """Compute without gradients and with one thread; yields how many threads torch had.

    >>> import torch
    >>> before = torch.get_num_threads()
    >>> with inference():
    ...     torch.get_num_threads(), torch.is_inference_mode_enabled()
    (1, True)
    >>> torch.get_num_threads() == before
    True
    """
    import torch

    before = torch.get_num_threads()
    if before != 1:
        torch.set_num_threads(1)
    try:
        with torch.inference_mode():
            yield before
    finally:
        if before != 1:
            torch.set_num_threads(before)
