"""Private least-squares statistics of ten thousand users: releases, their noise, and a certificate.

python examples/statistics.py [FOLDER]
"""

import sys
from pathlib import Path

import numpy as np

import confide
from confide.mechanisms.sources import noise_source
from confide.privacy.bounded import Released
from confide.privacy.certificate import certify
from confide.privatizers import CentralPrivatizer, geometric
from confide.statistics.bounds import RegressionRows

STEPS = 4
DIMENSION = 5
USERS = 10_000


def solve_ridge(bound: RegressionRows, released: Released) -> tuple[np.ndarray, float]:
    """Return the weights [step, feature], and the mean of the smallest eigenvalues as the signal.

    This is post-processing of a release, so it costs no privacy.
    """
    gram, responses = bound.unpack(released.values)
    eigenvalues, basis = np.linalg.eigh(gram)
    # The ridge is proportional to the noise, whose scale is public.
    ridge = released.noise.std * np.sqrt(DIMENSION / 2) + 1
    rotated_responses = (basis.swapaxes(1, 2) @ responses[..., None])[..., 0]
    coordinates = rotated_responses / (np.maximum(eigenvalues, 0) + ridge)
    weights = (basis @ coordinates[..., None])[..., 0]
    return weights, float(eigenvalues[:, 0].mean())


def main(folder: Path) -> None:
    privacy = confide.JointDP(epsilon=1.0, delta=1e-5)
    # Contributions are clipped to this bound.
    bound = RegressionRows(STEPS, DIMENSION, nonnegative=True)
    schedule = geometric(USERS)
    rng = np.random.default_rng(0)
    # The unknown weights that the statistics estimate: [step, feature].
    true_weights = rng.dirichlet(np.ones(DIMENSION), size=STEPS)
    # The data are simulated. For real people use noise_source("secure").
    privatizer = CentralPrivatizer(bound, schedule, privacy=privacy, noise=noise_source("fast", 1))

    print(f"{USERS:,} users, {schedule.leaves} releases, {privacy}")
    print(f"{'users':>8}  {'noise':>7}  {'signal':>8}  error of the released weights")
    users_before = 0
    # Each time is a number of users after which there is a release.
    for users in schedule.times:
        shape = (users - users_before, STEPS)
        # One row of features and one target for each user and step.
        rows = np.sqrt(rng.dirichlet(np.full(DIMENSION, 0.3), size=shape))
        exact_targets = np.einsum("uhd,hd->uh", rows, true_weights)
        targets = np.clip(exact_targets + rng.normal(0, 0.1, size=shape), 0, 1)
        privatizer.absorb(bound.contribution(rows, targets))
        users_before = users
        released = privatizer.release()
        weights, signal = solve_ridge(bound, released)
        error = np.abs(weights - true_weights).mean()
        print(f"{users:8,}  {released.noise.std:7.1f}  {signal:8.1f}  {error:.3f}")

    guarantee = confide.billboard(privatizer.guarantee)
    folder.mkdir(parents=True, exist_ok=True)
    certificate_file = folder / "certificate.json"
    certificate = certify(
        guarantee, [privatizer.mechanism()], subject="least-squares statistics of the demo"
    )
    certificate.save(certificate_file)
    print(f"\n{guarantee}")
    print(f"To check the certificate, run: confide verify {certificate_file}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "statistics"))
