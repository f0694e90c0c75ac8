"""A small shop on port 7770: a list of goods, a page for each, and a form that takes orders. Nothing but Python."""

from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

GOODS = {"lamp": 30, "chair": 75, "desk": 140}
orders = []


def page(title, body):
    return f"<!doctype html><html><head><title>{title}</title></head><body><h1>{title}</h1>{body}</body></html>"


def home():
    links = "".join(f'<li><a href="/goods/{name}">{name}</a>: {price} crowns</li>' for name, price in GOODS.items())
    return page("Shop", f'<ul>{links}</ul><a href="/orders">Orders</a>')


def goods(name):
    form = f"""<p>{GOODS[name]} crowns</p><form method="post" action="/orders"><input type="hidden" name="goods" value="{name}">
      <label>Name <input name="who"></label> <label>Number <input name="count" value="1"></label> <button>Order</button></form>"""
    return page(name, form)


def all_orders():
    rows = "".join(f"<tr><td>{escape(who)}</td><td>{escape(count)}</td><td>{escape(what)}</td></tr>" for who, count, what in orders)
    return page("Orders", f'<table id="orders">{rows}</table>')


class Shop(BaseHTTPRequestHandler):
    def answer(self, text, status=200, **headers):
        self.send_response(status)
        for name, value in {"Content-Type": "text/html; charset=utf-8", **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text.encode())

    def do_GET(self):
        path = urlsplit(self.path).path
        name = path.removeprefix("/goods/")
        if path == "/":
            self.answer(home())
        elif path == "/orders":
            self.answer(all_orders())
        elif path != name and name in GOODS:
            self.answer(goods(name))
        else:
            self.answer(page("Not found", ""), 404)

    def do_POST(self):
        given = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        orders.append(tuple(given.get(name, [""])[0] for name in ("who", "count", "goods")))
        self.answer("", 303, Location="/orders")

    def log_message(self, *_):
        pass


ThreadingHTTPServer(("127.0.0.1", 7770), Shop).serve_forever()
