/** One message of a device under local privacy: the noise that the round asks for, if it keeps what the person accepts. */
import { checkChannel, checkStatistic } from "./checks.js";
import { contribution, largest, sensitivity, type Episode, type Statistic } from "./contribution.js";
import { discreteGaussian, discreteLaplace, ratio } from "./discrete.js";
import { below, fromHex, type Take } from "./entropy.js";
import { PromiseBroken } from "./errors.js";
import { gaussianDelta, type Accepts } from "./promise.js";
import { drawIndex, type ReportNoise } from "./reports.js";

export interface AddedNoise {
  distribution: "gaussian" | "laplace";
  scale: number;
  step: number; // of the lattice: the grid of the contributions
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

/** Of an epsilon and of a delta, relative: two machines round differently, and error functions more so. */
const ROUNDING = 1e-9;
const DELTA_ROUNDING = 1e-6;
/** The tables are rounded to the grid, so contributions may lie outside of the set that a report was made for by so much, relative. */
const OUTSIDE = 2 ** -12;
const LARGEST = 1n << 62n;
const HEADER = 74;

/** What a message answers: a round, by its digest, and the release from which it was planned. */
export interface AnsweredRound {
  generation: number;
  round: string; // 64 hexadecimal digits
}

/** The bytes that are sent for an episode. `PromiseBroken` if they would lose more than the person accepts. */
export function messageOf(
  channel: Channel,
  statistic: Statistic | null,
  episode: Episode,
  answered: AnsweredRound,
  accepts: Accepts,
  take: Take,
): Uint8Array<ArrayBuffer> {
  const checked = checkChannel(channel);
  const tables = checkStatistic(statistic, checked);
  checkNoise(checked, tables, accepts);
  return message(checked, contribution(tables, checked, episode), answered, take);
}

/** Of a contribution in whole steps of the grid. Of the random bytes the nonce takes the first 16. */
export function message(channel: Channel, steps: readonly number[], answered: AnsweredRound, take: Take): Uint8Array<ArrayBuffer> {
  const nonce = take(16);
  const even = below(take);
  const { noise } = channel;
  if (noise.distribution === "codebook" || noise.distribution === "signs") {
    const values = Float64Array.from(steps, (each) => each * channel.grid);
    return messageBytes(answered, nonce, channel, [drawIndex(noise, values, nonce, even)]);
  }
  const { step } = noise;
  const [above, under] = ratio(noise.scale / step);
  const sent = steps.map((each) => {
    const drawn = noise.distribution === "gaussian" ? discreteGaussian(even, above, under) : discreteLaplace(even, above, under);
    if (drawn >= LARGEST || drawn <= -LARGEST) throw new RangeError("a draw of noise does not fit into 64 bits");
    return Number(BigInt(each) + drawn) * step;
  });
  return messageBytes(answered, nonce, channel, sent);
}

/** Refuses noise that would lose more than the person accepts, whatever the tables are. Both have been checked for what they are. */
export function checkNoise(channel: Channel, statistic: Statistic, accepts: Accepts): void {
  const { noise, grid } = channel;
  const { epsilon, delta = 0 } = accepts;
  if (!(epsilon > 0 && delta >= 0 && delta < 1)) throw new PromiseBroken("what a person accepts must be a positive epsilon, and a delta below one");
  if (noise.distribution === "codebook" || noise.distribution === "signs") {
    const { coordinate, norm } = largest(statistic, grid);
    if ((noise.distribution === "signs" ? coordinate : norm) > noise.radius * (1 + OUTSIDE)) {
      throw new PromiseBroken("the round's report is made for smaller contributions than those of its tables");
    }
    if (!(noise.epsilon <= epsilon * (1 + ROUNDING))) {
      throw new PromiseBroken(`the round asks for epsilon=${noise.epsilon}, and this person accepts ${epsilon}`);
    }
    return;
  }
  const kept =
    noise.distribution === "laplace"
      ? sensitivity(statistic, grid, 1) / noise.scale <= epsilon * (1 + ROUNDING)
      : noise.scale > 2 * grid && gaussianDelta(epsilon, sensitivity(statistic, grid, 2) / (noise.scale - 2 * grid)) <= delta * (1 + DELTA_ROUNDING);
  if (!kept) throw new PromiseBroken(`the round's noise does not keep epsilon=${epsilon}, delta=${delta} for what this device would send`);
}

function messageBytes(answered: AnsweredRound, nonce: Uint8Array, channel: Channel, values: number[]): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(HEADER + 8 * values.length);
  const view = new DataView(bytes.buffer);
  bytes.set([0x63, 0x66, 0x64, 0x6d, 3, channel.kind === "index" ? 1 : 0]); // cfdm, version 3
  view.setBigUint64(6, BigInt(answered.generation));
  bytes.set(nonce, 14);
  bytes.set(fromHex(channel.id), 30);
  bytes.set(fromHex(answered.round), 38);
  view.setUint32(70, values.length);
  values.forEach((value, i) => view.setFloat64(HEADER + 8 * i, value, true));
  return bytes;
}
