/** One message of a device under local privacy: the noise that the round asks for, if it keeps what the person accepts. */
import { contribution, sensitivity, type Episode, type Statistic } from "./contribution.js";
import { discreteGaussian, discreteLaplace, ratio } from "./discrete.js";
import { below, fromHex, type Take } from "./entropy.js";
import { PromiseBroken, Unsupported } from "./errors.js";
import { gaussianDelta, type Accepts } from "./promise.js";
import { checkReport, drawIndex, type ReportNoise } from "./reports.js";

export interface AddedNoise {
  distribution: "gaussian" | "laplace";
  scale: number;
  step: number | null; // of the lattice; null: on the reals, which are for simulations
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

const ROUNDING = 1e-6; // of a delta, relative: two machines' error functions
const LARGEST = 1n << 62n;
const HEADER = 42;

/** The bytes that are sent for an episode. `PromiseBroken` if they would lose more than the person accepts. */
export function messageOf(
  channel: Channel,
  statistic: Statistic | null,
  episode: Episode,
  generation: number,
  accepts: Accepts,
  take: Take,
): Uint8Array<ArrayBuffer> {
  checkNoise(channel, statistic, accepts);
  return message(channel, contribution(statistic, channel, episode), generation, take);
}

/** Of a contribution in whole steps of the grid. Of the random bytes the nonce takes the first 16. */
export function message(channel: Channel, steps: readonly number[], generation: number, take: Take): Uint8Array<ArrayBuffer> {
  const nonce = take(16);
  const even = below(take);
  const { noise } = channel;
  if (noise.distribution === "codebook" || noise.distribution === "signs") {
    const values = Float64Array.from(steps, (each) => each * channel.grid);
    return messageBytes(generation, nonce, channel, [drawIndex(noise, values, nonce, even)]);
  }
  const step = noise.step!;
  const [above, under] = ratio(noise.scale / step);
  const sent = steps.map((each) => {
    const drawn = noise.distribution === "gaussian" ? discreteGaussian(even, above, under) : discreteLaplace(even, above, under);
    if (drawn >= LARGEST || drawn <= -LARGEST) throw new RangeError("a draw of noise does not fit into 64 bits");
    return Number(BigInt(each) + drawn) * step;
  });
  return messageBytes(generation, nonce, channel, sent);
}

/** Refuses noise that would lose more than the person accepts, whatever tables the server has sent. */
export function checkNoise(channel: Channel, statistic: Statistic | null, accepts: Accepts): void {
  const { noise } = channel;
  const { epsilon, delta = 0 } = accepts;
  const index = noise.distribution === "codebook" || noise.distribution === "signs";
  if (channel.kind !== (index ? "index" : "numbers")) throw new Unsupported("the round's channel contradicts itself");
  if (noise.distribution === "codebook" || noise.distribution === "signs") {
    checkReport(noise, channel.size);
    if (noise.epsilon > epsilon) {
      throw new PromiseBroken(`the round asks for epsilon=${noise.epsilon}, and this person accepts ${epsilon}`);
    }
    return;
  }
  if (!["gaussian", "laplace"].includes(noise.distribution) || statistic === null) {
    throw new Unsupported(`this client adds no ${noise.distribution} noise`);
  }
  if (noise.step === null || noise.step !== channel.grid || !(noise.step > 0)) {
    throw new Unsupported("this client adds noise on the grid of the contributions alone");
  }
  const kept =
    noise.distribution === "laplace"
      ? sensitivity(statistic, channel.grid, 1) / noise.scale <= epsilon
      : noise.scale > 2 * noise.step &&
        gaussianDelta(epsilon, sensitivity(statistic, channel.grid, 2) / (noise.scale - 2 * noise.step)) <= delta * (1 + ROUNDING);
  if (!kept) throw new PromiseBroken(`the round's noise does not keep epsilon=${epsilon}, delta=${delta} for what this device would send`);
}

function messageBytes(generation: number, nonce: Uint8Array, channel: Channel, values: number[]): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(HEADER + 8 * values.length);
  const view = new DataView(bytes.buffer);
  bytes.set([0x63, 0x66, 0x64, 0x6d, 2, channel.kind === "index" ? 1 : 0]); // cfdm, version 2
  view.setBigUint64(6, BigInt(generation));
  bytes.set(nonce, 14);
  bytes.set(fromHex(channel.id), 30);
  view.setUint32(38, values.length);
  values.forEach((value, i) => view.setFloat64(HEADER + 8 * i, value, true));
  return bytes;
}
