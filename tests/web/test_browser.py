"""The page in a real Chromium, on a real server: opening, a form, a job, two tabs, a restart."""

from __future__ import annotations

import pytest

from modelkeep.web.rail import VIEWS
from processes import wait_until
from web.conftest import Served, serving

# What a reader of the screen could not name.
NAMELESS = """
const named = (e) => e.textContent.trim() || e.ariaLabel || e.title || e.labels?.length;
const all = [...document.querySelectorAll("button, a, input, select")];
return all.filter((e) => e.offsetParent && !named(e)).map((e) => e.outerHTML);
"""


@pytest.mark.parametrize("width", [1280, 390])
def test_every_view_fits_and_complains_of_nothing(served: Served, width: int) -> None:
    served.size(width, 844, dark=width == 390)
    for path in [*(view.path for view in VIEWS), "/run"]:
        served.open(path)
        served.find("h1")
        wide = served.driver.execute_script("return document.documentElement.scrollWidth - window.innerWidth")
        assert wide <= 0, f"{path} is {wide} pixels wider than a screen of {width}"
        assert served.driver.execute_script(NAMELESS) == [], path
    assert served.errors() == []


def test_a_form_shows_what_is_wrong_then_the_line_and_runs_it(served: Served) -> None:
    served.size(1280, 900)
    served.open("/run", verb="attack")
    served.find("#field-method option[value=pgd]").click()
    served.wait(lambda: served.text("legend") == "Settings of pgd", "the settings of the method")
    radius = served.find("fieldset #field-radius")
    radius.send_keys("-1")
    served.wait(lambda: "must be above 0" in served.text(".wrong"), "the refusal")
    radius.clear()
    radius.send_keys("0.1")
    served.wait(lambda: served.text(".line code").endswith("--radius 0.1"), "the line")
    line = served.text(".line code")
    examples = served.find("#field-examples")
    examples.send_keys("5\n")  # Enter runs the form
    served.find(".own-jobs .job")
    (job,) = served.workspace.jobs.all()
    assert job.line == line.replace("pgd", "pgd --examples 5")
    served.wait(lambda: served.find(".job").get_attribute("data-state-of-job") == "done", "the end of the job")
    assert served.text(".job .links a") == "attack.html"
    assert "attack-2" in served.find("#field-out").get_attribute("value")
    assert served.errors() == []


def test_two_tabs_have_their_own_model_and_the_address_brings_it_back(served: Served) -> None:
    served.open("/explain", seed="3")
    first = served.driver.current_window_handle
    served.driver.switch_to.new_window("tab")
    try:
        served.open("/explain", data="nothing")
        assert "nothing" in served.text("[data-again-name]")  # not open, so it offers to open it
        served.find("[data-again-open]").click()
        assert "nothing" in served.text("#problem")
        served.find("main [data-open]").click()
        assert served.text(".top dd") == "digits-cnn"
        served.driver.find_element("css selector", "body").send_keys("2")  # a key for each view
        served.wait(lambda: "/explain" in served.driver.current_url, "the view")
    finally:
        served.driver.close()
        served.driver.switch_to.window(first)
    assert served.find("[data-state=seed]").get_attribute("value") == "3"
    served.driver.refresh()
    assert served.find("[data-state=seed]").get_attribute("value") == "3"
    served.errors()  # the refusal above


def test_a_restart_in_the_middle(served: Served) -> None:
    """The page says that it lost the server; after the new address it offers what it had open."""
    from modelkeep.cli.forms import CommandLineForms
    from modelkeep.web.workspace import Workspace

    folder = served.workspace.folder
    with serving(served.workspace, "first") as (entrance, port):
        served.driver.get(entrance)
        served.driver.get(f"http://127.0.0.1:{port}/studies?model=digits-cnn&data=digits")
        jobs = served.wait(lambda: len(served.driver.find_elements("css selector", "[data-jobs] .job")), "jobs")
    served.wait(lambda: served.text("#running") == "Not connected", "the loss")
    with serving(Workspace(folder, CommandLineForms()), "second", port) as (entrance, port):
        served.driver.refresh()
        assert "Open the address that" in served.text(".verdict")
        served.driver.get(entrance)
        served.driver.get(f"http://127.0.0.1:{port}/studies?model=digits-cnn&data=digits")
        wait_until(lambda: len(served.driver.find_elements("css selector", "[data-jobs] .job")) == jobs)
        served.driver.get(f"http://127.0.0.1:{port}/explain?model=digits-cnn&data=digits")
        served.find("[data-again-open]").click()
        assert served.text(".top dd") == "digits-cnn"
    served.errors()
