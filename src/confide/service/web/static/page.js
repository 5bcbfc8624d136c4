// A page that is open follows the releases: it asks for itself again, with the tag that it has, and is replaced where something is new.
"use strict";

const main = document.querySelector("main[data-live]");
const EVERY = 2000; // milliseconds
let tag = null;
let wait = EVERY;

function countdown() {
  for (const time of document.querySelectorAll("time[data-deadline]")) {
    const left = Math.round(Number(time.dataset.deadline) - Date.now() / 1000);
    const [d, h, m] = [Math.floor(left / 86400), Math.floor((left % 86400) / 3600), Math.floor((left % 3600) / 60)];
    const said = d ? `${d} d ${h} h` : h ? `${h} h ${m} min` : m ? `${m} min` : `${left} s`;
    time.title = left > 0 ? `in ${said}` : "now";
  }
}

function alive(yes) {
  for (const each of document.querySelectorAll(".beat")) each.hidden = !yes;
}

async function follow() {
  if (!document.hidden) {
    try {
      const answer = await fetch(location.pathname, { headers: tag ? { "If-None-Match": tag } : {}, cache: "no-store" });
      if (answer.status === 200) {
        tag = answer.headers.get("ETag");
        const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("main[data-live]");
        if (fresh && fresh.dataset.live !== main.dataset.live) {
          const scrolled = [...main.querySelectorAll(".scroll")].map((box) => box.scrollLeft);
          main.replaceChildren(...fresh.childNodes);
          main.dataset.live = fresh.dataset.live;
          main.querySelectorAll(".scroll").forEach((box, i) => { box.scrollLeft = scrolled[i] ?? 0; });
          countdown();
        }
      }
      wait = answer.ok || answer.status === 304 ? EVERY : Math.min(2 * wait, 60000);
      alive(answer.ok || answer.status === 304);
    } catch {
      wait = Math.min(2 * wait, 60000); // the service is away: ask less often
      alive(false);
    }
  }
  setTimeout(follow, wait);
}

countdown();
if (main) {
  setInterval(countdown, 1000);
  follow();
}
