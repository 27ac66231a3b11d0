"""Stages of training, each a command that reads and writes files of a run folder."""

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np
import safetensors.torch
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from attar.nn.phrases import PhraseNetwork, PhraseOptions, QuickQuestions, valid_spans
from attar.nn.transformer import TransformerShape, from_published
from attar.text.pieces import PieceTokenizer
from attar.training.questions.batches import QuestionBatches, padded, text_batch
from attar.training.questions.data import Encoded, Passage, Question, paragraphs, read_passages, token_spans, without_overlap
from attar.training.questions.evaluation import answer_all, evaluate_spans, keep_best
from attar.training.questions.generator import Generator, MarkedBatches
from attar.training.questions.student import student_loss
from attar.training.questions.teacher import PairBatches, Teacher, label

START = time.time()
SMALL = "--small" in sys.argv
SHAPE = TransformerShape(layers=1) if SMALL else TransformerShape()
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def say(*words):
    print(f"[{time.time() - START:6.1f}s]", *words, flush=True)


def loader(dataset: Dataset, workers: int = 5):
    workers = 0 if SMALL else workers
    return DataLoader(dataset, batch_size=None, shuffle=False, num_workers=workers, pin_memory=DEVICE.type == "cuda", prefetch_factor=8 if workers else None)


def fit(module: nn.Module, loss_of, dataset, lr: float, every: int = 400, workers: int = 5, heads: float = 5.0, limit: int | None = None, hook=None):
    module.to(DEVICE).train()
    base = {id(p) for p in module.encoder.parameters()} if hasattr(module, "encoder") else set()
    groups = [
        {"params": [p for p in module.parameters() if id(p) in base], "lr": lr},
        {"params": [p for p in module.parameters() if id(p) not in base], "lr": lr * heads},
    ]
    groups = [group for group in groups if group["params"]]
    optimizer = torch.optim.AdamW(groups, weight_decay=0.01, fused=DEVICE.type == "cuda")
    limit = 2 if SMALL else limit
    steps = len(dataset) if limit is None else min(limit, len(dataset))
    warm = max(1, steps // 20)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min((s + 1) / warm, max(0.0, (steps - s) / (steps - warm))))
    total, began = {}, time.time()
    for step, batch in enumerate(loader(dataset, workers)):
        if step >= steps:
            break
        batch = {k: v.to(DEVICE, non_blocking=True) for k, v in batch.items()}
        with torch.autocast(DEVICE.type, torch.bfloat16, enabled=not SMALL):
            loss = loss_of(batch)
        parts = {}
        if isinstance(loss, tuple):
            loss, parts = loss
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        for name, value in ({"loss": loss.detach()} | parts).items():
            total[name] = total.get(name, 0) + value
        if (step + 1) % every == 0 or step + 1 == steps:
            n = every if (step + 1) % every == 0 else steps % every
            say(f"step {step + 1}/{steps}", " ".join(f"{k} {float(v) / n:.3f}" for k, v in total.items()), f"{(time.time() - began) / (step + 1) * 1e3:.0f} ms")
            total = {}
            if hook:
                hook(step + 1)
    return module


def base_weights(path: Path) -> dict:
    raw = safetensors.torch.load_file(path)
    if "embeddings.word_embeddings.scale" in raw:
        scale = raw.pop("embeddings.word_embeddings.scale")
        raw["embeddings.word_embeddings.weight"] = raw["embeddings.word_embeddings.weight"].float() * scale[:, None]
    return from_published(raw, SHAPE.layers)


def save(path: Path, module: nn.Module):
    tmp = path.with_suffix(".tmp")
    safetensors.torch.save_file({k: v.half().cpu().contiguous() for k, v in module.state_dict().items()}, tmp)
    tmp.rename(path)


def load(path: Path, module: nn.Module):
    module.load_state_dict({k: v.float() for k, v in safetensors.torch.load_file(path).items()})
    return module.to(DEVICE)


def save_soft(path: Path, encoded: Encoded, found: np.ndarray):
    """Teacher scores in one flat array."""
    rows = [s if s is not None else np.zeros((2, 0), np.float16) for s in encoded.soft]
    lengths = np.array([r.shape[1] for r in rows], np.int32)
    flat = np.concatenate(rows, 1) if rows else np.zeros((2, 0), np.float16)
    with open(path.with_suffix(".tmp"), "wb") as file:
        np.savez(file, found=found, lengths=lengths, flat=flat)
    path.with_suffix(".tmp").rename(path)


def load_soft(path: Path, encoded: Encoded) -> np.ndarray:
    data = np.load(path)
    ends = np.cumsum(data["lengths"])
    flat = data["flat"]
    for at, (end, length) in enumerate(zip(ends, data["lengths"], strict=True)):
        encoded.soft[at] = flat[:, end - length : end] if length else None
    return data["found"]


def wait(path: Path):
    while not path.exists():
        time.sleep(1)


class Run:
    def __init__(self, args):
        self.args, self.work, self.data = args, Path(args.work), Path(args.data)
        self.work.mkdir(parents=True, exist_ok=True)
        self.tokenizer = PieceTokenizer.load(self.data / "tokenizer.json")
        self.base = base_weights(self.data / "base.safetensors")

    def training_set(self) -> Encoded:
        passages = []
        for name in ("squad-train-part", "squadshifts-train", "qamr", "squad2-backtranslated"):
            passages += read_passages(self.data / f"{name}.jsonl.xz")
        if self.args.small:
            passages = passages[:: self.args.small][:30]
        encoded = Encoded.of(passages, self.tokenizer)
        say(len(passages), "passages", len(encoded.questions), "questions")
        return encoded

    def dev_set(self) -> Encoded:
        passages = read_passages(self.data / "squad2-dev.json.xz")
        if self.args.small:
            passages = passages[:6]
        return Encoded.of(passages, self.tokenizer, 440)

    def labelled(self, encoded: Encoded) -> list[int]:
        return [q for q, gold in enumerate(encoded.golds) if encoded.sources[q].labelled and len(gold)]

    def pseudo(self, encoded: Encoded, found: np.ndarray, floor: float) -> list[int]:
        """Unlabelled questions of which the teacher is sure and in agreement with a marked span."""
        chosen = []
        for q, source in enumerate(encoded.sources):
            if source.labelled or found[q, 2] < floor:
                continue
            at = encoded.owners[q]
            first, last = found[q, :2].astype(int)
            marked = token_spans(encoded.texts[at], encoded.passages[at].spans)
            if len(marked) and bool(((marked[:, 0] <= last) & (marked[:, 1] >= first)).any()):
                encoded.golds[q] = np.array([[first, last]], np.int32)
                chosen.append(q)
        return chosen

    def teacher_of(self) -> Teacher:
        teacher = Teacher(SHAPE)
        teacher.encoder.load_state_dict(self.base)
        return teacher

    def stage_teacher(self):
        encoded = self.training_set()
        labelled = self.labelled(encoded)
        unlabelled = [q for q, s in enumerate(encoded.sources) if not s.labelled]
        teacher = self.teacher_of()
        fit(teacher, teacher.loss, PairBatches(encoded, labelled, tokens=2_000 if SMALL else 16_000, epochs=2, seed=1), 1.5e-4)
        pairs = PairBatches(encoded, unlabelled, tokens=2_000 if SMALL else 60_000, epochs=1, seed=0, shuffle=False)
        found = label(teacher, pairs, loader(pairs), DEVICE)
        more = self.pseudo(encoded, found, 0.35)
        say("pseudo-labelled", len(more))
        np.savez(self.work / "labels1.tmp.npz", found=found)
        (self.work / "labels1.tmp.npz").rename(self.work / "labels1.npz")
        teacher = self.teacher_of()
        fit(teacher, teacher.loss, PairBatches(encoded, labelled + more, tokens=2_000 if SMALL else 16_000, epochs=3, seed=2), 1.5e-4)
        save(self.work / "teacher.safetensors", teacher)
        everything = PairBatches(encoded, range(len(encoded.questions)), tokens=2_000 if SMALL else 60_000, epochs=1, seed=0, shuffle=False)
        found = label(teacher, everything, loader(everything), DEVICE)
        save_soft(self.work / "labels2.npz", encoded, found)
        if self.args.limit == 0:
            return
        dev = self.dev_set()
        pairs = PairBatches(dev, range(len(dev.questions)), tokens=2_000 if SMALL else 60_000, epochs=1, seed=0, shuffle=False)
        found = label(teacher, pairs, loader(pairs), DEVICE)
        from attar.training.questions.evaluation import exact, f1, span_text

        ems, f1s = [], []
        for q, source in enumerate(dev.sources):
            if source.answers:
                at = dev.owners[q]
                given = span_text(dev, at, int(found[q, 0]), int(found[q, 1]))
                golds = [dev.passages[at].text[a:b] for a, b in source.answers]
                ems.append(exact(given, golds))
                f1s.append(f1(given, golds))
        say(f"TEACHER EM {np.mean(ems):.3f} F1 {np.mean(f1s):.3f}")

    def stage_prior(self):
        """The spans worth asking about."""
        encoded = self.training_set()
        for at, passage in enumerate(encoded.passages):
            if passage.spans:  # what was marked was asked about
                spans = token_spans(encoded.texts[at], passage.spans)
                for place, q in enumerate(encoded.of_passage[at]):
                    encoded.golds[q] = spans[place : place + 1]
        network = PhraseNetwork(PhraseOptions(match="none", encoder=SHAPE))
        network.encoder.load_state_dict(self.base)

        def loss(batch):
            from attar.training.questions.student import gold_scores

            texts = network.encode_texts(batch["ids"], batch["mask"])
            prior = network.priors(texts, valid_spans(batch["sentences"], batch["inside"]))
            asked, usable = gold_scores(prior[batch["owners"]], batch["spans"])
            total = prior.flatten(1).logsumexp(1)[batch["owners"]]
            return torch.where(usable, total - asked, 0.0).sum() / usable.sum().clamp(min=1)

        data = QuestionBatches(encoded, tokens=2_000 if SMALL else 16_000, epochs=2, seed=5, per_passage=12, negatives=1)
        fit(network, loss, data, 1e-4)
        save(self.work / "prior.safetensors", network)

    def stage_generator(self):
        encoded = self.training_set()
        wait(self.work / "labels1.npz")
        found = np.load(self.work / "labels1.npz")["found"]
        chosen = self.labelled(encoded) + self.pseudo(encoded, found, 0.35)
        items = []
        for q in chosen:
            first, last = encoded.golds[q][0]
            if last - first < 16 and len(encoded.questions[q]) > 4:
                items.append((encoded.owners[q], int(first), int(last), encoded.questions[q]))
        say(len(items), "questions to learn from")
        generator = Generator(SHAPE)
        generator.encoder.load_state_dict(self.base)
        data = MarkedBatches([t.ids for t in encoded.texts], items, tokens=2_000 if SMALL else 16_000, epochs=self.args.epochs or 4, seed=3)
        fit(generator, generator.loss, data, 1.5e-4, heads=4.0)
        save(self.work / "generator.safetensors", generator)

    def stage_generate(self):
        dev = read_passages(self.data / "squad2-dev.json.xz")
        passages = without_overlap(paragraphs(self.data / "wiki.jsonl.xz"), dev)
        if self.args.small:
            passages = passages[:: self.args.small][:30]
        encoded = Encoded.of(passages, self.tokenizer)
        say(len(passages), "paragraphs")
        wait(self.work / "prior.safetensors")
        prior = load(self.work / "prior.safetensors", PhraseNetwork(PhraseOptions(match="none", encoder=SHAPE))).eval()
        items = []
        random = torch.Generator(device=DEVICE).manual_seed(0)
        order = np.argsort([len(t) for t in encoded.texts])
        with torch.no_grad(), torch.autocast(DEVICE.type, torch.bfloat16, enabled=not SMALL):
            for start in range(0, len(order), 128):
                chunk = order[start : start + 128].tolist()
                batch = {k: v.to(DEVICE) for k, v in text_batch(encoded, chunk).items()}
                texts = prior.encode_texts(batch["ids"], batch["mask"])
                scores = prior.priors(texts, valid_spans(batch["sentences"], batch["inside"]))
                kept = keep_best(scores, batch["inside"], 0.2)
                flat = scores.masked_fill(~kept, float("-inf")).flatten(1) / 2.0
                noise = -torch.log(-torch.log(torch.rand(flat.shape, generator=random, device=DEVICE).clamp(1e-9, 1 - 1e-7)))
                best = (flat + noise).topk(8, 1)
                for at, places, values in zip(chunk, best.indices.tolist(), best.values.tolist(), strict=True):
                    for place, value in zip(places, values, strict=True):
                        if value > -1e30:
                            items.append((at, place // 10 - 1, place // 10 + place % 10 - 1, None))
        items = items[:8] if SMALL else items
        say(len(items), "spans")
        wait(self.work / "generator.safetensors")
        generator = load(self.work / "generator.safetensors", Generator(SHAPE))
        data = MarkedBatches([t.ids for t in encoded.texts], items, tokens=192 * (8 if SMALL else 1024), epochs=1, seed=4)
        written = {}
        for step, batch in enumerate(loader(data)):
            batch = {k: v.to(DEVICE) for k, v in batch.items()}
            with torch.autocast(DEVICE.type, torch.bfloat16, enabled=not SMALL):
                rows = generator.generate(batch).cpu().numpy()
            for item, row in zip(batch["items"].tolist(), rows, strict=True):
                ends = np.flatnonzero(row == 102)
                if SMALL or (len(ends) and 4 < ends[0] < 40):
                    written[item] = row[: ends[0] + 1 if len(ends) else 9].astype(np.int32)
            if step % 50 == 0:
                say("generated", step, "/", len(data))
        say(len(written), "questions written")
        for at in range(len(encoded.passages)):
            encoded.of_passage[at] = []
        for item, ids in sorted(written.items()):
            at, first, last, _ = items[item]
            encoded.of_passage[at].append(len(encoded.questions))
            encoded.questions.append(ids)
            encoded.owners.append(at)
            encoded.golds.append(np.array([[first, last]], np.int32))
            encoded.sources.append(Question(""))
            encoded.soft.append(None)
        for q in range(0, min(len(encoded.questions), 4000), 200):
            at = encoded.owners[q]
            a, b = encoded.golds[q][0]
            text = encoded.texts[at]
            say("  ", self.tokenizer._tokenizer.decode(encoded.questions[q].tolist()), "|", encoded.passages[at].text[text.starts[a] : text.ends[b]])
        wait(self.work / "teacher.safetensors")
        teacher = load(self.work / "teacher.safetensors", Teacher(SHAPE))
        pairs = PairBatches(encoded, range(len(encoded.questions)), tokens=2_000 if SMALL else 60_000, epochs=1, seed=0, shuffle=False)
        found = label(teacher, pairs, loader(pairs), DEVICE)
        keep = []
        for q in range(len(encoded.questions)):
            (first, last), (a, b, p) = encoded.golds[q][0], found[q]
            common = min(last, b) - max(first, a) + 1
            if SMALL or p > 0.2 and common > 0 and 2 * common / (last - first + b - a + 2) > 0.6:
                keep.append(q)
        say(len(keep), "questions kept,", f"{len(keep) / max(1, len(found)):.2f}")
        rows = {"passage": [], "question": [], "lengths": [], "spans": []}
        soft, ids = [], []
        for q in keep:
            rows["passage"].append(encoded.owners[q])
            rows["spans"].append(found[q])
            rows["lengths"].append((len(encoded.questions[q]), encoded.soft[q].shape[1]))
            ids.append(encoded.questions[q])
            soft.append(encoded.soft[q])
        with open(self.work / "synthetic.tmp", "wb") as file:
            np.savez(file, passage=np.array(rows["passage"]), spans=np.array(rows["spans"]), lengths=np.array(rows["lengths"]), ids=np.concatenate(ids), soft=np.concatenate(soft, 1))
        (self.work / "synthetic.tmp").rename(self.work / "synthetic.npz")

    def add_synthetic(self, encoded: Encoded) -> np.ndarray:
        dev = read_passages(self.data / "squad2-dev.json.xz")
        passages = without_overlap(paragraphs(self.data / "wiki.jsonl.xz"), dev)
        if self.args.small:
            passages = passages[:: self.args.small][:30]
        wiki = Encoded.of(passages, self.tokenizer)
        data = np.load(self.work / "synthetic.npz")
        base = len(encoded.passages)
        encoded.passages += wiki.passages
        encoded.texts += wiki.texts
        encoded.of_passage += [[] for _ in wiki.passages]
        at_id = at_soft = 0
        spans, ids, soft = data["spans"], data["ids"], data["soft"]
        for passage, span, (length, width) in zip(data["passage"], spans, data["lengths"], strict=True):
            encoded.of_passage[base + passage].append(len(encoded.questions))
            encoded.questions.append(ids[at_id : at_id + length])
            encoded.owners.append(base + int(passage))
            encoded.golds.append(span[None, :2].astype(np.int32))
            encoded.sources.append(Question("", labelled=True))
            encoded.soft.append(soft[:, at_soft : at_soft + width])
            at_id += length
            at_soft += width
        return spans[:, 2]

    def stage_student(self):
        args = self.args
        encoded = self.training_set()
        wait(self.work / "labels2.npz")
        found = load_soft(self.work / "labels2.npz", encoded)
        more = set(self.pseudo(encoded, found, 0.15))
        real = len(encoded.questions)
        weights = np.ones(real, np.float32)
        for q in range(real):
            if not encoded.sources[q].labelled:
                weights[q] = found[q, 2] if q in more else 0.0
                if q not in more:
                    encoded.soft[q] = None
        drop = {q for q in range(real) if weights[q] == 0 or not len(encoded.golds[q])}
        for at in range(len(encoded.of_passage)):
            encoded.of_passage[at] = [q for q in encoded.of_passage[at] if q not in drop]
        if args.synthetic:
            wait(self.work / "synthetic.npz")
            weights = np.concatenate([weights, self.add_synthetic(encoded).astype(np.float32) * args.synthetic])
        say(len(encoded.questions) - len(drop), "questions for the student")
        network = PhraseNetwork(PhraseOptions(size=args.size, word_size=args.word_size, match=args.match, encoder=SHAPE))
        network.encoder.load_state_dict(self.base)
        if args.init:
            wait(self.work / args.init)
            load(self.work / args.init, network)
        dev = self.dev_set()
        data = QuestionBatches(encoded, tokens=2_000 if SMALL else args.tokens, epochs=args.epochs or 8, seed=args.seed, weights=weights, negatives=args.negatives)
        fit(network, lambda batch: student_loss(network, batch), data, args.lr, workers=args.workers, limit=args.limit)
        save(self.work / f"{args.name}.safetensors", network)
        self.report(network, dev, args.name)

    def stage_quick(self):
        args = self.args
        encoded = self.training_set()
        real = self.labelled(encoded)
        wait(self.work / f"{args.name}.safetensors")
        options = PhraseOptions(size=args.size, word_size=args.word_size, match=args.match, encoder=SHAPE)
        network = load(self.work / f"{args.name}.safetensors", PhraseNetwork(options)).eval()
        for parameter in network.parameters():
            parameter.requires_grad_(False)
        quick = QuickQuestions(options, args.shared, args.own).to(DEVICE)
        for at, layer in enumerate(quick.layers.layers):
            layer.load_state_dict(network.encoder.layers.layers[len(network.encoder.layers.layers) - args.own + at].state_dict())
        for name in ("query", "null", "weight"):
            getattr(quick, name).load_state_dict(getattr(network, name).state_dict())
        questions = list(encoded.questions)
        if (self.work / "synthetic.npz").exists():
            data = np.load(self.work / "synthetic.npz")
            questions += np.split(data["ids"], np.cumsum(data["lengths"][:, 0])[:-1])
        say(len(questions), "questions")

        class Plain(Dataset):
            def __len__(self):
                return args.epochs * len(questions) // 1024

            def __getitem__(self, step):
                random = np.random.default_rng((args.seed, step))
                ids, mask = padded([questions[q] for q in random.integers(0, len(questions), 1024)], 8)
                return {"ids": ids, "mask": mask}

        def imitate(batch):
            with torch.no_grad():
                target = network.encode_questions(batch["ids"], batch["mask"])
            given = network.encode_questions(batch["ids"], batch["mask"], quick)
            queries = (given.queries.float() - target.queries.float()).pow(2).sum(1).mean() / 8
            nulls = (given.nulls - target.nulls).pow(2).mean()
            weights = (given.weights - target.weights).pow(2).sum(1).mean()
            return queries + nulls + 4 * weights, {"query": queries.detach(), "null": nulls.detach(), "weight": weights.detach()}

        fit(quick, imitate, Plain(), args.lr * 2, heads=1.0)
        dev = self.dev_set()
        self.report(network, dev, f"{args.name}-quick-{args.shared}-{args.own}", quick, (0.35,))
        wait(self.work / "labels2.npz")
        found = load_soft(self.work / "labels2.npz", encoded)
        more = set(self.pseudo(encoded, found, 0.15)) | set(real)
        for at in range(len(encoded.of_passage)):
            encoded.of_passage[at] = [q for q in encoded.of_passage[at] if q in more]
        batches = QuestionBatches(encoded, tokens=12_000, epochs=3, seed=args.seed, negatives=4)
        fit(quick, lambda batch: student_loss(network, batch, quick), batches, args.lr, heads=1.0, limit=args.limit)
        save(self.work / f"{args.name}-quick-{args.shared}-{args.own}.safetensors", quick)
        self.report(network, dev, f"{args.name}-quick-{args.shared}-{args.own}", quick, (0.35,))

    def stage_evaluate(self):
        args = self.args
        network = PhraseNetwork(PhraseOptions(size=args.size, word_size=args.word_size, match=args.match, encoder=SHAPE))
        self.report(load(self.work / f"{args.name}.safetensors", network), self.dev_set(), args.name)

    def report(self, network, dev, name, quick=None, ratios=(0.2, 0.35, 0.45, 10.0)):
        network.eval()
        if quick is not None:
            quick.eval()
        for ratio in ratios:
            answers = answer_all(network, dev, ratio, DEVICE, quick=quick)
            line = []
            for paragraphs_ in (1, 8, None) if ratio < 1 else (1,):
                s = evaluate_spans(dev, answers, paragraphs_)
                line.append(f"{paragraphs_}: EM {s['em']:.3f} F1 {s['f1']:.3f} sent {s['sentence']:.3f} p {s['probability']:.2f}")
                if paragraphs_ == 1 and ratio == 0.35:
                    other = answer_all(network, dev, ratio, DEVICE, foreign=True, quick=quick)
                    right = s["_margins"][s["_right"] > 0]
                    floor = np.quantile(right, 0.1) if len(right) else 0.0
                    line.append(f"refused {np.mean(other.total - other.null < floor):.3f} at 90 % kept; at 0: {np.mean(other.total < other.null):.3f}, kept {np.mean(right > 0):.3f}")
            say(f"RESULT {name} ratio {ratio}", " | ".join(line))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("stage")
    parser.add_argument("--work", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--small", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=0)
    parser.add_argument("--name", default="student")
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--word-size", type=int, default=32)
    parser.add_argument("--match", default="static")
    parser.add_argument("--synthetic", type=float, default=0.0)
    parser.add_argument("--init", default="")
    parser.add_argument("--lr", type=float, default=2e-4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=12_000)
    parser.add_argument("--negatives", type=int, default=4)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--shared", type=int, default=1)
    parser.add_argument("--own", type=int, default=1)
    parser.add_argument("--limit", type=int, default=None)
    args = parser.parse_args()
    if DEVICE.type == "cuda":
        torch.backends.cuda.enable_cudnn_sdp(False)
        torch.set_float32_matmul_precision("high")
    torch.manual_seed(args.seed)
    run = Run(args)
    getattr(run, f"stage_{args.stage}")()
    say("done", args.stage, args.name)


if __name__ == "__main__":
    main()
