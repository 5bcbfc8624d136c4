/** A person takes part in a run by hand: join, do what the policy says, write down what happened, report once. */
import { Device, IndexedDBStore, LateReport, ServiceRefused, type Accepts, type DeviceOptions } from "../src/index.js";

type Choices = Omit<DeviceOptions, "store">;

const CHOICES = "confide choices"; // what the form said, for a reload
const find = <T extends HTMLElement>(id: string) => document.getElementById(id) as T;
const say = (text: string) => (find("status").textContent = text);

let device: Device | null = null;
let episode = { states: [] as number[], actions: [] as number[], rewards: [] as number[] };

function deviceOf(choices: Choices): Device {
  return new Device({ ...choices, store: new IndexedDBStore(`${choices.url} ${choices.run} ${choices.subject}`) });
}

/** Send what is stored. The network may be away for long: the report stays where it is. */
async function send(work: () => Promise<string | null>): Promise<void> {
  say("Sending…");
  try {
    const outcome = await work();
    say(outcome === "counted" ? "Your report was counted." : "The service had your report already.");
  } catch (error) {
    if (error instanceof LateReport) say("Your report came too late and was not counted.");
    else if (error instanceof ServiceRefused && !(await device!.pending())) say(`Your report was not counted, and cannot be: ${(error as Error).message}`);
    else say(`Your report is stored on this device, and waits: ${(error as Error).message}`);
  }
}

async function join(choices: Choices): Promise<void> {
  device = deviceOf(choices);
  try {
    if (await device.pending()) return await again(device);
    const { generation } = await device.join();
    const { promise, simulation } = device.manifest!;
    const who = promise.trust === "local" ? "This device adds noise before anything leaves it" : "The service sees your episode, and adds noise to what it publishes";
    find("promise").textContent = `${simulation ? "SIMULATION. " : ""}${who}: epsilon=${promise.epsilon}, delta=${promise.delta}. Release ${generation}.`;
    find("join").hidden = true;
    find("episode").hidden = false;
    episode = { states: [0], actions: [], rewards: [] };
    advise();
  } catch (error) {
    say((error as Error).message);
  }
}

function advise(): void {
  const action = device!.act(episode.actions.length, episode.states.at(-1)!) as number;
  episode.actions.push(action);
  find("advice").textContent = `Step ${episode.actions.length}: you are in state ${episode.states.at(-1)}. Take action ${action}.`;
}

find<HTMLFormElement>("join").addEventListener("submit", (event) => {
  event.preventDefault();
  const said = new FormData(event.target as HTMLFormElement);
  const text = (name: string) => String(said.get(name));
  const accepts: Accepts = {
    epsilon: Number(text("epsilon")),
    delta: Number(text("delta")),
    trust: text("trust") as "joint" | "local",
    simulation: said.has("simulation"),
  };
  const choices = { url: text("url"), run: text("run"), subject: text("subject"), apiKey: text("apiKey"), accepts };
  sessionStorage.setItem(CHOICES, JSON.stringify(choices));
  void join(choices);
});

find<HTMLFormElement>("step").addEventListener("submit", (event) => {
  event.preventDefault();
  const said = new FormData(event.target as HTMLFormElement);
  episode.states.push(Number(said.get("state")));
  episode.rewards.push(Number(said.get("reward")));
  if (episode.actions.length < Number(device!.manifest!.problem["horizon"])) return advise();
  find("episode").hidden = true;
  void send(() => device!.report(episode));
});

/** After a reload in mid-send, and when the network is back. */
async function again(known: Device | null): Promise<void> {
  if (known !== null && (await known.pending())) await send(() => known.resume());
}

window.addEventListener("online", () => void again(device));
const before = sessionStorage.getItem(CHOICES);
if (before !== null) void again((device = deviceOf(JSON.parse(before) as Choices)));
