"""Questions in other languages are told from English ones, however those are typed."""

import json
from pathlib import Path

import pytest

from attar.text.kinds import is_english

ROOT = Path(__file__).resolve().parents[2]

# Written down before the word lists were.
OTHER_LANGUAGES = {
    "German": [
        "Wer leitete die Sitzung?",
        "Wann fand die Sitzung statt?",
        "Was kostet der neue Rasenmäher?",
        "wo war das treffen",
        "Wie viele Mitglieder kamen zur Versammlung?",
        "Warum wurde das Schwimmbad im Sommer geschlossen?",
        "Welche Stadt liegt am Rhein?",
        "Bis wann muss ich die Miete bezahlen?",
    ],
    "French": [
        "Combien de membres sont venus ?",
        "Qui a dirigé la réunion ?",
        "Quand la piscine est-elle fermée ?",
        "Où se trouve la mairie ?",
        "Pourquoi le train était en retard",
        "Quel est le prix de la tondeuse ?",
        "Qu'est-ce que le club a acheté ?",
    ],
    "Spanish": [
        "¿Quién dirigió la reunión?",
        "¿Cuándo se celebró la reunión?",
        "Cuantos socios vinieron",
        "¿Dónde está el ayuntamiento?",
        "¿Por qué cerraron la piscina?",
        "¿Cuánto cuesta el alquiler?",
    ],
    "Italian": [
        "Chi ha diretto la riunione?",
        "Quando si è svolta la riunione?",
        "Quanti soci sono venuti?",
        "Dove si trova il municipio?",
        "Perché la piscina è chiusa?",
        "Quanto costa il biglietto?",
    ],
    "Portuguese": [
        "Quem dirigiu a reunião?",
        "Quando foi a reunião?",
        "Quantos sócios vieram?",
        "Onde fica a câmara municipal?",
        "Por que a piscina está fechada?",
    ],
    "Dutch": [
        "Wie leidde de vergadering?",
        "Wanneer was de vergadering?",
        "Hoeveel leden kwamen er?",
        "Waar staat het gemeentehuis?",
        "Waarom is het zwembad gesloten?",
    ],
    "Swedish": [
        "Vem ledde mötet?",
        "När hölls mötet?",
        "Hur många medlemmar kom?",
        "Var ligger kommunhuset?",
        "Varför är badhuset stängt?",
    ],
    "Danish": ["Hvem ledede mødet?", "Hvornår blev mødet holdt?", "Hvor mange medlemmer kom der?"],
    "Polish": [
        "Kto prowadził zebranie?",
        "Kiedy odbyło się zebranie?",
        "Ilu członków przyszło?",
        "Gdzie jest ratusz?",
    ],
    "Finnish": ["Kuka johti kokousta?", "Milloin kokous pidettiin?", "Missä kunnantalo on?"],
    "Turkish": ["Toplantıyı kim yönetti?", "Toplantı ne zaman yapıldı?", "Kaç üye geldi?"],
    "Czech": ["Kdo vedl schůzi?", "Kdy se konala schůze?", "Kolik členů přišlo?"],
    "Russian": ["Кто вёл собрание?", "Когда было собрание?", "Сколько членов пришло"],
    "Greek": ["Ποιος διηύθυνε τη συνεδρίαση;", "Πότε έγινε η συνεδρίαση;"],
    "Chinese": ["谁主持了会议？", "会议是什么时候举行的？"],
    "Japanese": ["誰が会議を主導しましたか？", "会議はいつ開かれましたか"],
    "Arabic": ["من ترأس الاجتماع؟", "متى عقد الاجتماع؟"],
    "Hindi": ["बैठक का नेतृत्व किसने किया?", "बैठक कब हुई?"],
}
ENGLISH = [
    "",
    "?",
    "why?",
    "When",
    "where",
    "how much",
    "notice period contract",
    "Nikola Tesla birthplace",
    "Nikola Tesla",
    "Ludwig van Beethoven birthplace",
    "Charles de Gaulle",
    "Vincent van Gogh year of birth",
    "Los Angeles population",
    "Rio de Janeiro mayor",
    "El Salvador capital",
    "José García phone",
    "café opening hours",
    "résumé deadline",
    "Zürich Hauptbahnhof platform",
    "wat is the notice peroid",
    "whn does the harbor clsoe",
    "wo wrote the letter",
    "hw many pepole came",
    "The harbour closes on ___ .",
    "___ married Elizabeth .",
    "______ keeps the keys",
    "die of what",
    "was Ann late",
    "Who wrote Die Leiden des jungen Werthers?",
    "What does 'Wer ist das' mean?",
    "What does 你好 mean?",
    "Who painted La Liberté guidant le peuple?",
    "who sang la vie en rose",
    "What is the Spanish word for ¿por qué?",
    "Who directed La dolce vita",
    "Which river flows past Saint-Germain-des-Prés?",
    "Is π rational?",
    "α particle mass",
    "price per hour",
    "die cast metal supplier",
    "war start date",
    "MRSA infection rate",
    "12:30",
    "€5,000",
    "rent due date",
    "Ann's phone number",
    "QX7RMT",
    "🙂",
    "total cost ex VAT",
    "vitamin C per serving",
    "pro rata refund",
    "Hans Müller address",
    "warranty: how long",
    "Kim phone number",
    "MIT address",
    "Costa Rica capital",
    "hay bales price",
    "tai chi class time",
    "FICA rate",
    "Lake Como hotel",
    "comment deadline",
    "come back time",
    "Como Hotel price",
    "EIN",
    "meeting 3 pm EST",
    "wen",
    "Che Guevara birthplace",
    "Uma Thurman role",
    "Am I to pay a fee or a fine",
    "Respond to an ancillary comment, or to an aside?",
]
FOREIGN_TEXT_ENGLISH_QUESTIONS = [
    "Who led the Sitzung?",
    "When was the meeting in Aschfurt?",
    "how much was the Rasenmäher",
]


def test_most_questions_in_other_languages_are_found():
    asked = [question for questions in OTHER_LANGUAGES.values() for question in questions]
    assert len(asked) >= 60
    missed = [question for question in asked if is_english(question)]
    assert len(missed) <= 0.1 * len(asked), missed


@pytest.mark.parametrize("question", ENGLISH + FOREIGN_TEXT_ENGLISH_QUESTIONS)
def test_english_questions_are_english_however_they_are_typed(question):
    assert is_english(question)


def test_every_everyday_question_is_english():
    everyday = json.loads((ROOT / "benchmarks/questions/everyday.json").read_text(encoding="utf-8"))
    asked = [
        question["question"]
        for document in everyday["data"]
        for paragraph in document["paragraphs"]
        for question in paragraph["qas"]
    ]
    assert len(asked) >= 80
    assert [question for question in asked if not is_english(question)] == []
