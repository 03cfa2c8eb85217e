"""Text on pictures."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np

from .._core.errors import missing_package
from .._core.figures import ALARM


def stamped(picture: np.ndarray, text: str) -> np.ndarray:
    """Returns the picture with a line of text at the bottom, white on the color of failures, in the largest size that fits."""
    from PIL import Image, ImageDraw

    image = Image.fromarray(picture)
    draw = ImageDraw.Draw(image)
    width, height = image.size
    size = max(8, min(height // 22, 40))
    while size > 8 and draw.textlength(text, font=_font(size)) > 0.94 * width:
        size -= 1
    tall = round(1.9 * size)
    draw.rectangle((0, height - tall, width, height), fill=ALARM)
    draw.text((width / 2, height - tall / 2), text, fill=(255, 255, 255), font=_font(size), anchor="mm")
    return np.asarray(image)


@lru_cache
def _font(size: int):
    """Returns the font of the figures, which is part of matplotlib."""
    try:
        import matplotlib
        from PIL import ImageFont
    except ImportError:
        raise missing_package("matplotlib", "pictures") from None

    return ImageFont.truetype(Path(matplotlib.get_data_path(), "fonts", "ttf", "DejaVuSans.ttf"), size)
