"""Private least-squares statistics of ten thousand users: releases, their noise, and a certificate.

python examples/statistics.py [FOLDER]
"""

import sys
from pathlib import Path

import numpy as np

import confide
from confide.mechanisms.sources import noise_source
from confide.privacy.certificate import certify
from confide.privatizers import CentralPrivatizer, geometric
from confide.statistics.bounds import RegressionRows

STEPS, DIMENSION, USERS = 4, 5, 10_000


def main(folder: Path) -> None:
    privacy = confide.JointDP(epsilon=1.0, delta=1e-5)
    # contributions are clipped to this bound
    bound = RegressionRows(STEPS, DIMENSION, nonnegative=True)
    schedule = geometric(USERS)
    world = np.random.default_rng(0)
    # the unknown weights, one vector per step
    truth = world.dirichlet(np.ones(DIMENSION), size=STEPS)
    # The data are simulated. For real people use noise_source("secure").
    privatizer = CentralPrivatizer(bound, schedule, privacy=privacy, noise=noise_source("fast", 1))

    print(f"{USERS:,} users, {schedule.leaves} releases, {privacy}")
    print(f"{'users':>8}  {'noise':>7}  {'signal':>8}  error of the released weights")
    before = 0
    for time in schedule.times:
        rows = np.sqrt(world.dirichlet(np.full(DIMENSION, 0.3), size=(time - before, STEPS)))
        targets = np.clip(
            np.einsum("uhd,hd->uh", rows, truth)
            + world.normal(0, 0.1, size=(time - before, STEPS)),
            0,
            1,
        )
        privatizer.absorb(bound.contribution(rows, targets))
        before = time
        released = privatizer.release()
        Lambda, u = bound.unpack(released.values)
        signal, basis = np.linalg.eigh(Lambda)
        # proportional to the noise, whose scale is public
        ridge = released.noise.std * np.sqrt(DIMENSION / 2) + 1
        solved = (basis.swapaxes(1, 2) @ u[..., None])[..., 0] / (np.maximum(signal, 0) + ridge)
        weights = (basis @ solved[..., None])[..., 0]
        print(
            f"{time:8,}  {released.noise.std:7.1f}  {signal[:, 0].mean():8.1f}  {np.abs(weights - truth).mean():.3f}"
        )

    guarantee = confide.billboard(privatizer.guarantee)
    folder.mkdir(parents=True, exist_ok=True)
    certify(
        guarantee, [privatizer.mechanism()], subject="least-squares statistics of the demo"
    ).save(folder / "certificate.json")
    print(f"\n{guarantee}\nThe certificate {folder / 'certificate.json'} can be verified:")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "statistics"))
