"""Sweeps: rows that differ in one number, told apart by what a reader needs to know and drawn in one figure."""

from figure_toys import variant

from ruplar.report.figures import sweeps


def test_a_sweep_is_rows_that_differ_in_one_number_alone(rows):
    base = next(row for row in rows if row.method == "RuPLaR")
    made = [variant(base, f"l{share}", 95 - 10 * share, prior__operand_share=share) for share in (0.7, 0.2, 0.3)]
    gumbel = {"prior__name": "gumbel", "prior__temperature": 0.5}
    made += [variant(base, "b2.3", 90, **gumbel, prior__result_logit=2.3)]
    made += [variant(base, "b2.8", 95, **gumbel, prior__result_logit=2.8)]
    made += [variant(base, "t0.8", 93, **{**gumbel, "prior__temperature": 0.8}, prior__result_logit=2.8)]
    made += [variant(base, "both", 80, prior__operand_share=0.5, method__feed_top_k=3)]  # two settings: in no sweep
    found = {sweep.setting: sweep for sweep in sweeps.find(made)}
    assert set(found) == {"prior.operand_share", "prior.result_logit", "prior.temperature"}
    line = found["prior.operand_share"].lines["word-problems"]
    assert [(x, row.accuracy) for x, row in line.items()] == [(0.2, 93), (0.3, 92), (0.7, 88)]
    drawing = sweeps.draw(list(found.values()))
    drawn = drawing.figure.axes[0].containers[0].lines[0]
    assert drawn.get_xdata().tolist() == [0.2, 0.3, 0.7] and drawn.get_ydata().tolist() == [93, 92, 88]
    assert "one seed" in drawing.caption and "λ" in drawing.caption
    assert sweeps.find(rows) == []  # those differ in more than one number


def test_the_panels_of_a_grid_say_what_is_left_as_it_is_and_share_a_scale(rows):
    base = next(row for row in rows if row.method == "RuPLaR")
    made = [
        variant(base, f"{logit} {heat}", 10 * logit + heat, prior__name="gumbel", prior__result_logit=logit, prior__temperature=heat)
        for logit in (2.3, 2.8) for heat in (0.5, 0.8)
    ]  # fmt: skip
    axes = sweeps.draw(sweeps.find(made)).figure.axes
    assert sorted(panel.get_title() or panel.get_title(loc="left") for panel in axes if panel.get_visible()) == [
        "β, gumbel prior, τ = 0.5", "β, gumbel prior, τ = 0.8", "τ, gumbel prior, β = 2.3", "τ, gumbel prior, β = 2.8",
    ]  # fmt: skip
    scales = {panel.get_ylim() for panel in axes if (panel.get_title() or panel.get_title(loc="left")).startswith("τ")}
    assert len(scales) == 1
