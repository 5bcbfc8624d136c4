import { Device } from "../src/index.js"; // "@confide/client" in an app
import { FileStore } from "../src/node.js"; // "@confide/client/node"

const [url = "", run = "", subject = "", apiKey = ""] = process.argv.slice(2);
const device = new Device({
  url,
  run,
  subject,
  apiKey,
  accepts: { epsilon: 4, delta: 1e-5, trust: "local" },
  store: new FileStore(`device-${run}.json`),
});

if (!(await device.pending())) {
  await device.join(); // verifies signatures and the promise, or throws
  const horizon = Number(device.manifest!.problem["horizon"]);
  const episode = { states: [0], actions: [] as number[], rewards: [] as number[] };
  for (let step = 0; step < horizon; step++) {
    const action = device.act(step, episode.states[step]!) as number;
    const { state, reward } = world(step, episode.states[step]!, action);
    episode.states.push(state);
    episode.actions.push(action);
    episode.rewards.push(reward);
  }
  console.log(await device.report(episode)); // stored before it is sent: counted, or same
} else {
  console.log(await device.resume()); // after a crash: the same bytes
}

/** What happens to the person: your app knows. */
function world(_step: number, state: number, action: number): { state: number; reward: number } {
  return { state: action === 1 ? Math.min(state + 1, 3) : 0, reward: 0 };
}
