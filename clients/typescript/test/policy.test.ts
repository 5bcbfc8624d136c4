import { expect, test } from "vitest";
import { InvalidIndex } from "../src/errors.js";
import { act, type Policy } from "../src/policy.js";
import { stream } from "./vectors.js";

const policies: Policy[] = [
  { kind: "tabular", actions: [[1, 0]], choices: 2 },
  { kind: "stochastic", weights: [[[1, 0], [0, 1]]] },
];

test.each(policies)("$kind: a step or a state that does not exist has no action", (policy) => {
  for (const [step, state] of [[0, -1], [-1, 0], [0, 2], [1, 0], [0, 0.5]] as const) {
    expect(() => act(policy, step, state, stream("AAAAAAAAAAAA"))).toThrow(InvalidIndex);
  }
});
