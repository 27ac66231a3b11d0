from dataclasses import replace

import numpy as np
import pytest
import torch

from attar.nn.spans import SpanNetwork
from attar.nn.transformer import Transformer
from attar.options import TransformerShape
from attar.reader.windows import PieceTokenizer
from attar.training import look
from attar.training.batches import QuestionSet
from attar.training.data import Passage, PassageQuestion
from attar.training.look import SentenceBatches, look_accuracy, look_loss, look_set
from attar.training.teacher import TeacherLabels

TEXT = "Ann bought a red boat in Leeds. Bob bought the mill in Dover. Clara bought two horses in York."
ANSWERED = PassageQuestion("What did Bob buy?", ((43, 51),))
ABSENT = PassageQuestion("What did Dora buy?")
UNKNOWN = PassageQuestion("What did Gus buy?", labelled=False)
PASSAGES = [
    Passage(TEXT, "a", (ANSWERED, ABSENT, UNKNOWN)),
    Passage("Emil bought an old clock in Hull. Frida did not.", "a"),
    Passage(
        "Hanna bought a blue door in Bath.", "b", (PassageQuestion("Where did Hanna buy it?", ((28, 32),)),)
    ),
]


@pytest.fixture(scope="module")
def questions(tokenizer: PieceTokenizer) -> QuestionSet:
    return QuestionSet.of(PASSAGES, tokenizer)


def labelled(questions: QuestionSet, present: float = 0.8) -> TeacherLabels:
    """A teacher that is sure of the third sentence's first word."""
    labels = TeacherLabels.empty(len(questions.questions))
    for q, at in enumerate(questions.owners):
        text = questions.texts[at]
        first = int(np.searchsorted(text.sentences, text.sentences[-1]))
        labels.first[q] = labels.last[q] = first
        labels.probability[q] = labels.present[q] = present
        labels.scores[q] = np.zeros((2, len(text)), np.float16)
        labels.scores[q][:, first] = 9.0
    return labels


def batches(questions: QuestionSet, present: float = 0.8, epochs: int = 12) -> SentenceBatches:
    labels = labelled(questions, present)
    data, weights = look_set(questions, labels)
    return SentenceBatches(data, labels, weights, tokens=2_000, epochs=epochs, seed=0)


def test_spans_are_moved_to_where_their_words_are(questions: QuestionSet) -> None:
    answer = questions.texts[0].ids[slice(questions.golds[0][0, 0], questions.golds[0][0, 1] + 1)].tolist()
    seen = 0
    steps = batches(questions)
    for step, (_, chosen) in enumerate(steps.steps):
        batch = steps[step]
        for row, q in enumerate(chosen):
            first, last = batch["spans"][row, 0].tolist()
            if q == 0 and first >= 0:
                seen += 1
                assert batch["ids"][row, first : last + 1].tolist() == answer
                assert batch["inside"][row, first : last + 1].all()
    assert seen > 2


def test_the_loss_falls_and_the_accuracy_is_that_of_the_teacher(questions: QuestionSet) -> None:
    torch.manual_seed(0)
    vocabulary = 1 + max(int(text.ids.max()) for text in questions.texts)
    vocabulary = max(vocabulary, 1 + max(int(ids.max()) for ids in [*questions.questions, *questions.typed]))
    network = SpanNetwork(Transformer(TransformerShape(vocabulary, 32, 1, 2, 64, 320), dropout=0.0))
    optimizer = torch.optim.AdamW(network.parameters(), 3e-3)
    steps = batches(replace(questions, absent=set(questions.absent)), epochs=60)
    losses = []
    for step in range(len(steps)):
        loss, parts = look_loss(network, steps[step])
        assert set(parts) == {"taught", "known", "present"}
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert np.mean(losses[-10:]) < 0.7 * np.mean(losses[:10])
    assert set(look_accuracy(network, questions, torch.device("cpu"))) == {"em", "f1", "auc"}


def test_what_is_read_by_length_is_what_is_read_at_once(
    questions: QuestionSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    network = (
        SpanNetwork(Transformer(TransformerShape(30_522, 16, 1, 2, 32, 320), dropout=0.0)).double().eval()
    )
    batch = batches(questions, epochs=1)[0]
    losses = []
    for parts in (1, 3, 500):
        monkeypatch.setattr(look, "_PARTS", parts)
        losses.append(look_loss(network, batch)[0].item())
    assert losses == pytest.approx([losses[0]] * 3, rel=1e-9)
