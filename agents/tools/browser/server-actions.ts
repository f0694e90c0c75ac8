/**
 * The second half of the browser's server, in Python: what a policy may do with the pages, what it reads of them, and
 * the Model Context Protocol over stdin and stdout. The tool `look` is for graders: it is never offered to a policy.
 */

export const ACTIONS = String.raw`
SCHEMES = ("http://", "https://", "about:blank")
SKIPPED = {"none", "generic", "InlineTextBox", "LineBreak", "RootWebArea", "LayoutTableRow", "LayoutTableCell", "LabelText",
           "MenuListPopup", "ListMarker"}
SHOWN = ("checked", "selected", "expanded", "disabled", "required", "pressed", "invalid", "level")
MOST_LINES, MOST_NAME = 20000, 300
KEYS = {"enter": ("Enter", 13, "\r"), "tab": ("Tab", 9, "\t"), "escape": ("Escape", 27, ""), "backspace": ("Backspace", 8, ""),
        "delete": ("Delete", 46, ""), "arrowup": ("ArrowUp", 38, ""), "arrowdown": ("ArrowDown", 40, ""),
        "arrowleft": ("ArrowLeft", 37, ""), "arrowright": ("ArrowRight", 39, ""), "home": ("Home", 36, ""),
        "end": ("End", 35, ""), "pageup": ("PageUp", 33, ""), "pagedown": ("PageDown", 34, ""), "space": (" ", 32, " ")}
MODIFIERS = {"alt": 1, "control": 2, "ctrl": 2, "meta": 4, "shift": 8}
FILL = """function(text) {
  if (this.disabled || this.readOnly) throw new Error('it cannot be changed');
  const kinds = ['date', 'time', 'datetime-local', 'month', 'week', 'color', 'range'];
  if (!kinds.includes(this.type)) { if (this.select) this.select(); else document.execCommand('selectAll'); return false; }
  const set = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set;
  set.call(this, text);
  for (const name of ['input', 'change']) this.dispatchEvent(new Event(name, { bubbles: true }));
  return true;
}"""
CHOOSE = """function(text) {
  if (this.tagName !== 'SELECT') throw new Error('it is no list to select from');
  const all = [...this.options];
  const one = all.find((each) => each.label.trim() === text.trim()) || all.find((each) => each.value === text);
  if (!one) throw new Error('it has only ' + all.map((each) => each.label.trim()).slice(0, 50).join(', '));
  this.value = one.value; one.selected = true;
  for (const name of ['input', 'change']) this.dispatchEvent(new Event(name, { bubbles: true }));
}"""


def text_of(value):
    return re.sub(r"\s+", " ", str(value or "")).strip()[:MOST_NAME]


def lines_of(browser):
    """The accessibility tree: a line for each node that says something; [n] names an element for actions."""
    nodes = browser.on_page("Accessibility.getFullAXTree", {})["nodes"]
    by_id = {node["nodeId"]: node for node in nodes}
    roots = [node for node in nodes if node.get("parentId") not in by_id]
    lines, waiting = [], [(node, 0, "") for node in reversed(roots)]
    while waiting and len(lines) < MOST_LINES:
        node, depth, above = waiting.pop()
        role, name = node.get("role", {}).get("value", ""), text_of(node.get("name", {}).get("value"))
        shown = not node.get("ignored") and role not in SKIPPED and (name or role not in ("StaticText", "paragraph"))
        if role == "StaticText" and name and name in above:
            shown = False
        if shown:
            more = ["%s: %s" % (each["name"], each["value"]["value"]) for each in node.get("properties", ())
                    if each["name"] in SHOWN and each["value"].get("value") not in (False, "false", None)]
            value = text_of(node.get("value", {}).get("value"))
            if value and value != name:
                more.insert(0, "value: " + value)
            number = node.get("backendDOMNodeId")
            start = "  " * min(depth, 30) + ("" if role == "StaticText" or not number else "[%d] " % number)
            what = name if role == "StaticText" else "%s %s" % (role, json.dumps(name, ensure_ascii=False) if name else "")
            lines.append((start + what).rstrip() + (" (%s)" % ", ".join(more) if more else ""))
        inner = (by_id[child] for child in reversed(node.get("childIds", ())) if child in by_id)
        waiting.extend((child, depth + 1 if shown else depth, name if shown else above) for child in inner)
    return lines


def head(browser):
    try:
        title = text_of(browser.evaluate("document.title", 3))
    except (Failed, Silent):
        title = ""
    tabs = list(browser.pages)
    place = "" if len(tabs) < 2 else " (tab %d of %d)" % (tabs.index(browser.current) + 1, len(tabs))
    return "URL: %s%s\nTitle: %s" % (browser.page().url, place, title)


def view(browser, args):
    lines, wanted = lines_of(browser), args.get("find")
    if wanted:
        lines = [line.strip() for line in lines if wanted.lower() in line.lower()]
        if not lines:
            return head(browser) + "\n\n(nothing on the page has this text)"
    most, begin = args["characters"], max(1, int(args.get("line") or 1))
    kept, used = [], 0
    for line in lines[begin - 1:]:
        used += len(line) + 1
        if used > most and kept:
            break
        kept.append(line[:most])
    last = begin - 1 + len(kept)
    more = "\n(lines %d to %d of %d: give line to read on, or find)" % (begin, last, len(lines)) if last < len(lines) or begin > 1 else ""
    return head(browser) + "\n\n" + "\n".join(kept) + more


def resolved(browser, number):
    try:
        return browser.on_page("DOM.resolveNode", {"backendNodeId": number})["object"]["objectId"]
    except Failed:
        raise Failed("there is no element [%d] on this page any more: read the page again" % number)


def call(browser, number, function, *values):
    given = {"objectId": resolved(browser, number), "functionDeclaration": function, "returnByValue": True, "userGesture": True}
    result = browser.on_page("Runtime.callFunctionOn", dict(given, arguments=[{"value": value} for value in values]))
    if "exceptionDetails" in result:
        reason = result["exceptionDetails"].get("exception", {}).get("description", "it failed").split("\n")[0]
        raise Failed("element [%d]: %s" % (number, reason.replace("Error: ", "")))
    return result["result"].get("value")


def middle_of(browser, number):
    resolved(browser, number)
    call(browser, number, "function() { (this.nodeType === 1 ? this : this.parentElement).scrollIntoView({ block: 'center', inline: 'center' }); }")
    try:
        quads = browser.on_page("DOM.getContentQuads", {"backendNodeId": number})["quads"]
    except Failed:
        quads = []
    inside = [quad for quad in quads if abs((quad[2] - quad[0]) * (quad[5] - quad[1])) > 0]
    if not inside:
        return None
    quad = inside[0]
    return sum(quad[0::2]) / 4, sum(quad[1::2]) / 4


def mouse(browser, at, kind, **more):
    browser.on_page("Input.dispatchMouseEvent", dict({"type": kind, "x": at[0], "y": at[1]}, **more))


def click(browser, args):
    at = (args["x"], args["y"]) if args.get("element") is None else middle_of(browser, args["element"])
    if at is None:
        call(browser, args["element"], "function() { (this.nodeType === 1 ? this : this.parentElement).click(); }")
        return
    mouse(browser, at, "mouseMoved")
    mouse(browser, at, "mousePressed", button="left", clickCount=1)
    mouse(browser, at, "mouseReleased", button="left", clickCount=1)


def hover(browser, args):
    at = middle_of(browser, args["element"])
    if at is None:
        raise Failed("element [%d] is not visible" % args["element"])
    mouse(browser, at, "mouseMoved")


def press(browser, keys):
    *held, key = [part for part in re.split(r"(?<=.)\+", keys) if part]
    bits = 0
    for each in held:
        if each.lower() not in MODIFIERS:
            raise Failed("%r is no key: give one like Enter, ArrowDown, a, Control+a" % keys)
        bits |= MODIFIERS[each.lower()]
    if key.lower() in KEYS:
        name, code, text = KEYS[key.lower()]
    elif len(key) == 1:
        name, code, text = key, ord(key.upper()), key
    else:
        raise Failed("%r is no key: give one like %s" % (keys, ", ".join(value[0].strip() or "Space" for value in KEYS.values())))
    commands = ["selectAll"] if bits == 2 and key.lower() == "a" else []
    given = {"key": name, "windowsVirtualKeyCode": code, "modifiers": bits, "commands": commands}
    if text and not bits & 7:
        given["text"] = text
    browser.on_page("Input.dispatchKeyEvent", dict(given, type="keyDown" if "text" in given else "rawKeyDown"))
    browser.on_page("Input.dispatchKeyEvent", dict(given, type="keyUp"))


def write(browser, args):
    number, text = args["element"], args["text"]
    try:
        browser.on_page("DOM.focus", {"backendNodeId": number})
    except Failed:
        click(browser, args)
    if not call(browser, number, FILL, text):
        if text:
            browser.on_page("Input.insertText", {"text": text})
        else:
            press(browser, "Delete")
    if args.get("submit"):
        press(browser, "Enter")


def scroll(browser, args):
    amount = int(args.get("amount") or 600)
    x, y = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}[args["direction"]]
    if args.get("element") is not None:
        call(browser, args["element"], "function(x, y) { this.scrollBy(x, y); }", x * amount, y * amount)
    else:
        browser.evaluate("window.scrollBy(%d, %d)" % (x * amount, y * amount))


def navigate(browser, url):
    if not url.startswith(SCHEMES):
        raise Failed("only http:// and https:// can be opened, not %r" % url[:100])
    browser.fresh_page()
    result = browser.on_page("Page.navigate", {"url": url}, LIMITS["load"])
    if result.get("errorText") and not result.get("isDownload"):
        raise Failed("%s cannot be opened: %s" % (url[:200], result["errorText"]))
    browser.settle()


def history(browser, step):
    entries = browser.on_page("Page.getNavigationHistory")
    at = entries["currentIndex"] + step
    if not 0 <= at < len(entries["entries"]):
        raise Failed("there is no page to go to in this direction")
    browser.on_page("Page.navigateToHistoryEntry", {"entryId": entries["entries"][at]["id"]})


def tabs(browser, action, args):
    known = list(browser.pages)
    if action == "new_tab":
        browser.opened()
        if args.get("url"):
            navigate(browser, args["url"])
        return
    number = int(args.get("tab") or 0)
    if not 1 <= number <= len(known):
        raise Failed("there is no tab %d: there are %d" % (number, len(known)))
    if action == "switch_tab":
        browser.current = known[number - 1]
        browser.ask("Target.activateTarget", {"targetId": browser.current})
    else:
        browser.ask("Target.closeTarget", {"targetId": known[number - 1]})
        browser.settle(2)


def screenshot(browser):
    browser.settle(3)
    shot = browser.on_page("Page.captureScreenshot", {"format": "png"}, LIMITS["load"])["data"]
    if len(shot) > 5 << 20:
        shot = browser.on_page("Page.captureScreenshot", {"format": "jpeg", "quality": 60}, LIMITS["load"])["data"]
    with open(HOME + "/screenshot", "wb") as file:
        file.write(base64.b64decode(shot))


def act(browser, args):
    action = args["action"]
    if action == "navigate":
        navigate(browser, args["url"])
    elif action in ("back", "forward"):
        history(browser, -1 if action == "back" else 1)
    elif action == "reload":
        browser.on_page("Page.reload")
    elif action == "press":
        press(browser, args["keys"])
    elif action == "select":
        call(browser, args["element"], CHOOSE, args["text"])
    elif action in ("new_tab", "switch_tab", "close_tab"):
        tabs(browser, action, args)
    elif action == "wait":
        time.sleep(min(10, max(0, float(args.get("seconds") or 1))))
    elif action == "screenshot":
        screenshot(browser)
        return head(browser)
    elif action == "text":
        text = re.sub(r"\n{3,}", "\n\n", str(browser.evaluate("document.body ? document.body.innerText : ''")))
        return head(browser) + "\n\n" + text[:args["characters"]]
    elif action != "read":
        {"click": click, "hover": hover, "type": write, "scroll": scroll}[action](browser, args)
    if action not in ("read", "wait", "navigate"):
        browser.settle()
    return view(browser, args)


def looked(browser, args):
    """What a grader asks: the last URL, and for each target the value of an expression, on a page that it opens."""
    found = {"url": browser.page().url, "values": []}
    for cookie in args.get("cookies", ()):
        browser.on_page("Network.setCookie", cookie)
    for target in args.get("targets", ()):
        try:
            if target.get("url"):
                navigate(browser, target["url"])
                time.sleep(target.get("pause", 0))
            for step in target.get("steps", ()):
                try:
                    browser.evaluate(step)
                except Failed:
                    break
            found["values"].append({"value": browser.evaluate(target["expression"])})
        except (Failed, Silent) as error:
            found["values"].append({"failed": str(error)[:300]})
    with open(HOME + "/looked.json", "w") as file:
        json.dump(found, file)
    return "looked"


state = {"browser": None, "begun": False}


def running():
    browser = state["browser"]
    if browser and not browser.dead:
        return browser
    if browser:
        browser.end()
    os.makedirs(HOME, exist_ok=True)
    state["browser"] = Browser()
    if os.path.exists(HOME + "/began"):
        state["browser"].notes.append("the browser was started again: its pages are lost")
    open(HOME + "/began", "w").close()
    return state["browser"]


def answer(name, args):
    browser, limit = None, float(args.get("limit") or 60)
    LIMITS.update(answer=min(10, limit / 5), load=min(15, limit / 4), start=min(60, limit / 2))
    try:
        browser = running()
        browser.accepts = args.get("dialog") == "accept"
        said = looked(browser, args) if name == "look" else act(browser, args)
    except Failed as error:
        said = "Error: %s" % error
    except Silent as error:
        said = "Error: the page does not answer (%s): navigate to go on" % error
    notes = browser.notes if browser else []
    told = "".join("[%s]\n" % note for note in notes[:20])
    if browser:
        browser.notes = []
    return told + said
`;
