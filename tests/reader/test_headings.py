"""What stands above a sentence."""

from attar.reader.second_look import headings_above


def above(text: str, sentence: str, name: str = "") -> list[str]:
    return headings_above(text, text.index(sentence), name)


def test_a_line_less_indented_is_the_heading_of_those_below():
    text = "electrician:\n  telephone: 431\nglazier:\n  telephone: 177\n"
    assert above(text, "telephone: 177")[-1] == "glazier:"


def test_of_lines_alone_the_first_is_the_heading():
    text = "Ann Lee\n\nShe is a nurse.\n\nEducation\n\n2014 Keele\n\n2020 Leeds"
    assert above(text, "2020") == ["Ann Lee", "Education"]


def test_values_and_items_are_no_headings():
    text = "Deposit paid: yes\nVAT 20 % 289.58\n- Tea\nBalance due 1,437.48"
    assert above(text, "Balance") == []


def test_a_name_is_said_without_its_folder_and_ending():
    assert above("Ann left.", "Ann", "staff/CV Ann.docx") == ["CV Ann"]


def test_a_title_is_that_of_a_long_text_too():
    text = "The people of the weir\n\n" + "They came in spring.\n\n" * 400 + "Ann left."
    assert above(text, "Ann left.") == ["The people of the weir"]
