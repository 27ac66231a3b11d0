"""A candidate is scored by the question's words and names that shared a sentence with it."""

import math

import pytest
import torch

from attar.errors import OptionError
from attar.nn.company import Company, count_company, mentions_in_sentences
from attar.nn.network import Documents, Network, Questions
from attar.nn.network_options import NetworkOptions

FIRST, ENTITIES, WORDS = 3, 4, 12


@pytest.fixture
def company():
    return Company(WORDS, FIRST, ENTITIES, common=1)


def counted(ids, names, ends, count, asked, documents):
    """How often, by plain loops."""
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
    times = count_company(ids, sentence, mentioned, asked, documents)
    wanted = counted(
        ids.tolist(), names.tolist(), ends.tolist(), ENTITIES, asked.tolist(), documents.tolist()
    )
    assert torch.equal(times, wanted)


def test_what_tells_nothing_weighs_nothing(company):
    padding, unknown, name, common, word = 0, 1, FIRST, FIRST + ENTITIES, FIRST + ENTITIES + 1
    weights = company.weigh(torch.tensor([[padding, unknown, name, common, word]]))
    as_word, as_name = weights[0].gt(0).mT.tolist()
    assert as_word == [False, False, False, False, True]
    assert as_name == [False, False, True, False, False]


def test_a_word_counts_once_however_often_the_question_has_it(company):
    word = WORDS - 1
    assert company.weigh(torch.tensor([[word, word, word]])).count_nonzero() == 1


def test_all_names_weigh_the_same(company):
    weights = company.weigh(torch.arange(FIRST, FIRST + ENTITIES)[None])
    assert weights[0].tolist() == [[0.0, 1.0]] * ENTITIES


def test_the_score_is_as_the_equation_says(company):
    with torch.no_grad():
        company.sharpness.copy_(torch.tensor([0.7, 0.4]))
        company.mentions.fill_(0.2)
        company.floor.fill_(0.0)
    found = company(torch.tensor([[[3.0, 2.0]]]), torch.tensor([[5.0]]))
    wanted = 0.7 * math.log(3 + math.log(2)) + 0.4 * math.log(2 + math.log(2)) - 0.2 * math.log(5)
    assert found.item() == pytest.approx(wanted)


def test_a_name_that_is_not_mentioned_has_a_score_that_is_a_number(company):
    assert company(torch.zeros(1, 1, 2), torch.zeros(1, 1)).isfinite().all()


def test_a_candidate_in_the_questions_company_is_preferred(company):
    word = WORDS - 1
    ids = torch.tensor([[FIRST, word, FIRST + 1, WORDS - 2]])
    names, ends = torch.tensor([[0, -1, 1, -1]]), torch.tensor([[False, True, False, True]])
    documents = Documents(ids, torch.tensor([4]), ends, names, torch.tensor([[0, 1]]))
    one = torch.tensor([0])
    asked = Questions(torch.tensor([[word]]), one + 1, one, one, one, 1, torch.zeros(1, 2, dtype=torch.bool))
    scores = company.score(documents, asked)
    assert scores[0, 0] > scores[0, 1]
    scores.sum().backward()
    assert company.words.grad[-1] != 0
    assert company.words.grad[:-1].count_nonzero() == 0


def test_only_named_keeps_company():
    with pytest.raises(OptionError, match="keeps company: expected named, got 'gated'"):
        NetworkOptions(WORDS, ENTITIES, mechanism="gated", company=True)


def test_a_vocabulary_of_common_words_only_still_has_names():
    network = Network(NetworkOptions(WORDS, ENTITIES, mechanism="named", company=True))
    assert network.company.weigh(torch.tensor([[FIRST, WORDS - 1]])).gt(0).any(2).tolist() == [[True, False]]


def test_options_without_company_say_nothing_of_it():
    assert "company" not in NetworkOptions(WORDS, ENTITIES).to_json()
