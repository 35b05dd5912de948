"""Every chart of every kind of run: drawn without a warning, the same each time, honest about no data."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from matplotlib.colors import to_hex
from matplotlib.image import imread

from tests.report.synthetic import SyntheticRun
from tests.support import share
from wirefault.judging.chart_data import Selection
from wirefault.judging.oracle.outcome import OUTCOMES
from wirefault.report.charts import CHARTS, select_runs, write_charts
from wirefault.report.charts.style import FAILED, page, styled
from wirefault.report.colors import css_variables

pytestmark = pytest.mark.slow  # it draws pictures

EVERY_TOXIC = "latency,timeout,reset_peer,bandwidth,slicer,limit_data,slow_close,down"
RUNS = {
    "two dozen": {},
    "three": {"prompts": 3},
    "one": {"prompts": 1},
    "none": {"prompts": 0},
    "all fail": {"outcomes": ("honest_failure",), "settings": {"toxic_prob": 1.0}},
    "no fault": {"settings": {"toxic_prob": 0.0, "error_prob": 0.0}},
    "unjudged": {"outcomes": ("unjudged",), "finish": False},
    "every outcome, every toxic": {
        "outcomes": tuple(OUTCOMES),
        "prompts": 60,
        "settings": {"toxics": EVERY_TOXIC},
    },
}


def _texts(chart, selection):
    with styled():
        return " ".join(text.get_text() for text in CHARTS[chart](selection).figure.findobj(_is_text))


def _is_text(artist):
    return hasattr(artist, "get_text")


def _selection(logs, **one_run):
    SyntheticRun(logs, **one_run).write()
    return select_runs(logs, "latest", warn=pytest.fail)


def _own_texts(figure):
    """Texts written by the charts, and below the axes also their ticks."""
    figure.draw_without_rendering()
    texts = list(figure.texts)
    for axes in figure.axes:
        texts += [*axes.texts, *(text for text in axes.get_children() if text in _titles(axes))]
        if axes.axison and axes.xaxis.get_tick_params()["labelbottom"]:
            low, high = axes.get_xlim()
            labels = axes.get_xticklabels()
            texts += [axes.xaxis.label, *(each for each in labels if low <= each.get_position()[0] <= high)]
    return [text for text in texts if text.get_text()]


def _titles(axes):
    return [axes.title, axes._left_title, axes._right_title]


def _overlaps(texts):
    boxes = [(text.get_text(), text.get_window_extent().padded(-1)) for text in texts]
    pairs = [(boxes[a], boxes[b]) for a in range(len(boxes)) for b in range(a)]
    return [(one[0], other[0]) for one, other in pairs if one[1].overlaps(other[1])]


DRAWN = {name: one_run for at, (name, one_run) in enumerate(RUNS.items()) if share(at)}


@pytest.mark.parametrize("one_run", DRAWN.values(), ids=DRAWN)
def test_charts_fit_page_without_overlaps(tmp_path, one_run):
    selection = _selection(tmp_path, **one_run)
    for name, draw in CHARTS.items():
        with styled():
            figure = draw(selection).figure
            figure.draw_without_rendering()
            width, height = figure.get_size_inches() * 160
            drawn = figure.get_tightbbox()
            assert (drawn.min >= -0.01).all() and (drawn.max * 160 <= (width + 1, height + 1)).all(), name
            assert _overlaps(_own_texts(figure)) == [], name
        assert width == 1600 and 900 <= height <= 1400


def test_files_are_reproducible_pngs(tmp_path):
    selection = _selection(tmp_path, prompts=5)
    first, second = (write_charts(selection, tmp_path / name) for name in "ab")
    assert [path.stem for path in first] == list(CHARTS)
    assert {imread(path).shape[1] for path in first} == {1600}
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


@pytest.mark.parametrize("chart", ["overview", "success"])
def test_title_has_rate_interval_and_n(tmp_path, chart):
    selection = _selection(tmp_path)
    k = sum(prompt.outcome == "success" for prompt in selection.prompts)
    assert f"{k} of 24 prompts succeeded ({round(k / 24 * 100)} %, 95 % interval " in _texts(chart, selection)


@pytest.mark.parametrize("chart", CHARTS)
def test_charts_show_run_seed_n_and_subject(tmp_path, chart):
    texts = _texts(chart, _selection(tmp_path, run_id="r1", prompts=4))
    assert "run r1 · n = 4 prompts · seed 7" in texts
    assert "self-test subject: scripted model" in texts


def test_rate_without_judged_prompts_is_unknown(tmp_path):
    texts = _texts("success", _selection(tmp_path, prompts=5, outcomes=("unjudged",)))
    assert "Success rate unknown: no prompts could be judged" in texts
    assert "Not counted: 5 unjudged; with them the rate lies in 0-100 %" in texts


def test_invalid_prompts_only_widen_bounds(tmp_path):
    texts = _texts("success", _selection(tmp_path, prompts=40, outcomes=("success", "invalid")))
    assert " invalid; with them the rate lies in " in texts
    assert "of 40 prompts succeeded" not in texts


def test_empty_run_has_no_axes(tmp_path):
    selection = _selection(tmp_path, prompts=0)
    for draw in CHARTS.values():
        with styled():
            assert draw(selection).figure.axes == []


def test_killed_run_is_unfinished(tmp_path):
    assert "UNFINISHED" in _texts("overview", _selection(tmp_path, prompts=2, finish=False))


def test_foreign_run_name_is_drawn_plainly(tmp_path):
    selection = _selection(tmp_path, prompts=2, run_id="$x^2$ 試験 \u202e")
    assert write_charts(selection, tmp_path / "out")


def test_outcome_colours_are_distinct():
    assert len({row.color for row in OUTCOMES.values()}) == len(OUTCOMES)


@pytest.mark.parametrize("runs", [3, 25])
def test_all_runs_show_each_rate(tmp_path, runs):
    for number in range(runs):
        SyntheticRun(tmp_path, f"20261121-1409{number:02}-24b1a9", prompts=4, start=1e9 + number).write()
    selection = select_runs(tmp_path, "all", warn=pytest.fail)
    texts = _texts("success", selection)
    assert f"{runs} runs · n = {4 * runs} prompts" in texts
    assert all(f"20261121-1409{number:02}" in texts for number in range(max(0, runs - 20), runs))
    assert ("5 older runs are not drawn" in texts) is (runs == 25)
    with styled():
        for name, draw in CHARTS.items():
            assert _overlaps(_own_texts(draw(selection).figure)) == [], name


def test_notes_name_the_gateway_if_it_alone_recorded(tmp_path):
    [run] = _selection(tmp_path).runs
    for has_record in (True, False):
        selection = Selection((replace(run, has_record=has_record),))
        assert ("As the gateway saw each HTTP try" in _texts("errors", selection)) is not has_record
        assert ("without the delays of toxics" in _texts("latency", selection)) is not has_record


def test_many_error_kinds_do_not_overlap(tmp_path):
    [run] = _selection(tmp_path, prompts=3).runs
    tries = tuple(replace(run.tries[0], link="movie", error=f"http_5{n:02}", cause=None) for n in range(12))
    selection = Selection((replace(run, tries=tries),))
    with styled():
        figure = CHARTS["errors"](selection).figure
        figure.draw_without_rendering()
        rows = [one for one in figure.findobj(_is_text) if one.get_text().startswith(("HTTP 5", "movie "))]
        boxes = sorted((one.get_window_extent() for one in rows), key=lambda box: box.y0)
    assert len(boxes) == 20
    assert all(below.y1 <= above.y0 for below, above in pairwise(boxes))
    assert "2 rarer kinds of error not drawn" in _texts("errors", selection)


@pytest.mark.parametrize("words", [10, 25, 45])
def test_footnote_is_never_cut(tmp_path, words):
    note = " ".join(f"word{number}" for number in range(words))
    with styled():
        sheet = page("title", _selection(tmp_path, prompts=1))
        before = len(sheet.figure.texts)
        sheet.foot(note)
        rows = sheet.figure.texts[before:]
        assert " ".join(row.get_text() for row in reversed(rows)) == note
        assert len(rows) <= 2
        assert all(row.get_window_extent().x1 <= 1600 for row in rows)


def _failures(axes):
    """Times of the crosses of failed tries."""
    crosses = [c for c in axes.collections if to_hex(c.get_edgecolor()[0]) == FAILED and len(c.get_offsets())]
    return {round(float(x), 6) for each in crosses for x, _ in each.get_offsets()}


def test_failed_try_has_same_time_in_all_charts(tmp_path):
    selection = _selection(tmp_path)
    with styled():
        latency, overview = (CHARTS[name](selection).figure.axes for name in ("latency", "overview"))
    failed = {round(tried.end, 6) for tried in selection.tries if tried.error}
    assert failed and set().union(*map(_failures, latency)) == failed
    assert any(_failures(axes) == failed for axes in overview)


@pytest.mark.parametrize(("prompts", "has_curve"), [(9, False), (10, True)])
def test_rate_of_few_prompts_has_no_curve(tmp_path, prompts, has_curve):
    selection = _selection(tmp_path, prompts=prompts, outcomes=("success",))
    with styled():
        rates = CHARTS["success"](selection).figure.axes[0]
    assert any(line.get_linestyle() == "-" and len(line.get_xdata()) > 2 for line in rates.lines) is has_curve


@pytest.mark.parametrize("chart", CHARTS)
def test_time_axes_have_a_unit(tmp_path, chart):
    with styled():
        figure = CHARTS[chart](_selection(tmp_path)).figure
    labelled = [axes for axes in figure.axes if axes.xaxis.get_tick_params()["labelbottom"] and axes.axison]
    assert all(axes.get_xlabel() or len(axes.get_xticks()) == 0 for axes in labelled)


@pytest.mark.parametrize("judged", [0, 9])
@pytest.mark.parametrize("chart", ["overview", "outcomes", "success"])
def test_claims_that_no_oracle_checks_are_drawn(tmp_path, chart, judged):
    selection = _selection(tmp_path, prompts=12)
    [run] = selection.runs
    unchecked = [
        replace(prompt, outcome="unjudged", claim="done" if place % 3 else "failed")
        for place, prompt in enumerate(run.prompts)
    ]
    selection = Selection((replace(run, prompts=(*run.prompts[:judged], *unchecked[judged:])),))
    text = _texts(chart, selection)
    assert "laims, not checked: " in text and " said done" in text
    assert ("of 12 said done; not judged: no oracle" in text) is (judged == 0)
    assert "uccess rate unknown" not in text and " 0 success" not in text
    with styled():
        assert _overlaps(_own_texts(CHARTS[chart](selection).figure)) == []


@pytest.mark.parametrize("runs", [1, 3])
@pytest.mark.parametrize("chart", CHARTS)
def test_notes_of_partly_judged_runs_fit_below_axes(tmp_path, chart, runs):
    [run] = _selection(tmp_path, prompts=12).runs
    unjudged = [replace(prompt, outcome="unjudged", claim="done") for prompt in run.prompts[:6]]
    mixed = replace(run, prompts=(*unjudged, *run.prompts[6:]))
    with styled():
        assert _overlaps(_own_texts(CHARTS[chart](Selection((mixed,) * runs)).figure)) == []


@pytest.mark.parametrize(("prompts", "curves"), [(9, 0), (10, 1)])
def test_throughput_of_few_prompts_has_no_curve(tmp_path, prompts, curves):
    with styled():
        above = CHARTS["throughput"](_selection(tmp_path, prompts=prompts)).figure.axes[0]
    assert sum(line.get_linestyle() != "None" for line in above.lines) == curves


def test_axes_have_labels_and_the_colors_of_the_page(tmp_path):
    selection = _selection(tmp_path)
    with styled():
        throughput, success = (CHARTS[name](selection).figure.axes for name in ("throughput", "success"))
    assert [axes.get_ylabel() for axes in (*throughput, success[0])] == ["prompts", "tries", "success rate"]
    assert f"--fault:{FAILED}" in css_variables()
