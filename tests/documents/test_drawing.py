"""The drawing of the rooms is that of the code."""

from tests.documents.drawing import PAGE, draw, put_into_page


def test_the_drawing_in_the_architecture_is_current():
    page = PAGE.read_text()

    assert put_into_page(page, draw()) == page, "Run `make drawing`."


def test_the_drawing_names_every_room_of_the_payments():
    drawing = draw()

    for room in ("deciding", "settling", "funding", "reconciling"):
        assert f'payments_{room}["{room}/"]' in drawing
