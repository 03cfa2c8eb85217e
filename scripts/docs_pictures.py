"""Draws the conventions: `python scripts/docs_pictures.py` writes docs/images/convention_*.svg."""

from pathlib import Path


IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"

INK, X, Y, Z, BODY, ACCENT = "#5b6473", "#d1495b", "#2e933c", "#2b6cb0", "#9fb3c8", "#e08e0b"


def text(x, y, words, color=INK, size=15, anchor="middle", style=""):
    return f'<text x="{x}" y="{y}" fill="{color}" font-size="{size}" text-anchor="{anchor}" {style}>{words}</text>'


def arrow(x0, y0, x1, y1, color=INK, width=2.5, dashed=False):
    dash = ' stroke-dasharray="5 4"' if dashed else ""
    return (
        f'<line x1="{x0}" y1="{y0}" x2="{x1}" y2="{y1}" stroke="{color}" stroke-width="{width}"{dash} '
        f'marker-end="url(#{color[1:]})"/>'
    )


def turn(x, y, radius, color=INK, label=""):
    """Returns a circular arrow for a rotation about the axis that points out of the page."""
    a, b = x + radius, y
    return (
        f'<path d="M {a} {b} A {radius} {radius} 0 1 0 {x} {y + radius}" fill="none" stroke="{color}" stroke-width="2.5" '
        f'marker-end="url(#{color[1:]})"/>' + text(x - radius - 8, y - radius + 2, label, color, anchor="end")
    )


def axes(x, y, length, name, tilt=(1.0, 0.0)):
    """Returns two axes of a frame in the page, and its name."""
    c, s = tilt
    return "".join(
        (
            arrow(x, y, x + length * c, y - length * s, X),
            arrow(x, y, x - length * s, y - length * c, Z),
            f'<circle cx="{x}" cy="{y}" r="4" fill="{INK}"/>',
            text(x + (length + 14) * c, y - (length + 14) * s + 5, "x", X),
            text(x - (length + 14) * s, y - (length + 14) * c + 5, "z", Z),
            text(x + 8, y + 26, name),
        )
    )


def box(x, y, width, height, angle):
    return (
        f'<rect x="{-width / 2}" y="{-height / 2}" width="{width}" height="{height}" rx="8" fill="{BODY}" fill-opacity="0.35" '
        f'stroke="{BODY}" transform="translate({x} {y}) rotate({angle})"/>'
    )


def picture(name, width, height, *parts):
    markers = "".join(
        f'<marker id="{color[1:]}" viewBox="0 0 10 10" refX="8" refY="5" markerWidth="7" markerHeight="7" '
        f'orient="auto-start-reverse"><path d="M 0 0 L 10 5 L 0 10 z" fill="{color}"/></marker>'
        for color in (INK, X, Y, Z, ACCENT)
    )
    content = "".join(parts)
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="sans-serif"><defs>{markers}</defs>{content}</svg>\n'
    )
    (IMAGES / f"convention_{name}.svg").write_text(svg, encoding="utf-8")


def frames():
    tilt = (0.866, 0.5)
    picture(
        "frames",
        620,
        260,
        axes(70, 210, 70, "world"),
        box(400, 110, 190, 80, -30),
        axes(340, 145, 70, "body", tilt),
        arrow(70, 210, 332, 148, ACCENT, dashed=True),
        text(190, 165, "position", ACCENT),
        f'<circle cx="455" cy="78" r="5" fill="{ACCENT}"/>',
        text(468, 74, "P", ACCENT, anchor="start"),
        text(310, 30, "x_world = rotation · x_body + position", INK, 16),
        text(440, 236, "the columns of rotation are the body's axes", INK, 13),
    )


def twist():
    picture(
        "twist",
        620,
        240,
        box(190, 120, 230, 90, -20),
        turn(190, 120, 34, ACCENT, "ω"),
        f'<circle cx="190" cy="120" r="4" fill="{INK}"/>',
        text(186, 146, "O"),
        arrow(190, 120, 300, 66, Y),
        text(312, 60, "v", Y, 17, "start"),
        text(400, 70, "v = [ω; v]", INK, 18, "start"),
        text(400, 100, "ω: how it turns", ACCENT, 14, "start"),
        text(400, 124, "v: the velocity of its origin O", Y, 14, "start"),
        text(400, 148, "both in the body's own axes,", INK, 14, "start"),
        text(400, 170, "angular part first", INK, 14, "start"),
    )


def wrench():
    picture(
        "wrench",
        620,
        250,
        axes(90, 200, 60, "world"),
        box(380, 100, 180, 80, 15),
        arrow(340, 92, 450, 40, Y),
        text(462, 36, "f", Y, 17, "start"),
        f'<circle cx="340" cy="92" r="5" fill="{Y}"/>',
        text(340, 118, "P", INK),
        arrow(90, 200, 332, 96, ACCENT, dashed=True),
        text(205, 130, "p", ACCENT, 16),
        text(400, 190, "f_ext = [p × f; f]", INK, 18, "start"),
        text(400, 216, "in the world's axes, about its origin", INK, 14, "start"),
    )


def joint():
    picture(
        "joint",
        700,
        270,
        box(140, 190, 220, 70, 0),
        axes(70, 195, 55, "parent"),
        arrow(70, 195, 232, 152, INK, dashed=True),
        text(150, 150, "placement", INK, 14),
        axes(240, 150, 55, "joint, q = 0"),
        box(430, 92, 260, 60, -30),
        axes(300, 150, 62, "", (0.866, 0.5)),
        text(330, 180, "body", INK),
        turn(300, 150, 26, ACCENT, ""),
        text(300, 100, "q", ACCENT, 18),
        text(450, 205, "transform(q) places the body in the joint frame,", INK, 14),
        text(450, 228, "placement that in its parent", INK, 14),
    )


if __name__ == "__main__":
    for draw in (frames, twist, wrench, joint):
        draw()
