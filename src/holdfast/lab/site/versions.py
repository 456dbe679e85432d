"""The versions of the documentation, each in its own directory, and the menu to switch between them.

Every page of every version loads `versions.js` from the directory above its version, so that old pages know about new
versions. It is a script instead of data, because a page opened from a disk cannot fetch data.
"""

import json
import re
from pathlib import Path

SCRIPT = "versions.js"
_VERSION = re.compile(r"\d+(\.\d+)*")
_CHOOSER = """\
const versions = %s;
const site = new URL(".", document.currentScript.src);
document.addEventListener("DOMContentLoaded", () => {
  const shown = location.href.slice(site.href.length).split("/")[0];
  const choice = document.createElement("select");
  choice.setAttribute("aria-label", "Version");
  choice.className = "md-select";
  choice.append(...versions.map((one) => new Option(one, one, false, one === shown)));
  choice.onchange = () => { location.href = new URL(`${choice.value}/index.html`, site).href; };
  document.querySelector(".md-header__title")?.after(choice);
});
"""
_NEWEST = '<!doctype html><title>Holdfast</title><meta http-equiv="refresh" content="0; url={0}/index.html">\n'


def write_chooser(site: Path) -> None:
    """Lists all versions that were built, the newest first, and makes the front page redirect to the newest."""
    built = [path.name for path in site.iterdir() if _VERSION.fullmatch(path.name) and (path / "index.html").exists()]
    versions = sorted(built, key=lambda name: [int(part) for part in name.split(".")], reverse=True)
    (site / SCRIPT).write_text(_CHOOSER % json.dumps(versions))
    (site / "index.html").write_text(_NEWEST.format(versions[0]))
