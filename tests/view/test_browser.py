"""The browser of the other tests draws, and errors in a page are reported."""

import numpy as np
import pytest


PAGE = """<body style="margin: 0"><canvas width=64 height=48></canvas><script>
const gl = document.querySelector("canvas").getContext("webgl2", {preserveDrawingBuffer: true});
gl.clearColor(1, 0, 0, 1);
gl.clear(gl.COLOR_BUFFER_BIT);
console.error("told");
setTimeout(() => { throw new Error("thrown"); });
</script>"""


@pytest.mark.browser
def test_a_page_is_seen(see, tmp_path):
    file = tmp_path / "page.html"
    file.write_text(PAGE)
    seen = see(file, (64, 48))
    seen.page.wait_for_timeout(100)
    picture = seen.picture()
    assert picture.shape == (48, 64, 3)
    np.testing.assert_array_equal(picture[24, 32], [255, 0, 0])
    assert seen.errors == ["told", "thrown"]
    assert seen.requests == [file.as_uri()]
