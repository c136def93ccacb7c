"""What runs the runbooks stops where they fail, and says where."""

import pytest

from tests.support.runbook import Block, blocks, run


def block(code, line, info="bash"):
    return Block(info, code, heading="Mend", page="docs/operate/keys.md", line=line)


def test_blocks_are_run_in_one_shell_and_what_they_show_is_not_run():
    done = run(
        [block("word=one\n", 5), block("shown\n", 9, "text"), block("echo $word $more\necho '{}'\n", 20)], {"more": "2"}
    )

    assert done.output == "one 2\n{}\n"
    assert done.answer == {}


@pytest.mark.parametrize("code", ["true\nfalse\nexit 0", "true\nfalse | cat\nexit 0", "true\necho $missing\nexit 0"])
def test_the_line_of_the_page_that_fails_is_named(code):
    with pytest.raises(AssertionError, match=r"line 41: missing: unbound|keys\.md:41: status 1"):
        run([block("echo one\n", 10), block(code, 40)], {})


def test_a_page_has_its_blocks_with_their_headings_those_in_lists_too():
    (found,) = (one for one in blocks("docs/operate/chains.md") if "deploy_escrow base" in one.code)

    assert (found.info, found.heading, found.code[:12]) == ("bash", "Serve an EVM chain", "DEPLOYER_KEY")
