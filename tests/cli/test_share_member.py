"""The acknowledgements of a member of a share group, as its requests have them."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kpybroker.client.share_member import ACKNOWLEDGEMENTS, GAP, AcknowledgementBatch, batches

ACCEPT, RELEASE = ACKNOWLEDGEMENTS["accept"], ACKNOWLEDGEMENTS["release"]


def test_offsets_that_follow_each_other_are_one_batch() -> None:
    assert batches({4: ACCEPT, 2: RELEASE, 3: GAP, 9: ACCEPT}) == [
        AcknowledgementBatch(2, [RELEASE, GAP, ACCEPT]),
        AcknowledgementBatch(9, [ACCEPT]),
    ]


@given(st.dictionaries(st.integers(0, 30), st.sampled_from((GAP, ACCEPT, RELEASE))))
def test_batches_have_each_answer_once(answers: dict[int, int]) -> None:
    found = batches(answers)
    again = [(each.first + place, answer) for each in found for place, answer in enumerate(each.types)]
    assert again == sorted(answers.items())
    assert all(one.last + 1 < two.first for one, two in pairwise(found))
