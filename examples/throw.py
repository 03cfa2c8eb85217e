"""Optimizes the motion of an arm that throws a ball into a bin, within the limits of its motors. Writes a film."""

import sys

import rbd_jax as rbd
from rbd_jax.control import DDP, problems, solve


problem, _, guess = problems.load("arm7_throw")
found = solve(problem, DDP(max_iterations=3 if "--short" in sys.argv else 200), guess)
print(found)
path = rbd.rollout(problem.model, problem.state, found.control, dt=problem.dt)
rbd.view.plot_solution(problem, found, "throw.png")
rbd.save_video(problem.model, path, "throw.gif", size=(320, 240), fps=25, speed=0.5)
