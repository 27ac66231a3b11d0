"""Candidates are scored by the question's words and names that share a sentence with them."""

import math

import pytest
import torch

from attar.errors import OptionError
from attar.nn.cooccurrence import CooccurrenceScore, count_cooccurrences, mentions_in_sentences
from attar.nn.network import Documents, Network, Questions
from attar.nn.network_options import NetworkOptions

FIRST, ENTITIES, WORDS = 3, 4, 12


@pytest.fixture
def scorer():
    return CooccurrenceScore(WORDS, FIRST, ENTITIES, common=1)


def counted(ids, names, ends, count, asked, documents):
    """The same counts by plain loops."""
    times = torch.zeros(len(asked), count, len(asked[0]))
    for question, document in enumerate(documents):
        sentences = [[]]
        for token, name, end in zip(ids[document], names[document], ends[document], strict=True):
            sentences[-1].append((token, name))
            if end:
                sentences.append([])
        for sentence in sentences:
            for _, name in sentence:
                for at, token in enumerate(asked[question]):
                    if name >= 0 and token and token in {other for other, _ in sentence}:
                        times[question, name, at] += 1
    return times


def test_counts_the_mentions_whose_sentence_holds_the_token():
    ids = torch.randint(FIRST, WORDS, (3, 30))
    ids[:, 25:] = 0  # padding
    names = torch.where((ids >= FIRST) & (ids < FIRST + ENTITIES), ids - FIRST, -1)
    ends = torch.rand(3, 30) < 0.2
    asked, documents = torch.randint(0, WORDS, (7, 6)), torch.tensor([0, 2, 1, 1, 0, 2, 2])
    sentence = ends.cumsum(1) - ends.long()
    mentioned = mentions_in_sentences(names, sentence, ENTITIES, int(sentence.max()) + 1)
    times = count_cooccurrences(ids, sentence, mentioned, asked, documents)
    wanted = counted(
        ids.tolist(), names.tolist(), ends.tolist(), ENTITIES, asked.tolist(), documents.tolist()
    )
    assert torch.equal(times, wanted)


def test_padding_unknown_and_common_words_have_weight_zero(scorer):
    padding, unknown, name, common, word = 0, 1, FIRST, FIRST + ENTITIES, FIRST + ENTITIES + 1
    weights = scorer.weigh(torch.tensor([[padding, unknown, name, common, word]]))
    as_word, as_name = weights[0].gt(0).mT.tolist()
    assert as_word == [False, False, False, False, True]
    assert as_name == [False, False, True, False, False]


def test_a_repeated_word_of_a_question_counts_once(scorer):
    word = WORDS - 1
    assert scorer.weigh(torch.tensor([[word, word, word]])).count_nonzero() == 1


def test_all_names_have_the_same_weight(scorer):
    weights = scorer.weigh(torch.arange(FIRST, FIRST + ENTITIES)[None])
    assert weights[0].tolist() == [[0.0, 1.0]] * ENTITIES


def test_the_score_follows_the_equation(scorer):
    with torch.no_grad():
        scorer.sharpness.copy_(torch.tensor([0.7, 0.4]))
        scorer.mentions.fill_(0.2)
        scorer.floor.fill_(0.0)
    found = scorer(torch.tensor([[[3.0, 2.0]]]), torch.tensor([[5.0]]))
    wanted = 0.7 * math.log(3 + math.log(2)) + 0.4 * math.log(2 + math.log(2)) - 0.2 * math.log(5)
    assert found.item() == pytest.approx(wanted)


def test_the_score_of_a_name_without_mentions_is_finite(scorer):
    assert scorer(torch.zeros(1, 1, 2), torch.zeros(1, 1)).isfinite().all()


def test_a_candidate_that_shares_a_sentence_with_the_questions_word_scores_higher(scorer):
    word = WORDS - 1
    ids = torch.tensor([[FIRST, word, FIRST + 1, WORDS - 2]])
    names, ends = torch.tensor([[0, -1, 1, -1]]), torch.tensor([[False, True, False, True]])
    documents = Documents(ids, torch.tensor([4]), ends, names, torch.tensor([[0, 1]]))
    one = torch.tensor([0])
    asked = Questions(torch.tensor([[word]]), one + 1, one, one, one, 1, torch.zeros(1, 2, dtype=torch.bool))
    scores = scorer.score(documents, asked)
    assert scores[0, 0] > scores[0, 1]
    scores.sum().backward()
    assert scorer.words.grad[-1] != 0
    assert scorer.words.grad[:-1].count_nonzero() == 0


def test_only_the_named_mechanism_takes_cooccurrence():
    with pytest.raises(OptionError, match="mechanism with co-occurrence: expected named, got 'gated'"):
        NetworkOptions(WORDS, ENTITIES, mechanism="gated", cooccurrence=True)


def test_names_count_even_if_all_words_are_common():
    network = Network(NetworkOptions(WORDS, ENTITIES, mechanism="named", cooccurrence=True))
    assert network.cooccurrence.weigh(torch.tensor([[FIRST, WORDS - 1]])).gt(0).any(2).tolist() == [
        [True, False]
    ]


def test_the_option_is_called_company_in_files():
    options = NetworkOptions(WORDS, ENTITIES, mechanism="named", cooccurrence=True)
    assert options.to_json()["company"] is True
    assert "cooccurrence" not in options.to_json()
    assert NetworkOptions.from_json(options.to_json()) == options


def test_the_option_is_not_written_when_it_is_off():
    assert {"company", "cooccurrence"}.isdisjoint(NetworkOptions(WORDS, ENTITIES).to_json())


def test_its_weights_are_called_company_in_files():
    network = Network(NetworkOptions(WORDS, ENTITIES, mechanism="named", cooccurrence=True))
    weights = {f"company.{name}" for name in ("words", "sharpness", "mentions", "floor")}
    assert weights <= set(network.state_dict())
