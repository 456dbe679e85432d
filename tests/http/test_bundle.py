"""Modules as one file: what the bundler understands, and that it refuses the rest."""

import shutil
import subprocess
from pathlib import Path

import pytest

from holdfast.http.web.bundle import CannotBundle, bundle_scripts, bundle_styles

MODULES = {
    "app/main.js": b"""/** Starts. */
import { add, LIMIT as most } from "./sums.js";
import * as paths from "../paths.mjs";
import words from "./words.js";
import { twice } from "../index.js";
console.log(JSON.stringify([add(1, 2), most, paths.one(3), words.hello, twice(4)]));
""",
    "app/sums.js": b"""// Sums.
export const LIMIT = 9;
export function add(a, b) {
  // Inside.
  return a + b; // After code: kept.
}
""",
    "app/words.js": b'export default {\n  hello: "import me, export me",\n};\n',
    "app/double.mjs": b"function d(n){return 2*n}export{d as twice};\n",
    "index.js": b'export { twice } from "./app/double.mjs";\n',
    "paths.mjs": b"const part = String;\nexport const one = (n) => `/${part(n)}`;\nexport const unused = 1;\n",
}


@pytest.mark.slow  # Node is there for `make test-all`.
def test_every_form_of_import_and_export_that_our_modules_use_works(tmp_path: Path) -> None:
    node = shutil.which("node")
    bundle = bundle_scripts("app/main.js", MODULES, "paths.mjs")
    assert "Starts." not in bundle
    assert "unused = 1" not in bundle
    if node is None:
        pytest.fail("this test needs Node: `make node` installs it (apt-get install nodejs)")
    (tmp_path / "bundle.mjs").write_text(bundle)
    command = [node, str(tmp_path / "bundle.mjs")]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    assert said.strip() == '[3,9,"/3","import me, export me",8]'


def test_a_module_finds_what_is_beside_it_where_it_was() -> None:
    bundle = bundle_scripts("a/b.js", {"a/b.js": b'new Worker(new URL("./w.js", import.meta.url));'})
    assert 'new URL("./w.js", new URL("/assets/a/b.js", import.meta.url).href)' in bundle


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"main.js": b'import { a } from "./main.js";'}, "cycle"),
        ({"main.js": b'import { a } from "./other.js";'}, "does not exist"),
        ({"main.js": b'import a, { b } from "./main2.js";'}, "cannot be bundled"),
        ({"main.js": b'export * from "./main2.js";'}, "cannot be bundled"),
        ({"main.js": b'const a = await import("./main2.js");'}, "cannot be bundled"),
    ],
)
def test_what_it_does_not_understand_is_refused(files: dict[str, bytes], reason: str) -> None:
    with pytest.raises(CannotBundle, match=reason):
        bundle_scripts("main.js", files)


def test_styles_are_joined_without_their_comments() -> None:
    files = {"a.css": b"/* One. */\n:root {\n  --a: 1;\n}\n", "b.css": b"b {\n  c: d;\n}\n"}
    assert bundle_styles(["a.css", "b.css"], files) == ":root {\n--a: 1;\n}\nb {\nc: d;\n}\n"
