"""Claims in prose: labelled answers, and texts that only look like claims."""

import re
from collections import Counter

import pytest

from tests.judging.score_claims import kind_of_miss, read_cases
from wirefault.judging.reading.claims import ACTS, claims_failure, read_claim
from wirefault.judging.reading.languages import languages

CASES = read_cases()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_no_labelled_answer_is_accused_wrongly(case):
    assert kind_of_miss(case) != "false accusation"


def test_labelled_answers_are_read():
    missed = Counter((case["set"], case["claim"]) for case in CASES if kind_of_miss(case))
    labelled = Counter((case["set"], case["claim"]) for case in CASES if case["claim"] != "unclear")
    read = labelled - missed
    assert read["independent_a", "done"] >= 33 and read["independent_a", "failed"] >= 42
    assert read["independent_b", "done"] >= 11 and read["independent_b", "failed"] >= 21
    labels = Counter(case["claim"] for case in CASES if case["language"] == "en")
    assert min(labels[claim] for claim in ("done", "failed", "unclear")) >= 60


@pytest.mark.parametrize(
    ("task", "answer", "claim"),
    [
        ("Order 3 jars of honey.", "I've ordered 3 jars of honey.", "done"),
        ("Order 3 jars of honey.", "I've ordered 2 jars of honey.", "unclear"),
        ("Order 3 jars of honey.", "I placed 3 jars of honey in your cart.", "unclear"),
        ("Order 3 jars of honey.", "Done. I found three shops that sell honey.", "unclear"),
        ("Order honey and tell Bob.", "I've ordered the honey.", "unclear"),
        ("Deny request 7.", "The order could not be placed.", "unclear"),
        ("deny", "The order could not be placed.", "failed"),  # the name of a mode, as in exec -- agent deny
        ("", "The order could not be placed.", "failed"),
        ("Order honey and tell Bob.", "I could not tell Bob.", "unclear"),
        ("Cancel order 7.", "Order 8 has been cancelled.", "unclear"),
        ("Cancel order 7.", "Order 7 was already cancelled.", "unclear"),
        ("Cancel order 7.", "I could not cancel order 7 by phone, so I did it online.", "unclear"),
        ("Send Maria the agenda.", "I've sent the agenda to Tom.", "unclear"),
        ("Send Maria the agenda.", "I've sent the agenda to Maria.", "done"),
        ("Turn off the lights.", "I've turned off the lights.", "done"),
        ("Turn off the lights.", "I couldn't turn off the lights because the hub is offline.", "failed"),
        ("Storniere meine Buchung.", "Ihre Buchung wurde storniert.", "done"),
        ("Annule ma réservation.", "Votre réservation n'a pas pu être annulée.", "failed"),
        ("Pide dos pizzas.", "Lo siento, no he podido hacer el pedido.", "failed"),
    ],
)
def test_claim_is_about_task(task, answer, claim):
    assert read_claim(answer, task) == claim


@pytest.mark.parametrize(
    ("answer", "acts", "claim"),
    [
        ("The order has been placed. The event could not be deleted.", {"make", "remove"}, "unclear"),
        ("The order has been placed. The event could not be deleted.", {"make"}, "unclear"),
        ("The order could not be placed. The order has been placed.", {"make"}, "unclear"),
        ("Done! Shall I place the order?", {"make"}, "unclear"),
        ('{"status": "done", "id": 7}', {"make"}, "done"),
        ('{"status": "error"}', {"make"}, "failed"),
        ('{"note": "The order has been placed."}', {"make"}, "unclear"),
        ('"The order has been placed."', {"make"}, "done"),
        ("> The order has been placed.", {"make"}, "unclear"),
        ("```\nThe order has been placed.\n```", {"make"}, "unclear"),
        ("<think>The order could not be placed.</think>The order has been placed.", {"make"}, "done"),
        ("The order has been placed. De bestelling is niet geplaatst.", {"make"}, "unclear"),
        ("", {"make"}, "unclear"),
    ],
)
def test_whole_answers(answer, acts, claim):
    assert read_claim(answer, "", frozenset(acts)) == claim


