# SPDX-License-Identifier: MIT
"""check_page.py FILE: the page is well-formed HTML, needs nothing but itself, and has no scripts."""
import re
import sys
from html.parser import HTMLParser

VOID = {"meta", "br", "img", "link", "hr", "input"}


class Page(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.names, self.tags, self.wrong = [], [], {}, []

    def look(self, tag, attributes):
        self.tags[tag] = self.tags.get(tag, 0) + 1
        for key, value in attributes:
            if key == "id":
                self.names.append(value)
            if key.startswith("on") or (key in ("src", "href", "xlink:href")
                                        and not value.startswith("#")):
                self.wrong.append(f"{tag} has {key}={value}")

    def handle_starttag(self, tag, attrs):
        self.look(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.look(tag, attrs)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"</{tag}> at {self.getpos()}")


page = Page()
with open(sys.argv[1], encoding="utf-8") as file:
    text = file.read()
page.feed(text)
page.close()
wrong = page.wrong + [f"<{tag}> is not closed" for tag in page.open]
wrong += [f"<{tag}> is there" for tag in ("script", "iframe", "object", "b", "i")
          if tag in page.tags]
wrong += ["a name is there twice"] if len(page.names) != len(set(page.names)) else []
wrong += [f"no name {name}" for name in re.findall(r"href=['\"]#([^'\"]*)", text)
          if name not in page.names]
wrong += ["something is loaded"] if re.search(r"url\((?!#)|@import", text) else []
print(page.tags.get("figure", 0), "figures", page.tags.get("table", 0), "tables")
sys.exit("\n".join(wrong[:10]) if wrong else 0)
