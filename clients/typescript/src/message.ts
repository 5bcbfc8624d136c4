/**
 * One message of a device under local privacy, with the noise that the round asks for.
 *
 * What leaves this file is the message, whose bytes are a wire format: Python makes the same ones
 * from the same random bytes (confide/service/device/messages.py, ../vectors.json).
 *
 * Guarantee: a message is (epsilon, delta)-DP for what the person accepts, whatever the server
 * sends, or there is none. An index is epsilon-DP for arbitrary contributions. Additive noise is
 * not: this device computes from the tables how far apart two people's contributions can be.
 */
import { checkChannel, checkStatistic } from "./checks.js";
import {
  contribution,
  largest,
  sensitivity,
  type Episode,
  type Statistic,
} from "./contribution.js";
import { discreteGaussian, discreteLaplace, ratio } from "./discrete.js";
import { below, fromHex, type Take } from "./entropy.js";
import { PromiseBroken } from "./errors.js";
import { gaussianDelta, type Accepts } from "./promise.js";
import { drawIndex, type ReportNoise } from "./reports.js";

export interface AddedNoise {
  distribution: "gaussian" | "laplace";
  scale: number;
  /** Of the lattice: the grid of the contributions. */
  step: number;
}

/** How a device makes its message: part of the round document. */
export interface Channel {
  id: string;
  kind: "numbers" | "index";
  size: number;
  grid: number;
  source: string;
  noise: AddedNoise | ReportNoise;
}

/**
 * Rounding errors of an epsilon and of a delta, relative: two machines round differently, and error
 * functions more so. A matter of taste, far above what they are.
 */
const EPSILON_SLACK = 1e-9;
const DELTA_SLACK = 1e-6;
/**
 * The tables are rounded to the grid. So contributions may lie outside of the set that a report was
 * made for, by at most this relative size. This touches the accuracy alone.
 */
const RADIUS_SLACK = 2 ** -12;
/** Noise has smaller whole numbers than this one, as in Python. */
const NOISE_LIMIT = 1n << 62n;
const NONCE_BYTES = 16;
const HEADER_BYTES = 74;
/** "cfdm", and the version of the format. */
const MAGIC_AND_VERSION = [0x63, 0x66, 0x64, 0x6d, 3];

/** What a message answers: a round, by its digest, and the release from which it was planned. */
export interface AnsweredRound {
  generation: number;
  /** 64 hexadecimal digits. */
  round: string;
}

/**
 * The bytes that are sent for an episode. `PromiseBroken` if they would lose more than the person
 * accepts.
 */
export function messageOf(
  channel: Channel,
  statistic: Statistic | null,
  episode: Episode,
  answered: AnsweredRound,
  accepts: Accepts,
  take: Take,
): Uint8Array<ArrayBuffer> {
  const checkedChannel = checkChannel(channel);
  const tables = checkStatistic(statistic, checkedChannel);
  checkNoise(checkedChannel, tables, accepts);
  const steps = contribution(tables, checkedChannel, episode);
  return message(checkedChannel, steps, answered, take);
}

/**
 * The message of a contribution in whole steps of the grid. Of the random bytes the nonce takes the
 * first 16.
 */
export function message(
  channel: Channel,
  steps: readonly number[],
  answered: AnsweredRound,
  take: Take,
): Uint8Array<ArrayBuffer> {
  const nonce = take(NONCE_BYTES);
  const even = below(take);
  const { noise } = channel;
  if (noise.distribution === "codebook" || noise.distribution === "signs") {
    const values = Float64Array.from(steps, (step) => step * channel.grid);
    return messageBytes(answered, nonce, channel, [drawIndex(noise, values, nonce, even)]);
  }
  const draw = noise.distribution === "gaussian" ? discreteGaussian : discreteLaplace;
  const [above, under] = ratio(noise.scale / noise.step);
  const noisy = steps.map((step) => {
    const noiseSteps = draw(even, above, under);
    if (noiseSteps >= NOISE_LIMIT || noiseSteps <= -NOISE_LIMIT) {
      throw new RangeError("a draw of noise does not fit into 64 bits");
    }
    return Number(BigInt(step) + noiseSteps) * noise.step;
  });
  return messageBytes(answered, nonce, channel, noisy);
}

/**
 * Refuse noise that would lose more than the person accepts, whatever the tables are. Both have
 * been checked for what they are (checks.ts). Conditions are written so that NaN is refused.
 */
export function checkNoise(channel: Channel, statistic: Statistic, accepts: Accepts): void {
  const { noise, grid } = channel;
  const { epsilon, delta = 0 } = accepts;
  if (!(epsilon > 0 && delta >= 0 && delta < 1)) {
    throw new PromiseBroken(
      "what a person accepts must be a positive epsilon, and a delta below one",
    );
  }
  if (noise.distribution === "codebook" || noise.distribution === "signs") {
    const { coordinate, norm } = largest(statistic, grid);
    const contributionRadius = noise.distribution === "signs" ? coordinate : norm;
    if (contributionRadius > noise.radius * (1 + RADIUS_SLACK)) {
      throw new PromiseBroken(
        "the round's report is made for smaller contributions than those of its tables",
      );
    }
    if (!(noise.epsilon <= epsilon * (1 + EPSILON_SLACK))) {
      throw new PromiseBroken(
        `the round asks for epsilon=${noise.epsilon}, and this person accepts ${epsilon}`,
      );
    }
    return;
  }
  const keepsPromise =
    noise.distribution === "laplace"
      ? sensitivity(statistic, grid, 1) / noise.scale <= epsilon * (1 + EPSILON_SLACK)
      : gaussianKeeps(noise.scale, sensitivity(statistic, grid, 2), grid, epsilon, delta);
  if (!keepsPromise) {
    throw new PromiseBroken(
      `the round's noise does not keep epsilon=${epsilon}, delta=${delta} ` +
        "for what this device would send",
    );
  }
}

/**
 * Whether discrete Gaussian noise keeps (epsilon, delta). It is taken to be worth as much as
 * continuous noise whose scale is two steps smaller. This is not proved on paper: the exact profile
 * is computed in tests/mechanisms/test_additive.py (see confide/mechanisms/additive.py).
 */
function gaussianKeeps(
  scale: number,
  distance: number,
  grid: number,
  epsilon: number,
  delta: number,
): boolean {
  const continuousScale = scale - 2 * grid;
  if (!(continuousScale > 0)) return false;
  return gaussianDelta(epsilon, distance / continuousScale) <= delta * (1 + DELTA_SLACK);
}

function messageBytes(
  answered: AnsweredRound,
  nonce: Uint8Array,
  channel: Channel,
  values: number[],
): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(HEADER_BYTES + 8 * values.length);
  const view = new DataView(bytes.buffer);
  bytes.set([...MAGIC_AND_VERSION, channel.kind === "index" ? 1 : 0]);
  view.setBigUint64(6, BigInt(answered.generation));
  bytes.set(nonce, 14);
  bytes.set(fromHex(channel.id), 30);
  bytes.set(fromHex(answered.round), 38);
  view.setUint32(70, values.length);
  values.forEach((value, i) => view.setFloat64(HEADER_BYTES + 8 * i, value, true));
  return bytes;
}