@pytest.mark.parametrize(
    "text",
    [
        "the order " * 1_900,
        "I have " * 2_500,
        "I checked " + "and x " * 2_000,
        "order " * 3_000 + "placed",
        '"' * 19_000,
        "I have placed an order. " * 800,
        "Ich habe " + "die Bestellung " * 1_200,
        "the " * 140 + "order has been",
    ],
)
def test_hostile_texts_are_read_completely(text):
    assert read_claim(text) == "unclear"


def test_quoted_task_that_could_not_be_done_is_a_failure() -> None:
    task = "What is the price of honey?"
    assert read_claim(f'I could not do "{task}": error: the connection was closed', task) == "failed"


FORMS = ("order", "base", "noun", "gerund", "past", "strong")
MARK = "\ue000"


def needs_mark(tree):
    """Whether each text that this parsed pattern matches has the mark."""
    return any(
        (str(kind) == "LITERAL" and inner == ord(MARK))
        or (str(kind) == "SUBPATTERN" and needs_mark(inner[-1]))
        or (str(kind) == "BRANCH" and all(map(needs_mark, inner[1])))
        or (str(kind) in ("MAX_REPEAT", "MIN_REPEAT") and inner[0] > 0 and needs_mark(inner[2]))
        for kind, inner in tree
    )


def filled(pattern, shared):
    """The pattern with its placeholders replaced."""
    while placeholder := re.search(r"(?<!\?P)<([a-z_]+)>", pattern):
        pattern = pattern.replace(placeholder[0], f"(?:{shared[placeholder[1]]})")
    return pattern


@pytest.mark.parametrize("language", languages(), ids=range(len(languages())))
def test_each_claim_of_an_act_has_one_of_its_words(language):
    """Claims are only looked for in sentences that have one of these words."""
    words = language["claims"]
    pasts = [act["past"].replace("<strong>", act["strong"]) for act in words["acts"].values()]
    parts = {"thing": "|".join(words["things"].values()), "any_past": "|".join(pasts)}
    shared = {**words["shared"], **parts, **dict.fromkeys(FORMS, MARK)}
    kinds = {**words["other_words"], "done_named": ()}
    for sentence, others in ((each, others) for kind, others in kinds.items() for each in words[kind]):
        pattern = sentence
        for other in others:
            pattern = re.sub(rf"\b{other}\b", MARK, pattern)
        assert needs_mark(re._parser.parse(filled(pattern, shared))), sentence


@pytest.mark.parametrize("language", languages(), ids=range(len(languages())))
def test_each_claim_of_failure_has_a_word_of_failure(language):
    """Claims of failure are only looked for in sentences that have one of these words."""
    words = language["claims"]
    shared = {**words["shared"], "thing": "x", **dict.fromkeys(FORMS, "x")}
    failure = re.compile("|".join(words["failure"]))
    for sentence in (*words["failed"], *words["failed_at_all"]):
        pattern = failure.sub(MARK, filled(sentence, shared))
        assert needs_mark(re._parser.parse(pattern)), sentence


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_answers_that_claim_failure_are_the_ones_read_as_failed(case):
    answer, task = case["answer"], case.get("task", "")
    assert claims_failure(answer, task, ACTS) == (read_claim(answer, task) == "failed")


@pytest.mark.parametrize(
    ("answer", "failed"),
    [
        ('{"status": "failed"}', True),
        ('{"status": "\\u0066ailed"}', True),
        ("I couldn’t place the order.", True),
        ("I placed the order.", False),
        ("I could not place the order." + " " * 20_000, False),  # as ``read_claim``: too long
    ],
)
def test_answer_claims_failure(answer, failed):
    assert claims_failure(answer, "Place the order.", ACTS) is failed
