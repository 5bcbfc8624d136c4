"""A private recommender: it learns which of ten articles to show to whom.

python examples/recommender.py [--quick]

The guarantee is joint privacy: nobody can read the habits of one reader off what the recommender
shows to all other readers, or off the policy and the certificate that it publishes.
"""

import sys

import confide

readers = 10_000 if "--quick" in sys.argv else 100_000
# The simulated readers belong to six groups. For your own readers, build a
# confide.problems.LinearBandit(parameter, contexts).
problem = confide.problems.news(seed=0)
privacy = confide.JointDP(epsilon=1.0, delta=1e-5)

recommender = confide.agents.LinTS(problem.public, episodes=readers, privacy=privacy)
run = confide.run(recommender, problem, seed=0)

print(f"{readers} readers, {run.guarantee}")
print(
    f"clicks per reader: {problem.uniform_value:.3f} with uniform play, "
    f"{problem.value(run.policy):.3f} learned, {problem.optimal_value:.3f} at best"
)
# The contexts of one reader stay on the reader's own device, which chooses the article.
contexts = problem.contexts[0]
print(f"this reader gets article {run.policy.choose(contexts)}")
run.certificate.save("certificate.json")
