"""The sample prompts, and a check that the model sees nothing of their oracles."""

from tests.support import ROOT
from wirefault.settings.episode_faults import plan_attempt
from wirefault.settings.settings import Settings
from wirefault.wiring.links import lab_links
from wirefault.wiring.prompts import load_prompts

SAMPLES = load_prompts(ROOT / "agent" / "prompts.json")
# results that prove that the prompt needs the tool; end-to-end tests check the actual calls
WORDS = {
    "search_web": ("tall", "capital"),
    "get_weather": ("temperature", "humid", "weather"),
    "search_movie": ("movie",),
    "add_event": ("to my calendar",),
    "get_event": ("on my calendar",),
    "delete_event_by_date": ("delete",),
    "calculate_expr": ("calculate", "%"),
    "send_message": ("send", "message", "tell bob"),
    "get_inbox_message": ("inbox",),
    "translate": ("translate", "how do you say"),
}


def test_at_least_24_prompts_all_with_oracles() -> None:
    assert len(SAMPLES.entries) >= 24
    assert SAMPLES.problems == []
    assert all(prompt.expect is not None for prompt in SAMPLES.entries)


def test_toxics_are_drawn_on_needed_links_only() -> None:
    names = lab_links().tool_names
    total = 0
    for seed in range(20):
        used, each = (Settings(seed=seed, toxic_scope=scope) for scope in ("used", "each"))
        for prompt in SAMPLES.entries:
            needed = prompt.tool_links
            assert needed is not None and set(needed) <= set(names)
            plan = plan_attempt(used, names, prompt.key, 1, (), 0, needed)
            every = plan_attempt(each, names, prompt.key, 1, (), 0, needed)
            assert plan == [toxic for toxic in every if toxic.link in needed]
            total += len(plan)
    assert total >= 40  # of 660 at 10 %


def test_prompts_cover_every_tool() -> None:
    texts = [prompt.text.lower() for prompt in SAMPLES.entries]
    for name, words in WORDS.items():
        assert any(word in text for text in texts for word in words), name


def test_samples_cover_zero_one_and_several_tools() -> None:
    assert sum(prompt.expect == {} for prompt in SAMPLES.entries) >= 3
    chained = [p for p in SAMPLES.entries if sum(word in p.text.lower() for word in (" and ", ", then ")) > 0]
    assert len(chained) >= 6
