"""The playground in a real browser against a real server: what is asked, shown, refused, and how it looks on two widths."""

import json
import shutil
import subprocess
import sys
import time

import httpx
import pytest
from serve_toys import APPLES, BAGS, held, running

pytestmark = pytest.mark.slow

DESKTOP, PHONE = 1280, 390


class Page:
    """The page as a person meets it."""

    def __init__(self, browser, url):
        self.browser = browser
        width(browser, DESKTOP)
        browser.get("about:blank")  # a mere change of the part after # would not load the page anew
        browser.get(url)
        self.wait(lambda: not self.text("about").startswith("Loading"))

    def at(self, selector):
        return self.browser.find_element("css selector", selector)

    def all(self, selector):
        return [e.text for e in self.browser.find_elements("css selector", selector)]

    def text(self, name):
        return self.at(f"#{name}").text

    def wait(self, holds, seconds=60):
        ends = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < ends, f"the page stayed at: {self.at('body').text[:2000]}"
            time.sleep(0.05)

    def set(self, name, value):
        """Put a value in, with the events a person's hand would make."""
        script = """const e = document.getElementById(arguments[0]); e.value = arguments[1];
            for (const kind of ["input", "change"]) e.dispatchEvent(new Event(kind, { bubbles: true }));"""
        self.browser.execute_script(script, name, str(value))

    def ask(self, question=None, **settings):
        if question is not None:
            self.set("question", question)
        for name, value in settings.items():
            self.set(name, value)
        self.at("#go").click()
        self.wait(lambda: self.text("status").startswith(("Done", "Stopped")) or self.at("#error").is_displayed())

    def complaints(self):
        """What the browser itself found wrong: script errors, breaches of the content policy."""
        return [entry["message"] for entry in self.browser.get_log("browser") if entry["level"] == "SEVERE"]


def width(browser, pixels, height=900):
    metrics = {"width": pixels, "height": height, "deviceScaleFactor": 1, "mobile": pixels == PHONE}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


@pytest.fixture
def page(browser, served):
    browser.get_log("browser")  # what an earlier test left
    return Page(browser, served.url)


def test_asking_shows_thoughts_answer_and_both_clocks(page, offline):
    page.ask(APPLES)
    [said] = offline.ask(APPLES, return_latents=True)
    assert not page.at("#error").is_displayed()
    # the first bar of every soft token is its likeliest token, with its probability and entropy in words
    firsts = page.all("#soft .latents .bars li:first-child .token")
    assert firsts == [z.tokens[0].strip() for z in said.latents] == ["12", "10"]
    shares = page.all("#soft .latents .bars li:first-child .share")
    assert shares == [f"{100 * z.probs[0]:.0f} %" for z in said.latents]
    titles = [title.split(" nats")[0] for title in page.all("#soft .latents h3")]
    assert titles == [f"z{i} entropy {z.entropy:.2f}" for i, z in enumerate(said.latents, 1)]
    assert page.all(".answer") == ["Answer: 10", "Answer: 10"]
    assert page.at("#text .chain").text == "<<3*4=12>> <<12-2=10>>"
    clocks = page.all(".clock")
    assert len(clocks) == 2 and all(clock.endswith((" ms", " s")) and float(clock.split()[0]) > 0 for clock in clocks)
    # 5 calls: the question, two soft tokens, </think> and the answer's one token; the chain has 14 tokens
    assert said.forwards == 5 and page.all("[data-part=forwards]") == [
        "5 forward passes (calls of the model): 1 for the question, 2 for the soft tokens, 2 for the answer",
        "17 forward passes (calls of the model): 1 for the question, 14 for the chain, 2 for the answer",
    ]
    assert all(term in page.text("terms") for term in ("z1, z2", "nats", "P(end)"))
    assert "fewer forward passes" in page.text("verdict") and "Both give the same answer" in page.text("verdict")
    assert "There is no reference answer" in page.text("verdict")
    assert page.complaints() == []


def test_each_soft_token_links_to_the_step_it_replaces(page, served):
    page.ask(APPLES)
    assert page.all("#soft .latents .step") == ["in place of step 1: 3*4=12", "in place of step 2: 12-2=10"]
    links = page.browser.find_elements("css selector", "#soft .latents .step a")
    targets = [link.get_attribute("href").partition("#")[2] for link in links]
    assert [page.text(target) for target in targets] == ["3*4=12", "12-2=10"]


