"""What a memory takes: the bytes that a store would keep of a source's documents, on average."""

from pathlib import Path

import numpy as np
import pytest

from attar.cloze import ClozeDocument, ClozeSet
from attar.memory import Memory
from attar.nn.network import Network
from attar.nn.network_options import NetworkOptions
from attar.reader import Reader
from attar.text.vocabulary import Vocabulary
from attar.training.sizes import mean_size, measure_memories, sample_by_source
from attar.training.words import vocabulary_of

SIZE = 8


def plain(number: int, source: str) -> ClozeDocument:
    return ClozeDocument(str(number), source, [["it", "rained"]], {})


class TestSample:
    def test_holds_all_of_a_source_that_has_few(self) -> None:
        documents = [plain(number, "novels" if number % 3 else "news") for number in range(9)]
        sample = sample_by_source(documents)
        assert sample == {
            "news": [each for each in documents if each.source == "news"],
            "novels": [each for each in documents if each.source == "novels"],
        }

    def test_is_drawn_from_all_of_a_source_that_has_many(self) -> None:
        drawn = sample_by_source((plain(number, "") for number in range(4_000)), 400)[""]
        places = np.array([int(each.name) for each in drawn])
        assert len(set(places)) == 400
        assert places.mean() == pytest.approx(2_000, rel=0.1)

    def test_is_the_same_every_time(self) -> None:
        documents = [plain(number, "") for number in range(90)]
        assert sample_by_source(documents, 5) == sample_by_source(documents, 5)


class TestMeasure:
    @pytest.fixture
    def reader(self, stories_set: Path) -> Reader:
        words: Vocabulary = vocabulary_of([stories_set])
        return Reader(
            Network(NetworkOptions(len(words), words.entities, mechanism="named", size=SIZE)), words
        )

    def test_is_of_the_memories_that_the_reader_makes(self, reader: Reader, stories_set: Path) -> None:
        documents = list(ClozeSet.open(stories_set).documents("validation"))
        (found,) = measure_memories(reader, {"stories": documents}).values()
        assert found.documents == len(documents)
        own_names = np.mean([len(document.names) for document in documents])
        assert found.names == pytest.approx(own_names, rel=0.2)  # found anew among words in small letters
        # Two bytes a number against one, and a scale a name.
        saved = found.names * (2 * SIZE - SIZE - 4)
        assert found.bytes["float16"] - found.bytes["int8"] == pytest.approx(saved, abs=4)

    def test_is_what_a_store_writes(self) -> None:
        memory = Memory.of("keyed", np.ones((3, 2)), tokens=5, reader="r")
        found = mean_size([memory, memory])
        assert (found.documents, found.tokens, found.names) == (2, 5, 0)
        assert found.bytes == {dtype: len(memory.astype(dtype).to_bytes()) for dtype in ("float16", "int8")}

    def test_numbers_too_large_for_a_type_are_not_kept_in_it(self) -> None:
        memory = Memory.of("keyed", np.full((3, 2), 1e6), tokens=5, reader="r")
        assert list(mean_size([memory]).bytes) == ["int8"]
