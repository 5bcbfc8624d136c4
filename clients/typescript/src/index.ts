/** A user's side of a confide service, for browsers and Node. */
export { Device, type DeviceOptions, type Outcome, type Round } from "./device.js";
export {
  ConfideError,
  InvalidDocument,
  InvalidIndex,
  InvalidParameter,
  LateReport,
  PromiseBroken,
  ServiceRefused,
  SignatureError,
  StoreError,
  Unsupported,
} from "./errors.js";
export { checkRound, parseJson, ROUND_FORMAT } from "./checks.js";
export { contribution, type Episode, type Statistic } from "./contribution.js";
export { message, messageOf, type AnsweredRound, type Channel } from "./message.js";
export { act, drawnPolicy, type Policy, type RoundDocument } from "./policy.js";
export { gaussianDelta, type Accepts, type Manifest } from "./promise.js";
export { IndexedDBStore, LocalStorageStore, MemoryStore, type Store } from "./store.js";
