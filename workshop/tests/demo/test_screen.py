import io

from workshop.demo.screen import Screen

ROWS = [["time", "agent", "amount"], ["10:00:00", "a" * 120, "1.00"], ["10:00:01", "b", "12.50"]]


def test_a_table_fits_into_100_columns():
    stream = io.StringIO()
    Screen(stream).table(ROWS, right=2)
    assert [len(line) for line in stream.getvalue().splitlines()[1:]] == [100, 100, 100]
    assert "aaa…" in stream.getvalue()


def test_amounts_are_aligned_to_the_right():
    stream = io.StringIO()
    Screen(stream).table(ROWS, right=2)
    assert [line[-6:] for line in stream.getvalue().splitlines()[2:]] == ["  1.00", " 12.50"]


def test_steps_are_counted_and_long_lines_wrapped():
    stream = io.StringIO()
    screen = Screen(stream)
    screen.step("A step", "word " * 40)
    screen.came("as it was said", as_promised=True)
    screen.step("Another", "something")
    screen.came("nothing", as_promised=False)
    assert (screen.kept, screen.steps) == (1, 2)
    assert max(map(len, stream.getvalue().splitlines())) <= 100


def test_colours_are_for_terminals_that_welcome_them(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    def heading() -> str:
        terminal = Terminal()
        Screen(terminal).heading("Hello")
        return terminal.getvalue()

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert "\x1b[" in heading()
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in heading()


def test_a_terminal_without_the_signs_gets_plain_ones():
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    Screen(stream).came("as promised", as_promised=True)
    stream.seek(0)
    assert stream.read() == "    + came      as promised\n"