def test_without_a_text_model_there_is_one_pane_and_an_examples_own_steps_are_named(browser):
    with running() as served:
        page = Page(browser, served.url)
        assert "nothing to compare with" in page.text("about") and not page.at("#text").is_displayed()
        page.ask()
        [first, *_] = httpx.get(f"{served.url}/api/info").json()["examples"]
        wanted = [f"in place of step {i}: {step}" for i, step in enumerate(first["steps"], 1)]
        assert page.all("#soft .latents .step") == wanted
        page.ask(BAGS)
        assert page.all("#soft .latents .step") == [], "the steps of a question of one's own are not known"
        assert page.at("#soft .answer").text == "Answer: 12"


def test_a_refusal_is_shown_as_an_error_in_the_servers_words(page, served):
    words = "apples " * 500  # more tokens than the server takes, fewer letters than the field takes
    refused = httpx.post(f"{served.url}/api/think", json={"model": "embedded", "prompt": words.strip()})
    assert refused.status_code == 400
    page.ask(words)
    box = page.at("#error")
    assert box.is_displayed() and box.get_attribute("role") == "alert"
    assert refused.json()["error"]["message"].rstrip(".") in box.text
    assert page.all(".answer") == ["", ""] and page.text("status") == ""
    assert page.at("#go").is_enabled()
    # and it goes away with the next question
    page.ask(APPLES)
    assert not page.at("#error").is_displayed() and page.all(".answer")[0] == "Answer: 10"


def test_an_empty_question_and_a_dead_server_are_errors_too(browser):
    with running() as served:
        page = Page(browser, served.url)
        browser.execute_script("document.getElementById('ask').noValidate = true")
        page.ask(APPLES)
        assert page.all("#soft .answer") == ["Answer: 10"]
        page.ask("   ")
        assert "Write a problem first" in page.text("error")
        assert page.all("#soft .answer") == [""] and page.all("#soft .latents li") == [], "the old answer"
    page.ask(APPLES)
    assert "cannot be reached. Check that `ruplar serve` is still running, then ask again." in page.text("error")


def test_a_lost_connection_is_told_in_a_sentence(browser):
    with running() as served, held(served) as go:
        page = Page(browser, served.url)
        page.set("question", APPLES)
        page.at("#go").click()
        page.wait(lambda: bool(served.scheduler.queue or served.scheduler.in_flight))
        for connection in list(served.server.server_state.connections):
            connection.transport.abort()
        page.wait(lambda: page.at("#error").is_displayed())
        assert page.text("error").startswith("The connection to the server was lost before the answer was complete.")
        assert page.all("#soft .answer") == [""]
        go.set()


def test_a_failure_in_the_middle_of_a_stream_is_an_error(browser):
    with running(timeout=0.3) as served, held(served) as go:
        page = Page(browser, served.url)
        page.ask(APPLES)
        assert page.at("#error").is_displayed() and page.text("error")
        assert page.all("#soft .answer") == [""]
        go.set()


def test_the_vote_is_shown_as_the_server_counted_it(page, served):
    question = "A farmer has 17 hens and 4 dogs. How many legs are there?"
    page.ask(question, samples=8, noise=2)
    body = {"model": "embedded", "prompt": question, "n": 8, "noise": 2, "temperature": 0, "seed": 0}
    text = httpx.post(f"{served.url}/api/think", json=body, timeout=60).text
    done = json.loads(next(b for b in text.split("\n\n") if b.startswith("event: done")).partition("data: ")[2])
    tokens, shares = (page.all(f"#soft [data-part=votes] .{part}") for part in ("token", "share"))
    shown = list(zip(tokens, shares, strict=True))
    assert shown == [(v["answer"] or "none", f"{v['count']} of 8") for v in done["votes"]]
    [forwards] = page.all("#soft [data-part=forwards]")
    assert forwards == f"{done['forwards']} forward passes (calls of the model): in all 8 samples"
    assert len(shown) > 1, "this question splits the vote; choose another if the model changed"
    assert f"The vote is split: {done['votes'][0]['count']} of 8" in page.at("#soft .remarks").text


def test_samples_that_cannot_differ_get_noise(page):
    assert page.at("#noise").get_attribute("value") == "0"
    page.set("samples", 4)
    assert page.at("#noise").get_attribute("value") == "0.3" and page.at("#samples").get_attribute("value") == "4"


def test_an_unsure_thought_is_called_unsure(page, offline):
    questions = ["Zebras paint 7 blue noises and 83 of 912.", BAGS]
    steps = [
        [i for i, z in enumerate(answer.latents, 1) if round(100 * z.probs[0]) < 50]
        for answer in offline.ask(questions, return_latents=True)
    ]
    assert steps[0] and not steps[1]
    for question, unsure in zip(questions, steps, strict=True):
        page.ask(question)
        titles = page.all("#soft .latents h3")
        assert [i for i, title in enumerate(titles, 1) if title.endswith("unsure")] == unsure
        remarks = page.at("#soft .remarks").text
        assert [i for i in range(1, 9) if f"The model was unsure at z{i}:" in remarks] == unsure


