"""The options of `attar cloze build`, importable without numpy for the command line."""

from dataclasses import dataclass

from attar.errors import OptionError
from attar.options import check_ranges, option

SPLITS = ("training", "validation", "test")
_SHARE = "0.08"


@dataclass(frozen=True)
class BuildOptions:
    """How a set is built; the same options and sources give the same set."""

    window: int = option(900, "Approximate number of tokens per document.", min=20)
    questions: int = option(5, "Maximum questions per document in validation and test.", min=1)
    validation: str = option(_SHARE, "Validation texts: a share (0.08), a rule (i%20==0) or a file of names.")
    test: str = option(_SHARE, "Test texts: as for --validation.")
    only: str = option("", "Put all documents into this split.")
    seed: int = option(0, "Random seed; the same seed gives the same set.", min=0)
    vocabulary_size: int = option(20_000, "Number of words in a vocabulary that is built.", min=1)
    # The default is `attar.text.ENTITIES`, whose package loads numpy.
    entities: int = option(
        600, "Most names of a document that a reader trained on the set can tell apart.", min=1, max=100_000
    )

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.only and self.only not in SPLITS:
            raise OptionError.expected("only", " or ".join(SPLITS), repr(self.only))
        if self.only and (self.validation, self.test) != (_SHARE, _SHARE):
            got = f"{self.validation} and {self.test}"
            raise OptionError.expected("validation and test", f"neither with only={self.only}", got)
