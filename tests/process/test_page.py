"""The page of a daemon in a real browser, compared with `millrace status`; and who may see it.

Screenshots are written to screenshots/ in the build folder.
"""

import contextlib
import json
import os
import pathlib
import re
import ssl
import subprocess
import urllib.error
import urllib.request

from browser import Browser
from fake_status import FakeDaemon, fake_status
from harness import check, cluster, deploy, wait_for
from test_streams import DATA

WEB = ("--metrics-listen", "127.0.0.1:0")
ROOT = pathlib.Path(os.environ.get("MILLRACE_SOURCE_DIR", "."))
SHOTS = pathlib.Path(os.environ.get("MILLRACE_BUILD_DIR", "build")) / "screenshots"
READY = "document.querySelector('#main') && !document.querySelector('#main').hidden"


def address_of(process):
    return wait_for(lambda: re.search(r"for=metrics address=(\S+)", process.text()), "no address",
                    process.popen)[1]


def get(url, headers=(), method="GET", context=None):
    """(code, headers, body) of an answer, also of a refusal."""
    request = urllib.request.Request(url, headers=dict(headers), method=method)
    try:
        with urllib.request.urlopen(request, context=context) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.headers, refused.read()


def shoot(browser, name):
    SHOTS.mkdir(parents=True, exist_ok=True)
    browser.screenshot(SHOTS / f"{name}.png")


def count(number):
    return f"{int(number):,}"


@contextlib.contextmanager
def paused_job(c, job, world_size=2):
    """A job whose loops stand still, so that its figures do. Yields its consumer's process."""
    consumer = c.consumer(world_size, job=job, epochs=1000, extra=("--delay", "0.3"))
    wait_for(lambda: sum(r["state"] == "live" for r in c.status()["consumers"]) >= world_size,
             "the job does not begin", consumer.popen)
    yield consumer


def test_the_page_shows_what_status_says_and_says_so_when_the_daemon_is_gone():
    with cluster(DATA) as c, Browser() as browser:
        port = "127.0.0.1:0"
        daemon = c.serve("--metrics-listen", port)
        url = f"http://{address_of(daemon)}/"
        control = c.address
        with paused_job(c, "watched") as consumer:
            browser.open(url)
            browser.wait(READY)
            browser.wait("document.querySelectorAll('#consumers tbody tr').length === 2",
                         "two consumers")
            status = c.status()
            # Steps and rates move on; all else stands.
            job = browser.table("jobs")[0]
            told = status["jobs"][0]
            check(job["Job"] == told["name"] == "watched" and job["State"] == told["state"], f"{job}")
            check(job["Ranks"] == count(told["world_size"]), f"{job}, {told}")
            check(job["Step"].endswith(f" of {count(told['steps_per_epoch'])}"), f"{job}, {told}")
            consumers = browser.table("consumers")
            check({row["Consumer"] for row in consumers} ==
                  {f"{r['job']}, rank {r['rank']}" for r in status["consumers"]}, f"{consumers}")
            check({row["Where"] for row in consumers} == {r["where"] for r in status["consumers"]},
                  f"{consumers}")
            for tab in ("workers", "datasets", "events"):
                browser.run(f"document.getElementById('tab-{tab}').click()")
                if tab == "workers":
                    browser.wait("document.querySelector('#workers td[data-label=Stages]')"
                                 ".textContent.includes('closure')", "no stages")
                rows = browser.table(tab)
                if tab == "workers":
                    worker = status["workers"][0]
                    check([(r["Worker"], r["State"], r["Address"], r["Threads"]) for r in rows] ==
                          [(worker["name"], worker["state"], worker["address"],
                            count(worker["threads"]))], f"{rows}, {worker}")
                elif tab == "datasets":
                    dataset = status["datasets"]["data"]
                    check([(r["Dataset"], r["Files"], r["Examples"], r["Digest"]) for r in rows] ==
                          [("data", count(dataset["files"]), count(dataset["examples"]),
                            dataset["digest"][:12])], f"{rows}, {dataset}")
            check(f"term {status['term']}" in browser.text("#service"), browser.text("#service"))
            browser.wait("document.querySelector('#advice').textContent.length > 30 && "
                         "!document.querySelector('#advice').textContent.includes('first figures')",
                         "no advice")
            foreign = [r for r in browser.requests() if not r.startswith((url, "about:"))]
            check(not foreign, f"the page asked elsewhere: {foreign}")
            check(not browser.problems(), f"{browser.problems()}")
            shoot(browser, "live")
            daemon.kill()
            browser.wait("document.body.dataset.state === 'gone'", "it does not say that it is gone")
            said = browser.text("#alerts")
            check(re.search(r"No answer since \d\d:\d\d:\d\d", said), said)
            check(browser.text("#live") == "● no answer" or "no answer" in browser.text("#live"), said)
            check(browser.run("document.title").startswith("No answer"), "title")
            shoot(browser, "gone")
            again = c.start("serve", *daemon_command(daemon, control, url))
            browser.wait("document.body.dataset.state === 'live'", "it does not come back")
            check(browser.text("#alerts") == "", browser.text("#alerts"))
            browser.wait("document.querySelectorAll('#datasets tbody tr').length === 1", "dataset")
            again.kill()
            consumer.kill()


