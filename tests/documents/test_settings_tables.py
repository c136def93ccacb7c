"""The page of settings has the rows of the table of settings."""

from tests.documents.settings_tables import PAGE, put_into_page, write_tables


def test_the_tables_of_the_page_of_settings_are_current():
    page = PAGE.read_text()

    assert put_into_page(page, write_tables()) == page, "Run `make tables`."
