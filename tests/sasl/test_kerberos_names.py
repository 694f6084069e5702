"""Names of principals become names of users by the rules of a listener, as with Kafka's classes."""

import base64
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from kpybroker.machines.sasl.kerberos_names import BrokenRules, NoUser, ShortNamer
from oracle.asked import AskedOracle

REALM = "EXAMPLE.COM"


@pytest.mark.parametrize(
    ("rules", "name", "user"),
    [
        ("DEFAULT", "alice@EXAMPLE.COM", "alice"),
        ("DEFAULT", "kafka/broker1@EXAMPLE.COM", "kafka"),
        ("DEFAULT", "alice", "alice"),
        ("RULE:[1:$1@$0](.*@OTHER)s/@.*//", "alice@OTHER", "alice"),
        ("RULE:[2:$1;$2](^.*;admin$)s/;admin$//", "joe/admin@OTHER", "joe"),
        ("RULE:[1:$1](App.*)s/App(.*)/$1/L", "AppOrders@OTHER", "orders"),
        ("RULE:[1:$1]/U", "alice@OTHER", "ALICE"),
        ("RULE:[1:$1]s/a/b/", "aa@OTHER", "ba"),
        ("RULE:[1:$1]s/a/b/g", "aa@OTHER", "bb"),
        ("RULE:[2:$1]", "kafka/broker1@OTHER", "kafka"),
        ("RULE:[1:$1-$0]", "alice@OTHER", "alice-OTHER"),
        ("RULE:[2:$2.$1]", "kafka/broker1@OTHER", "broker1.kafka"),
        ("RULE:[1:user]", "alice@OTHER", "user"),
        ("RULE:[1:$1](al.*)s/l/1/g/L", "aLlice@OTHER", None),
        ("RULE:[0:$1]", "alice@OTHER", None),
        ("RULE:[2147483647:$0]", "alice@OTHER", None),
        ("RULE:[3:$1]", "kafka/broker1@OTHER", None),
    ],
)
def test_the_first_rule_that_applies_counts(rules: str, name: str, user: str | None) -> None:
    if user is None:
        assert ShortNamer([rules, "RULE:[1:other]", "RULE:[2:other]"], REALM).user_of(name) == "other"
        return
    assert ShortNamer([rules], REALM).user_of(name) == user
    assert ShortNamer(["RULE:[1:$1](no one)", rules, "RULE:[1:late]", "RULE:[2:late]"], REALM).user_of(name) == user


@pytest.mark.parametrize(
    ("rule", "name", "words"),
    [
        ("DEFAULT", "alice@OTHER", "applies to 'alice@OTHER'"),
        ("DEFAULT", "a/b/c@EXAMPLE.COM", "no name of a principal with one or two components"),
        ("RULE:[1:$1@$0]", "alice@OTHER", "makes 'alice@OTHER'"),
        ("RULE:[1:$1](bob)", "bobby@OTHER", "applies to"),
        ("RULE:[1:$1](bob)", "bob\n@OTHER", "applies to"),
        ("RULE:[1:$2]", "alice@OTHER", "names component 2 of 1"),
        ("RULE:[1:$1](a*a*a*a*a*a*b)", "a" * 5000 + "!@OTHER", "applies to"),
    ],
)
def test_a_name_may_become_no_user(rule: str, name: str, words: str) -> None:
    with pytest.raises(NoUser) as caught:
        ShortNamer([rule], REALM).user_of(name)
    assert words in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("nonsense", "Invalid rule: nonsense"),
        ("RULE:[1:$1]Lower", "unmatched substring: `ower`"),
        ("RULE:[:$1]", "the number of components"),
        ("RULE:[2147483648:$1]", "the number of components"),
        ("RULE:[99999999999:$1]", "the number of components"),
        ("RULE:[1:$99999999999]", "a $ is followed by the number"),
        ("RULE:[1:$]", "a $ is followed by the number"),
        ("RULE:[1:$1](a(?=b)", "the pattern a(?=b cannot be used"),
        ("RULE:[1:$1]s/(?=b)/x/", "RE2 has no lookahead"),
        ("RULE:[1:$1]s/a/$1/", "refers to group 1"),
    ],
)
def test_rules_that_cannot_be_used_are_refused_in_one_line(rule: str, words: str) -> None:
    with pytest.raises(BrokenRules) as caught:
        ShortNamer(["DEFAULT", rule], REALM)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def java() -> Iterator[AskedOracle]:
    oracle = AskedOracle("KerberosOracle.java", "KerberosOracle")
    yield oracle
    oracle.close()


WORDS = some.text(alphabet="abAB1.", max_size=3)
NAMES = some.builds(
    "".join, some.tuples(WORDS, some.sampled_from(["", "/"]), WORDS, some.sampled_from(["", "@", "@R", "@S", "@@"]))
)
FORMATS = some.lists(some.sampled_from(["$0", "$1", "$2", "$3", "a", "@", "/", "x"]), max_size=3).map("".join)
PATTERNS = some.sampled_from(["", "a", ".*", "a.*", "[ab]+", "(a|b).*", "^.*@R$", "x?"])
REPLACED = some.sampled_from(["", "x", "$1", "a$1", "\\\\$", "$0$0", "/"])
PLAIN_RULES = some.sampled_from(
    ["DEFAULT", "RULE:[1:$1]", "RULE:[2:$1]/L", "RULE:", "RULE:[1:$1", "RULE:[1:$1]s/a/", ""]
)
RULES = some.builds(
    lambda number, form, match, sed, case: f"RULE:[{number}:{form}]{match}{sed}{case}",
    some.sampled_from(["0", "1", "2", "3", "01"]), FORMATS,
    some.one_of(some.just(""), PATTERNS.map(lambda pattern: f"({pattern})")),
    some.one_of(
        some.just(""),
        some.builds(lambda *parts: "s/{}/{}/{}".format(*parts), PATTERNS, REPLACED, some.sampled_from(["", "g"])),
    ),
    some.sampled_from(["", "L", "U", "/L", "/U", "/"]),
)  # fmt: skip


def ours(rules: list[str], name: str) -> str:
    """The answer in the form of the oracle; "$" for a replacement that cannot be used."""
    try:
        user = ShortNamer(rules, "R").user_of(name)
    except BrokenRules as why:
        return "$" if "the replacement" in str(why) else "!"
    except NoUser:
        return "?"
    return base64.b64encode(user.encode()).decode()


@pytest.mark.java
def test_users_are_those_of_kafka(java: AskedOracle) -> None:
    @settings(max_examples=1500)
    @given(some.lists(some.one_of(RULES, RULES, PLAIN_RULES), min_size=1, max_size=3), NAMES)
    def compare(rules: list[str], name: str) -> None:
        words = (base64.b64encode(word.encode()).decode() for word in ("R", name, *rules))
        theirs = java.ask_for_line(*words)
        # Kafka finds replacements that cannot be used only when it uses them.
        assert ours(rules, name) in (theirs, "$")

    compare()