def daemon_command(daemon, control, url):
    """The command of a daemon that stood at these addresses, to start it there again."""
    command = list(daemon.command)
    command[command.index("--listen") + 1] = control
    command[command.index("--metrics-listen") + 1] = url[7:-1]
    return command


def test_status_json_is_what_a_viewer_may_see_of_the_status():
    with cluster(DATA) as c:
        daemon = c.serve(*WEB)
        c.consumer(1, job="done").expect_success()
        url = f"http://{address_of(daemon)}"
        code, headers, body = get(f"{url}/status.json")
        check(code == 200 and headers["Content-Type"] == "application/json", f"{code} {headers}")
        shown, told = json.loads(body), c.status()
        check(told["jobs"][0]["pipeline_yaml"] and not shown["jobs"][0]["pipeline_yaml"], "pipelines")
        check(set(shown) == set(told), f"{set(shown) ^ set(told)}")
        for line in told["jobs"][0]["pipeline_yaml"].splitlines():
            check(":" not in line or line.strip() not in body.decode(), f"'{line}' is shown")

        def still(status):
            """The status without what moves on or is not for viewers."""
            for row in status["jobs"]:
                del row["pipeline_yaml"]
            for name in ("uptime_seconds", "workers", "desired_workers", "security"):
                status.pop(name, None)
            for event in status.get("events", []):
                del event["age_seconds"]
            for row in status["jobs"]:
                row.pop("desired_workers", None)
            return status

        # Rows may go between two looks.
        wait_for(lambda: still(json.loads(get(f"{url}/status.json")[2])) == still(c.status()),
                 f"the two differ: {shown}\n{told}")
        check(get(f"{url}/status.json", method="POST")[0] == 405, "POST")
        check(get(f"{url}/status.json", {"Host": "evil.example"})[0] == 403, "a foreign Host")
        code, headers, body = get(f"{url}/", method="HEAD")
        check((code, body) == (200, b"") and "default-src 'none'" in headers["Content-Security-Policy"],
              f"{code} {headers}")


def test_a_worker_alone_names_its_dispatcher():
    with cluster(DATA) as c:
        c.dispatcher()
        worker = c.worker(extra=WEB)
        shown = json.loads(get(f"http://{address_of(worker)}/status.json")[2])
        check(shown["dispatchers"] == [c.address], f"{shown}")


def test_another_user_does_not_see_the_page():
    if os.geteuid() != 0:
        return
    with cluster(DATA) as c:
        daemon = c.serve(*WEB)
        url = f"http://{address_of(daemon)}/status.json"
        script = ("import os, sys, urllib.request, urllib.error\nos.setuid(65534)\n"
                  "try: urllib.request.urlopen(sys.argv[1])\n"
                  "except urllib.error.HTTPError as e: print(e.code, e.read().decode())")
        done = subprocess.run(["/usr/bin/python3", "-c", script, url], capture_output=True, text=True,
                              check=True)
        check(done.stdout.startswith("403 the page is shown to root"), done.stdout)