def test_a_picked_problem_is_marked(page, served):
    example = httpx.get(f"{served.url}/api/info").json()["examples"][2]
    page.set("example", 2)
    assert page.at("#question").get_attribute("value") == example["question"]
    page.ask()
    right = page.at("#soft .answer").text == f"Answer: {example['answer']}"
    assert ("Correct: this is the reference answer." if right else f"the reference answer is {example['answer']}") in page.at("#soft .remarks").text  # fmt: skip


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed, so the curl line was NOT run")
def test_the_curl_line_really_runs_and_gives_the_same_answer(page):
    page.ask("It's 3 bags of 4 apples. Tom eats 2 apples. How many apples are left?")
    page.browser.execute_script("document.getElementById('reproduce').open = true")
    done = subprocess.run(["bash", "-c", page.text("curl")], capture_output=True, text=True, timeout=60, check=True)
    reply = json.loads(done.stdout)["choices"][0]["message"]
    assert page.at("#soft .answer").text == f"Answer: {reply['content']}"
    assert len(reply["reasoning_details"]) == len(page.all("#soft .latents > li"))


def test_the_python_lines_really_run_and_give_the_same_answers(page):
    page.ask(APPLES, samples=3, noise=1, seed=5)
    page.browser.execute_script("document.getElementById('reproduce').open = true")
    code = page.text("python")
    assert '"noise": 1' in code and "n=3" in code
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    said = [line.split()[0] for line in done.stdout.splitlines()]
    votes = page.all("#soft [data-part=votes] .share")
    assert len(said) == 3 and sorted(map(said.count, set(said)), reverse=True) == [int(v.split()[0]) for v in votes]


def test_the_link_brings_the_question_and_the_settings_back(page, browser):
    page.set("question", "What is 100% of 7 & 8?")
    for name, value in {"samples": 3, "noise": 0.4, "temperature": 0.2, "seed": 9}.items():
        page.set(name, value)
    browser.execute_script("document.getElementById('reproduce').open = true")
    again = Page(browser, page.at("#permalink").get_attribute("href"))
    values = [
        again.at(f"#{n}").get_attribute("value") for n in ("question", "samples", "noise", "temperature", "seed")
    ]
    assert values == ["What is 100% of 7 & 8?", "3", "0.4", "0.2", "9"]


def test_the_keyboard_is_enough(page, served):
    from selenium.webdriver.common.keys import Keys

    question = page.at("#question")
    question.clear()
    question.send_keys(APPLES)
    with held(served) as go:
        question.send_keys(Keys.CONTROL, Keys.ENTER)
        page.wait(lambda: page.text("status").startswith("Thinking"))
        page.wait(lambda: bool(served.scheduler.queue or served.scheduler.in_flight))
        page.at("body").send_keys(Keys.ESCAPE)
        page.wait(lambda: page.text("status") == "Stopped.")
        go.set()
    assert served.quiet(), "a question that was stopped keeps its slot"
    assert not page.at("#error").is_displayed()


@pytest.mark.parametrize("pixels", [DESKTOP, PHONE])
def test_nothing_runs_over_the_edge_and_everything_has_a_label(page, browser, pixels):
    page.ask(APPLES)
    browser.execute_script("document.getElementById('reproduce').open = true")
    width(browser, pixels)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= pixels
    unnamed = """[...document.querySelectorAll("input, select, textarea")].filter(e => !e.labels.length)"""
    small = """[...document.querySelectorAll("button, select, textarea")].filter(e => e.offsetHeight < 36)"""
    for wrong in (unnamed, small):  # small: for a thumb
        assert browser.execute_script(f"return {wrong}.map(e => e.id)") == []
    assert len(browser.find_elements("css selector", "[aria-live], [role=alert]")) >= 3


def test_button_and_answer_are_on_the_first_screen_of_a_phone(page, browser):
    width(browser, PHONE, 844)
    page.ask(APPLES)
    browser.execute_script("window.scrollTo(0, 0)")
    for part in ("#go", "#soft .answer"):
        bottom = browser.execute_script("return arguments[0].getBoundingClientRect().bottom", page.at(part))
        assert 0 < bottom < 844


def test_a_key_is_asked_for_by_the_browser_and_never_shown(browser):
    with running(key="open sesame") as served:
        url = served.url.replace("http://", "http://anyone:open%20sesame@")
        page = Page(browser, url)
        page.ask(APPLES)
        assert page.at("#soft .answer").text == "Answer: 10"
        browser.execute_script("document.getElementById('reproduce').open = true")
        assert "$RUPLAR_API_KEY" in page.text("curl") and "sesame" not in page.at("body").text
