"""The versions of the documentation beside one another, each in a directory of its own, and the choice between them.

Every page of every version loads `versions.js` from above its version, so that old pages know of new versions. It is a
script and no data, because a page that is opened from a disk cannot fetch data.
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
    """For all versions that were built, the newest first; the front page leads to that one."""
    built = [path.name for path in site.iterdir() if _VERSION.fullmatch(path.name) and (path / "index.html").exists()]
    versions = sorted(built, key=lambda name: [int(part) for part in name.split(".")], reverse=True)
    (site / SCRIPT).write_text(_CHOOSER % json.dumps(versions))
    (site / "index.html").write_text(_NEWEST.format(versions[0]))