def test_with_tls_operators_and_viewers_see_the_page_and_trainers_do_not():
    with cluster(DATA) as c:
        tls = c.folder / "tls"
        c.run("certs", tls)
        printed = c.run("certs", tls, "--token", "watcher").splitlines()
        row = next(line for line in printed if "sha256" in line).strip().lstrip("- ")
        access = c.folder / "access.yaml"
        access.write_text("tokens:\n  - " + row.replace("role: trainer", "role: viewer") + "\n")
        daemon = c.serve(*WEB, "--metrics-tls", "--tls", tls / "serve", "--access", access)
        url = f"https://{address_of(daemon)}"

        def context(role=None):
            made = ssl.create_default_context(cafile=tls / "ca.crt")
            made.check_hostname = False  # roles are proved, not names of hosts
            if role:
                made.load_cert_chain(tls / role / "tls.crt", tls / role / "tls.key")
            return made

        codes = {role: get(f"{url}/status.json", context=context(role))[0]
                 for role in ("operator", "viewer", "trainer", "worker")}
        check(codes == {"operator": 200, "viewer": 200, "trainer": 403, "worker": 403}, f"{codes}")
        code, headers, _ = get(f"{url}/", context=context())
        check(code == 401 and headers["WWW-Authenticate"].startswith("Basic "), f"{code} {headers}")
        token = (tls / "watcher" / "token").read_text().strip()
        bearer = {"Authorization": f"Bearer {token}"}
        check(get(f"{url}/status.json", bearer, context=context())[0] == 200, "a viewer's token")
        check(get(f"{url}/", {"Authorization": "Bearer x"}, context=context())[0] == 401, "no token")
        check(b"millrace_term" in get(f"{url}/metrics", context=context())[2], "metrics")


def test_remedies_on_the_page_are_those_of_the_documentation():
    page = (ROOT / "docs/guides/when-gpus-wait.md").read_text().replace("\n  ", " ")
    page = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", page)
    entries = re.findall(r"^- (`\w+`(?:, `\w+`)*): (.*)\. \*\*Do:\*\* (.*)\.$", page, re.M)
    check(len(entries) == 8, f"{entries}")
    text = (ROOT / "server/web/page/waits.js").read_text()
    causes = re.search(r"CAUSES = \{.*?^\};", text, re.S | re.M)[0]
    flat = re.sub(r"'\s*\+\s*'", "", causes).replace("\\'", "'")
    for names, means, remedy in entries:
        for name in re.findall(r"\w+", names):
            entry = re.search(rf"\b{name}: \{{(.*?)\}},?\n", flat, re.S)
            check(entry, f"the page has no cause {name}")
            check(means in entry[1] and remedy in entry[1], f"{name}: {entry[1]} is not '{means}', "
                                                            f"'{remedy}'")


@deploy(seconds=240)
def test_the_page_has_room_for_nobody_for_eight_and_for_a_thousand_consumers():
    with Browser() as browser:
        for consumers in (0, 8, 1000):
            with FakeDaemon(consumers=consumers, decisions=2) as daemon:
                browser.open(daemon.url)
                browser.wait(READY)
                tab = browser.text("#tab-consumers")
                check(tab == f"Consumers {count(consumers)}", tab)
                rows = browser.table("consumers")
                check(len(rows) == min(consumers, 100), f"{len(rows)} rows of {consumers}")
                fits(browser)
                # Two statuses, so that there are rates.
                browser.wait("performance.getEntriesByName('show').length >= 3")
                shoot(browser, f"consumers-{consumers}")
        check(not browser.problems(), f"{browser.problems()}")


def fits(browser):
    widths = browser.run("[document.documentElement.scrollWidth, window.innerWidth]")
    check(widths[0] <= widths[1], f"the page is {widths[0]} wide, the window {widths[1]}")


