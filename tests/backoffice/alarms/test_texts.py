"""What a notice says, and what it must not."""

import pytest

from backoffice.alarms.texts import Line, chat_of, harmless, mail_of, subject_of


def line(sentence: str = "Signing is stopped.", link: str = "", occasion: str = "Alarm") -> Line:
    return Line(occasion, sentence, link)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("To 0x52908400098527886E0F7030069857D2E4169EE7 now", "To 0x5290…9EE7 now"),
        ("Tx 0x" + "ab" * 32, "Tx 0xabab…abab"),
        ("Mint EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v.", "Mint EPjFWd…Dt1v."),
        ("Payee pay.evil.example/login waits", "Payee pay[.]evil[.]example/login waits"),
        ("See https://evil.example", "See https[:]//evil[.]example"),
        ("1,000.50 USDC are missing. Look at base.", "1,000.50 USDC are missing. Look at base."),
        ("two\r\nlines", "two lines"),
    ],
)
def test_addresses_are_shortened_and_names_are_no_links(text, told):
    assert harmless(text) == told


def test_a_mail_says_what_happened_and_where_it_is_dealt_with():
    lines = [line(link="https://pay.example/console/x/")]

    assert subject_of(lines) == "[Allowance] Alarm: Signing is stopped."
    assert mail_of(lines, "Finance").startswith("Alarm: Signing is stopped.\nhttps://pay.example/console/x/\n\n-- \n")
    assert "role Finance" in mail_of(lines, "Finance")


def test_several_things_are_told_in_one_mail():
    lines = [line(f"Number {number} is wrong.") for number in range(60)]

    text = mail_of(lines, "Finance")

    assert subject_of(lines) == "[Allowance] 60 notices"
    assert "Number 49 is wrong." in text
    assert "Number 50 is wrong." not in text
    assert "And 10 more" in text


def test_a_long_subject_is_cut():
    assert len(subject_of([line("x" * 500)])) < 140


def test_a_chat_gets_no_markup_from_outside():
    text = chat_of([line("<!channel> & <https://evil|here>", "https://pay.example/console/?a=1&b=2")])

    assert text == (
        "Alarm: &lt;!channel&gt; &amp; &lt;https[:]//evil|here&gt; "
        "<https://pay.example/console/?a=1&amp;b=2|Open the console>"
    )
