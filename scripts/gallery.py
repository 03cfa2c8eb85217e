"""Runs the programs of examples/ and makes a gallery of their output: `python scripts/gallery.py [NAME ...]`.

The gallery shows four frames of each film.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image


ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "images" / "examples"

#: Number of frames per film, and their size in pixels.
MOMENTS, SIZE = 4, (240, 180)


def strip_of(film: Path) -> Image.Image:
    """Returns some frames of a film, side by side."""
    frames, strip = Image.open(film), Image.new("RGB", (MOMENTS * SIZE[0], SIZE[1]))
    count = getattr(frames, "n_frames", 1)
    for place, number in enumerate(np.linspace(0, count - 1, MOMENTS).astype(int).tolist()):
        frames.seek(number)
        strip.paste(frames.convert("RGB").resize(SIZE, Image.Resampling.LANCZOS), (place * SIZE[0], 0))
    return strip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="programs to run (default: all)")
    wanted = parser.parse_args().names or sorted(path.stem for path in (ROOT / "examples").glob("*.py"))
    PICTURES.mkdir(parents=True, exist_ok=True)
    for name in wanted:
        with tempfile.TemporaryDirectory() as folder:
            begin = time.perf_counter()
            subprocess.run([sys.executable, ROOT / "examples" / f"{name}.py"], cwd=folder, check=True)
            strip = strip_of(Path(folder, f"{name}.gif")).quantize(128, dither=Image.Dither.NONE)
            strip.save(PICTURES / f"{name}.png", optimize=True)
            print(f"{name}: {time.perf_counter() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    main()