@deploy(seconds=240)
def test_a_thousand_consumers_are_sorted_searched_and_turned_over():
    told = fake_status(1000)["consumers"]  # ranks 0 to 49 of train-0 to train-19
    with Browser() as browser, FakeDaemon(consumers=1000) as daemon:
        browser.open(daemon.url)
        browser.wait(READY)
        waited = [float(row["Waited"].split()[0]) for row in browser.table("consumers")]
        check(waited == sorted(waited, reverse=True), "not sorted by waiting at first")
        most = max(r["waited_last_minute_seconds"] for r in told)
        check(abs(waited[0] - most) < 0.06, f"{waited[0]}, not {most}")
        browser.run("[...document.querySelectorAll('#consumers thead button')]"
                    ".find((b) => b.textContent === 'Step').click()")
        steps = [row["Step"] for row in browser.table("consumers")]
        check(steps == [count(12999 - i) for i in range(100)], f"{steps[:5]}")
        order = browser.run("[...document.querySelectorAll('#consumers thead th')].map(h => h.ariaSort)")
        check(order.count("descending") == 1 and order[2] == "descending", f"{order}")
        browser.run("document.querySelectorAll('#consumers .pager button')[1].click()")
        check(browser.table("consumers")[0]["Step"] == count(12899), "the second page")
        browser.run("""(() => { const box = document.querySelector('#consumers input');
            box.value = 'train-3, rank 7 '; box.dispatchEvent(new Event('input')); })()""")
        names = [row["Consumer"] for row in browser.table("consumers")]
        check(names == ["train-3, rank 7"], f"{names}")
        browser.run("""(() => { const box = document.querySelector('#consumers input');
            box.value = 'gpu-010 train-5'; box.dispatchEvent(new Event('input')); })()""")
        names = [row["Consumer"] for row in browser.table("consumers")]
        check(names == ["train-5, rank 4"], f"{names}")
        check("of 1,000" in browser.text("#consumers .counted"), "it does not say how many")


@deploy(seconds=240)
def test_a_poll_takes_no_time_that_grows_faster_than_the_number_of_consumers():
    quickest = {}
    for consumers in (100, 1000):
        with Browser() as browser, FakeDaemon(consumers=consumers) as daemon:
            browser.open(daemon.url)
            shows = "performance.getEntriesByName('show')"
            browser.wait(f"{shows}.length >= 8")
            # From the answer's text to what is shown. A busy machine only adds.
            took = browser.run(f"{shows}.map((show) => show.duration)")
            quickest[consumers] = min(took)
            print(f"a poll of {consumers} consumers: {min(took):.0f} ms, {took}")
    check(quickest[1000] < 30 * quickest[100], f"{quickest} ms")


@deploy(seconds=240)
def test_the_page_is_used_by_keyboard_alone():
    with Browser() as browser, FakeDaemon(consumers=8) as daemon:
        browser.open(daemon.url)
        browser.wait(READY)
        place = "document.activeElement.textContent.trim() || document.activeElement.id"
        seen = []
        for _ in range(80):
            browser.press("Tab")
            seen.append(browser.run(place))
            outline = browser.run("""(() => { const style = getComputedStyle(document.activeElement);
                return document.activeElement === document.body || parseFloat(style.outlineWidth) >= 2 })()""")
            check(outline, f"the focus is not seen at {seen[-1]}")
            if seen[-1].startswith("Consumers"):
                break
        check(seen[0] == "Skip to the tables", f"{seen[:3]}")
        check(seen[-1].startswith("Consumers"), f"no tab is reached: {seen}")
        browser.press("ArrowRight")
        check(browser.run(place).startswith("Workers"), "arrows do not choose tabs")
        check(browser.run("!document.getElementById('workers').hidden && "
                          "document.getElementById('consumers').hidden"), "the panel is not shown")
        browser.press("End")
        check(browser.run(place).startswith("Events"), "End")
        browser.press("Home")
        browser.press("Tab")
        check(browser.run("document.activeElement.type") == "search", "the search is not reached")
        browser.press("Tab")
        browser.press("Tab")
        check(browser.run(place) == "Consumer", browser.run(place))
        browser.press("Enter")
        check(browser.run("document.activeElement.parentElement.ariaSort") == "ascending", "sorting")


