"""A private recommender: which of ten articles to show to whom. Nobody's reading habits can be read off what it learns.

python examples/recommender.py [--quick]
"""

import sys

import confide

readers = 10_000 if "--quick" in sys.argv else 100_000
# readers of six groups; your own: LinearBandit(parameter, contexts)
world = confide.problems.news(seed=0)
private = confide.JointDP(epsilon=1.0, delta=1e-5)

recommender = confide.agents.LinTS(world.public, episodes=readers, privacy=private)
run = confide.run(recommender, world, seed=0)

print(f"{readers} readers, {run.guarantee}")
print(
    f"clicks per reader: {world.uniform_value:.3f} at random, {world.value(run.policy):.3f} learned, {world.optimal_value:.3f} at best"
)
contexts = world.contexts[0]  # of one reader, on the reader's own device
print(f"this reader gets article {run.policy.choose(contexts)}")
run.certificate.save("certificate.json")
