"""JAAS texts: what is read, what is refused, and that no message holds a secret."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpybroker.machines.sasl import jaas
from kpybroker.machines.sasl.jaas import BrokenJaas, JaasEntry, parse, tokens_of


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r") + '"'


def test_module_flag_and_options_are_read() -> None:
    text = (
        f"{jaas.PLAIN_MODULE} required // comments are passed over\n"
        ' username="broker" password=\'it"s\' /* these\n too */ user_alice="al\\"i\\\\ce\\t\\101" user_bob=word-$_.1 ;'
    )
    assert parse(text) == JaasEntry(
        jaas.PLAIN_MODULE,
        {"username": "broker", "password": 'it"s', "user_alice": 'al"i\\ce\tA', "user_bob": "word-$_.1"},
    )


@pytest.mark.parametrize("module", sorted(set(jaas.MODULES.values())))
@pytest.mark.parametrize("flag", ["required", "Requisite", "SUFFICIENT", "optional"])
def test_every_known_module_and_flag_is_read(module: str, flag: str) -> None:
    assert parse(f"{module} {flag};") == JaasEntry(module, {})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("   // nothing", "is empty"),
        ("com.sun.security.auth.module.JndiLoginModule required;", "is not one that is known"),
        ("com.sun.security.auth.module.LdapLoginModule required;", "is not one that is known"),
        ("PlainLoginModule required;", "is not one that is known"),
        (f"{jaas.PLAIN_MODULE}", "control flag"),
        (f"{jaas.PLAIN_MODULE};", "control flag"),
        (f"{jaas.PLAIN_MODULE} must;", "control flag"),
        (f'{jaas.PLAIN_MODULE} required password="hidden"', "does not end with a ';'"),
        (f"{jaas.PLAIN_MODULE} required password=;", "the option has no value, at character"),
        (f"{jaas.PLAIN_MODULE} required password", "the option has no value"),
        (f"{jaas.PLAIN_MODULE} required password=hid den;", "the option has no value"),
        (f"{jaas.PLAIN_MODULE} required password=123;", "no meaning"),
        (f'{jaas.PLAIN_MODULE} required ="hidden";', "expected an option"),
        (f'{jaas.PLAIN_MODULE} required password="hidden', "a string that does not end"),
        (f'{jaas.PLAIN_MODULE} required password="hid\nden";', "a string that does not end"),
        (f"{jaas.PLAIN_MODULE} required; {jaas.SCRAM_MODULE} required;", "one login module"),
        (f"{jaas.PLAIN_MODULE} required /* {jaas.SCRAM_MODULE} required;", "no meaning"),
        (f"{jaas.PLAIN_MODULE} required;" + " " * jaas.LONGEST_CHARS, "longer than"),
    ],
)
def test_everything_else_is_refused_in_one_line_without_secrets(text: str, message: str) -> None:
    with pytest.raises(BrokenJaas, match=message) as refused:
        parse(text)
    assert "\n" not in str(refused.value)
    assert "hid" not in str(refused.value)


def test_a_text_has_just_the_length_that_is_allowed() -> None:
    text = f"{jaas.PLAIN_MODULE} required;"
    assert parse(text.ljust(jaas.LONGEST_CHARS)) == JaasEntry(jaas.PLAIN_MODULE, {})
    with pytest.raises(BrokenJaas, match="longer than"):
        parse(text.ljust(jaas.LONGEST_CHARS + 1))


@pytest.mark.parametrize(("text", "place"), [("!", 1), (" !", 2), ("module required !", 17), ("module 'x", 8)])
def test_a_place_is_counted_from_one(text: str, place: int) -> None:
    with pytest.raises(BrokenJaas, match=f"at character {place}$"):
        list(tokens_of(text))


@given(st.dictionaries(st.from_regex(r"[A-Za-z_$][A-Za-z0-9_$.\-]*", fullmatch=True), st.text()))
def test_every_value_survives_its_quotes(options: dict[str, str]) -> None:
    written = " ".join(f"{key}={quoted(value)}" for key, value in options.items())
    assert parse(f"{jaas.SCRAM_MODULE} required {written};").options == options


@given(st.text(alphabet=st.sampled_from(list("ab_$.-19 =;\"'\\/*\n\té"))))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse(f"{jaas.PLAIN_MODULE} required {text}")
    except BrokenJaas:
        return


def test_a_repr_has_the_names_of_options_only() -> None:
    entry = parse(f'{jaas.PLAIN_MODULE} required password="hidden";')
    assert "hidden" not in repr(entry)
    assert "hidden" not in str(entry)
    assert "password" in repr(entry)