def contrast(browser):
    """Texts of the page whose contrast to their ground is below 4.5."""
    return browser.run("""(() => {
      const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
        .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
        .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
      const parts = (text) => text.match(/[\\d.]+/g).map(Number);
      const ground = (node) => {
        for (let at = node; at; at = at.parentElement) {
          const colour = parts(getComputedStyle(at).backgroundColor);
          if (colour.length < 4 || colour[3] > 0) return colour;
        }
        return [255, 255, 255];
      };
      const low = [];
      for (const node of document.body.querySelectorAll('*')) {
        const own = [...node.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
        if (!own || !node.checkVisibility() || node.disabled) continue;
        const [a, b] = [light(parts(getComputedStyle(node).color)), light(ground(node))];
        const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (ratio < 4.5) low.push(`${node.textContent.slice(0, 40)}: ${ratio.toFixed(2)}`);
      }
      return low;
    })()""")


@deploy(seconds=240)
def test_dark_and_light_have_contrast_and_a_phone_needs_no_sideways_scrolling():
    with Browser() as browser, FakeDaemon(consumers=8) as daemon:
        for dark in (False, True):
            browser.prefer(dark)
            browser.open(daemon.url)
            browser.wait(READY)
            browser.wait("performance.getEntriesByName('show').length >= 2")
            ground = browser.run("getComputedStyle(document.body).backgroundColor")
            check((sum(map(int, re.findall(r"\d+", ground))) < 200) == dark, f"{ground}")
            for tab in ("consumers", "workers", "datasets", "events"):
                browser.run(f"document.getElementById('tab-{tab}').click()")
                low = contrast(browser)
                check(not low, f"{'dark' if dark else 'light'}, {tab}: {low}")
            browser.run("document.getElementById('tab-workers').click()")
            shoot(browser, "dark" if dark else "light")
        browser.resize(375, 812, phone=True)
        for tab in ("consumers", "workers", "datasets", "events"):
            browser.run(f"document.getElementById('tab-{tab}').click()")
            fits(browser)
        shoot(browser, "phone-dark")
        browser.prefer(False)
        shoot(browser, "phone")


@deploy(seconds=240)
def test_the_page_stops_asking_while_nobody_looks():
    with Browser() as browser, FakeDaemon(consumers=1) as daemon:
        browser.open(daemon.url)
        browser.wait(READY)
        browser.run("""Object.defineProperty(document, 'hidden', {get: () => window.away, configurable: true});
            window.away = true; document.dispatchEvent(new Event('visibilitychange'))""")
        # The page's own timers pass first, as they are set before these.
        passes = "new Promise((done) => setTimeout(done, 4500))"  # more than two periods
        browser.run(passes)  # with the answer that was on its way
        before = daemon.asked
        browser.run(passes)
        check(daemon.asked == before, "it goes on asking")
        browser.run("window.away = false; document.dispatchEvent(new Event('visibilitychange'))")
        wait_for(lambda: daemon.asked > before, "it does not go on")


@deploy(seconds=240)
def test_names_that_look_like_html_are_shown_as_text():
    def bad(status):
        for job in status["jobs"]:
            job["name"] = "<img src=x onerror=alert(1)>"
        for consumer in status["consumers"]:
            consumer["job"] = consumer["where"] = "<script>document.title='bad'</script>"
        for worker in status["workers"]:
            worker["name"] = worker["why"] = "<b>worker</b>"
        return status

    with Browser() as browser, FakeDaemon(consumers=2, workers=1) as daemon:
        daemon.change = bad
        browser.open(daemon.url)
        browser.wait(READY)
        check(browser.table("jobs")[0]["Job"] == "<img src=x onerror=alert(1)>", "as text")
        check(browser.run("document.querySelectorAll('main img, main script, main b').length") == 0,
              "it became elements")
        check(not browser.problems(), f"{browser.problems()}")
