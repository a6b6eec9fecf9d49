"""Makes the pictures of docs/preview.md and docs/panel.md from the real pages: python docs/examples/pictures.py.

Needs Chromium, and for the UR5 the test extra (example-robot-data).
"""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path

from PIL import Image

from ros2_dynid.usecases.plan import PlanRequest, Surroundings, plan
from ros2_dynid.usecases.preview import PreviewRequest, preview
from ros2_dynid.usecases.robot_source import RobotSource

IMAGES = Path(__file__).parents[1] / "images"
MOST_BYTES = 200_000


def small(picture: bytes, target: Path) -> None:
    """Write a PNG with as many colours as MOST_BYTES allow."""
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    for colours in (256, 128, 64, 32):
        out = io.BytesIO()
        image.quantize(colours, dither=Image.Dither.NONE).save(out, "PNG", optimize=True)
        if out.tell() < MOST_BYTES:
            break
    target.write_bytes(out.getvalue())
    print(f"{target.name}: {out.tell() // 1000} kB")


def ur5() -> str:
    """Return the URDF of the UR5 of example-robot-data."""
    import pinocchio

    share = Path(pinocchio.__file__).parents[4] / "share"
    return str(share / "example-robot-data/robots/ur_description/urdf/ur5_robot.urdf")


def previews() -> None:
    """Plan a motion of a UR5 above a floor, and take pictures of its preview in a wide and a narrow window."""
    robot, around = RobotSource(ur5()), Surroundings(floor=-0.08)
    with tempfile.TemporaryDirectory() as folder:
        file, picture = f"{folder}/plan.yaml", f"{folder}/picture.png"
        start = (0.0, -1.4, 1.2, -1.2, 0.0, 0.0)
        plan(PlanRequest(robot, file, max_position=3.0, start=start, surroundings=around, time_budget=15.0, seed=2))
        for name, width, height in (("preview", 1280, 800), ("preview_narrow", 500, 900)):
            preview(PreviewRequest(file, robot, around, screenshot=picture, width=width, height=height))
            small(Path(picture).read_bytes(), IMAGES / f"{name}.png")


if __name__ == "__main__":
    previews()
    sys.exit(0)
