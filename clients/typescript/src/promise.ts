/** What a person accepts, against what a run promises. */
import { InvalidParameter, PromiseBroken } from "./errors.js";

/** What a person agrees to: a service that promises less is refused before anything is sent. */
export interface Accepts {
  epsilon: number;
  delta?: number;
  /** local: nobody but this device sees the data. */
  trust?: "joint" | "local";
  /** Whether fast noise is acceptable. */
  simulation?: boolean;
  /**
   * Between which inputs the outputs must be hard to tell apart. "null" compares a person's data
   * with no data. It is weaker than "replace", which compares them with any other person's, so
   * "null" also accepts "replace".
   */
  relation?: "replace" | "null";
}

export interface Manifest {
  format: string;
  run: string;
  title: string;
  simulation: boolean;
  promise: { trust: string; epsilon: number; delta: number; relation: string };
  problem: { name: string; horizon: number; [size: string]: unknown };
  users: number;
  releases: number;
  key: { public: string };
}

/** Programs without types may pass anything: a misspelt word must not mean the weaker choice. */
export function checkAccepts(accepts: Accepts): void {
  const { epsilon, delta = 0, trust = "joint", simulation = false, relation = "replace" } = accepts;
  if (typeof epsilon !== "number" || !(epsilon > 0)) {
    throw new InvalidParameter("epsilon must be a positive number");
  }
  if (typeof delta !== "number" || !(delta >= 0 && delta <= 1)) {
    throw new InvalidParameter("delta must be in [0, 1]");
  }
  if (trust !== "joint" && trust !== "local") {
    throw new InvalidParameter('trust must be "joint" or "local"');
  }
  if (typeof simulation !== "boolean") {
    throw new InvalidParameter("simulation must be true or false");
  }
  if (relation !== "replace" && relation !== "null") {
    throw new InvalidParameter('relation must be "replace" or "null"');
  }
}

export function checkPromise(manifest: Manifest, accepts: Accepts): void {
  checkAccepts(accepts);
  const { promise } = manifest;
  const { epsilon, delta = 0, trust = "joint", simulation = false, relation = "replace" } = accepts;
  if (!(promise.epsilon <= epsilon && promise.delta <= delta)) {
    throw new PromiseBroken(
      `the run promises epsilon=${promise.epsilon}, delta=${promise.delta}, ` +
        `and this person accepts epsilon=${epsilon}, delta=${delta}`,
    );
  }
  if (trust === "local" && promise.trust !== "local") {
    throw new PromiseBroken(
      "the run asks for raw data, and this person accepts local privacy only",
    );
  }
  if (relation === "replace" && promise.relation !== "replace") {
    throw new PromiseBroken(
      "the run's guarantee compares a person's data with no data at all, which is weaker than a " +
        "comparison with another person's data: whoever accepts it says so with " +
        'relation: "null"',
    );
  }
  if (manifest.simulation !== false && !simulation) {
    throw new PromiseBroken(
      "the run is a simulation: somebody who knows the seed can subtract its noise",
    );
  }
}

/**
 * The smallest delta for which mu-GDP implies (epsilon, delta)-DP: Phi(a) - e^epsilon Phi(b), a, b
 * = +-mu / 2 - epsilon / mu.
 */
export function gaussianDelta(epsilon: number, mu: number): number {
  if (mu === 0) return 0;
  const a = mu / 2 - epsilon / mu;
  const b = -mu / 2 - epsilon / mu;
  const density = Math.exp((-a * a) / 2) / Math.sqrt(2 * Math.PI);
  if (a <= 0) return density * (mills(-a) - mills(-b));
  const central = (erf(a / Math.SQRT2) + erf(-b / Math.SQRT2)) / 2;
  return central + density * mills(-b) * Math.expm1(-epsilon);
}

/** The Mills ratio Phi(-x) / phi(x), for x >= 0. */
function mills(x: number): number {
  return Math.sqrt(Math.PI / 2) * erfcx(x / Math.SQRT2);
}

function erf(x: number): number {
  return x < 1.5 ? erfSeries(x) : 1 - erfcx(x) * Math.exp(-x * x);
}

/** e^(x^2) erfc(x), for x >= 0: by the series of erf, or by the continued fraction of erfc. */
function erfcx(x: number): number {
  if (x < 1.5) return Math.exp(x * x) * (1 - erfSeries(x));
  let tail = x;
  for (let k = 200; k >= 1; k--) tail = x + k / 2 / tail;
  return 1 / (Math.sqrt(Math.PI) * tail);
}

function erfSeries(x: number): number {
  let term = x;
  let sum = x;
  for (let n = 1; n < 60; n++) {
    term *= (2 * x * x) / (2 * n + 1);
    sum += term;
  }
  return (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * sum;
}
