/** What this client refuses. Texts are about public things, never about somebody's data. */
export class ConfideError extends Error {
  override name = this.constructor.name;
}

/**
 * A signature, a digest or a chain of releases is not what it should be: the service shows two
 * faces, or an older one.
 */
export class SignatureError extends ConfideError {}

/** The run promises less than the person accepts. */
export class PromiseBroken extends ConfideError {}

/**
 * The release that the report was planned with is closed, or the report answers another round. It
 * was not counted, and is not sent again.
 */
export class LateReport extends ConfideError {}

/**
 * What the service sent is not what its format says. Nothing of it is used, and nothing is sent.
 */
export class InvalidDocument extends ConfideError {}

/** The step or the state of an action does not exist. */
export class InvalidIndex extends ConfideError {}

/** What the program passed to this client is not what its documentation asks for. */
export class InvalidParameter extends ConfideError {}

/** This client cannot do what the run asks for. */
export class Unsupported extends ConfideError {}

/** The store holds something else than the state of this person's device in this run. */
export class StoreError extends ConfideError {}

/**
 * By status and kind. A report that is refused in one of these ways is refused again whenever the
 * same bytes are sent. Other refusals depend on things that may change, such as the API key, the
 * people who are enrolled, and proxies on the way. Python has the same list.
 */
const FINAL_REFUSALS: readonly string[] = [
  "400 invalid",
  "403 over-budget",
  "409 another-report",
  "413 too-large",
];

export function isFinalRefusal(refused: unknown): refused is [number, string] {
  if (!Array.isArray(refused) || refused.length !== 2) return false;
  const [status, kind] = refused as unknown[];
  if (typeof status !== "number" || typeof kind !== "string") return false;
  return FINAL_REFUSALS.includes(`${status} ${kind}`);
}

/**
 * The service answered with an error that a retry does not mend, or could not be reached (status
 * 0).
 */
export class ServiceRefused extends ConfideError {
  constructor(
    readonly status: number,
    readonly kind: string,
  ) {
    super(
      status
        ? `the service answered ${status}: ${kind}`
        : `the service cannot be reached: ${kind}`,
    );
  }
}
