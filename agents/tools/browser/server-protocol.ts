/**
 * The first half of the browser's server, in Python: Chromium as a child process, its DevTools protocol over a pipe,
 * and the pages that are open. No library is needed, and nothing listens on a port.
 */

export const PROTOCOL = String.raw`
import base64, fcntl, json, os, re, shutil, subprocess, sys, threading, time

HOME = os.environ.get("LONGHAUL_BROWSER_HOME", "/tmp/.longhaul-browser")
# Debian's own program first: the one on the path is a script that reads /etc.
PROGRAMS = ("/usr/lib/chromium/chromium", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
WIDTH, HEIGHT = 1280, 720
QUIET_S = 0.25
# Seconds that one request to a page, a load and a start may take; less if the call has less.
LIMITS = {"answer": 10, "load": 15, "start": 60}


class Failed(Exception):
    """What the policy reads."""


class Silent(Exception):
    """The page, or the whole browser, does not answer in time."""


def flags():
    yield from ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run")
    yield from ("--no-default-browser-check", "--disable-extensions", "--disable-background-networking", "--mute-audio")
    yield from ("--disable-component-update", "--disable-sync", "--disable-breakpad", "--disable-crash-reporter")
    yield from ("--renderer-process-limit=2", "--no-zygote", "--hide-scrollbars", "--force-device-scale-factor=1")
    yield from ("--disable-features=Translate,MediaRouter,OptimizationHints,DialMediaRouteProvider", "--lang=en-US")
    yield "--window-size=%d,%d" % (WIDTH, HEIGHT)
    yield "--user-data-dir=" + HOME + "/profile"
    yield "--remote-debugging-pipe"


class Page:
    def __init__(self, target, session):
        self.target, self.session = target, session
        self.url, self.crashed, self.silent, self.loading, self.began = "about:blank", False, False, False, 0


class Browser:
    def __init__(self):
        program = next((found for found in map(shutil.which, PROGRAMS) if found), None)
        if not program:
            raise Failed("there is no Chromium in this sandbox: its image needs the program chromium")
        shutil.rmtree(HOME + "/profile", ignore_errors=True)
        os.makedirs(HOME + "/home", exist_ok=True)
        to_read, self.to_write = os.pipe()
        self.from_read, from_write = os.pipe()
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 20) for fd in (to_read, from_write)]

        def placed():
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        log = open(HOME + "/chromium.log", "wb")
        environment = dict(os.environ, HOME=HOME + "/home", XDG_CONFIG_HOME=HOME + "/home", XDG_CACHE_HOME=HOME + "/home")
        self.process = subprocess.Popen(
            [program, *flags()], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment,
            preexec_fn=placed, pass_fds=(3, 4), start_new_session=False)
        for fd in (to_read, from_write, *high):
            os.close(fd)
        self.lock, self.changed, self.count = threading.Lock(), threading.Condition(), 0
        self.answers, self.pages, self.current, self.notes = {}, {}, None, []
        self.dead, self.accepts = False, False
        threading.Thread(target=self.read, daemon=True).start()
        try:
            self.begin()
        except BaseException:
            self.end()
            raise

    def begin(self):
        self.ask("Target.setDiscoverTargets", {"discover": True}, within=LIMITS["start"])
        self.ask("Target.setAutoAttach", {"autoAttach": True, "waitForDebuggerOnStart": False, "flatten": True})
        self.ask("Browser.setDownloadBehavior", {"behavior": "deny", "eventsEnabled": True})
        # The page with which Chromium starts; without one, a new one.
        end = time.monotonic() + LIMITS["answer"]
        with self.changed:
            while not self.pages and not self.dead and time.monotonic() < end:
                self.changed.wait(0.1)
        self.page()

    def send(self, method, params, session=None):
        with self.changed:
            self.count += 1
            number = self.count
        message = {"id": number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        with self.lock:
            while data:
                data = data[os.write(self.to_write, data):]
        return number

    def ask(self, method, params=None, session=None, within=None):
        try:
            number = self.send(method, params or {}, session)
        except OSError:
            raise Silent("the browser has ended")
        end = time.monotonic() + (within or LIMITS["answer"])
        with self.changed:
            while number not in self.answers:
                left = end - time.monotonic()
                if self.dead:
                    raise Silent("the browser has ended")
                if left <= 0:
                    raise Silent("no answer to %s" % method)
                self.changed.wait(left)
            answer = self.answers.pop(number)
        if "error" in answer:
            raise Failed(answer["error"].get("message", "refused"))
        return answer.get("result", {})

    def read(self):
        rest = b""
        try:
            while True:
                data = os.read(self.from_read, 1 << 20)
                if not data:
                    break
                *whole, rest = (rest + data).split(b"\0")
                for text in whole:
                    self.hear(json.loads(text))
        except Exception as error:
            self.notes.append("the browser's answers ended: %s" % error)
        with self.changed:
            self.dead = True
            self.changed.notify_all()

    def hear(self, message):
        with self.changed:
            if "id" in message:
                self.answers[message["id"]] = message
                if len(self.answers) > 1000:
                    self.answers.pop(next(iter(self.answers)))
            else:
                self.event(message["method"], message.get("params", {}), message.get("sessionId"))
            self.changed.notify_all()

    def event(self, method, params, session):
        page = next((each for each in self.pages.values() if each.session == session), None)
        if method == "Target.attachedToTarget" and params["targetInfo"]["type"] == "page":
            target = params["targetInfo"]["targetId"]
            if target not in self.pages:
                self.pages[target] = Page(target, params["sessionId"])
                self.current = target
                for each in ("Page.enable", "DOM.enable", "Inspector.enable", "Accessibility.enable"):
                    self.reply(each, {}, params["sessionId"])
                size = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
                self.reply("Emulation.setDeviceMetricsOverride", size, params["sessionId"])
        elif method == "Target.targetInfoChanged" and params["targetInfo"]["targetId"] in self.pages:
            self.pages[params["targetInfo"]["targetId"]].url = params["targetInfo"]["url"]
        elif method == "Target.targetDestroyed":
            self.pages.pop(params["targetId"], None)
            if self.current == params["targetId"]:
                self.current = next(reversed(self.pages), None)
        elif method in ("Inspector.targetCrashed", "Target.targetCrashed"):
            broken = page or self.pages.get(params.get("targetId"))
            if broken and not broken.crashed:
                broken.crashed = True
                self.notes.append("the page crashed: navigate to go on")
        elif method == "Browser.downloadWillBegin":
            self.notes.append("a download was refused: %s" % params.get("suggestedFilename", "")[:100])
        elif page and method == "Page.javascriptDialogOpening":
            kind = params["type"]
            accept = self.accepts or kind in ("alert", "beforeunload")
            self.notes.append("a dialog (%s) said %r and was %s" % (
                kind, params["message"][:300], "accepted" if accept else "dismissed"))
            self.reply("Page.handleJavaScriptDialog", {"accept": accept}, session)
        elif page and method == "Page.frameStartedLoading" and params["frameId"] == page.target:
            page.loading, page.began = True, page.began + 1
        elif page and method == "Page.frameStoppedLoading" and params["frameId"] == page.target:
            page.loading = False

    def reply(self, method, params, session):
        """From the reader itself, which must not wait for an answer. The condition's lock is reentrant."""
        try:
            self.send(method, params, session)
        except OSError:
            pass

    def opened(self):
        before = set(self.pages)
        target = self.ask("Target.createTarget", {"url": "about:blank"})["targetId"]
        end = time.monotonic() + LIMITS["answer"]
        with self.changed:
            while target not in self.pages:
                if self.dead or not self.changed.wait(max(0.01, end - time.monotonic())) and time.monotonic() > end:
                    raise Silent("no page opens")
            self.current = target
        return before

    def page(self):
        if self.current not in self.pages:
            self.opened()
        return self.pages[self.current]

    def on_page(self, method, params=None, within=None):
        page = self.page()
        if page.crashed:
            raise Failed("the page crashed: navigate to go on")
        try:
            return self.ask(method, params, page.session, within)
        except Silent:
            page.silent = True
            raise

    def settle(self, within=None, least=QUIET_S):
        """Waits until the page loads no more, for at most so long."""
        end, quiet = time.monotonic() + (within or LIMITS["load"]), time.monotonic() + least
        with self.changed:
            while not self.dead and time.monotonic() < end:
                page = self.pages.get(self.current)
                if page is None or page.crashed or (not page.loading and time.monotonic() >= quiet):
                    return
                if page.loading:
                    quiet = time.monotonic() + least
                self.changed.wait(0.05)

    def fresh_page(self):
        """Replaces a page that crashed or does not answer."""
        page = self.pages.get(self.current)
        if page and (page.crashed or page.silent):
            self.opened()
            try:
                self.ask("Target.closeTarget", {"targetId": page.target}, within=2)
            except (Failed, Silent):
                pass
            self.pages.pop(page.target, None)

    def evaluate(self, expression, within=None):
        within = within or LIMITS["answer"]
        given = {"expression": expression, "returnByValue": True, "awaitPromise": True, "userGesture": True}
        result = self.on_page("Runtime.evaluate", dict(given, timeout=within * 1000), within + 1)
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise Failed(details.get("exception", {}).get("description", details.get("text", "it failed")).split("\n")[0])
        return result["result"].get("value")

    def end(self):
        self.process.kill()
        self.process.wait()
`;
