// Live charts of the server's load: questions per second and latency, from the difference of two /metrics.

import { Chart } from "./chart.js";
import { byId, say } from "./elements.js";
import { bytes, count, counted, rate, seconds } from "./figures.js";
import { buckets, parse, quantile, total } from "./metrics.js";
import { metrics } from "./server.js";

const EVERY = 2_000;
const SPAN = 120;
// Each batch adds its size: the sum counts questions and lookups, not requests.
const QUESTIONS = "attar_batch_size_sum";
const LATENCY = "attar_request_seconds";

const isAsking = ({ route }) => route === "ask" || route === "lookup";

/** Start the charts; they stop while nobody sees them or they are paused, and after a 401. */
export function startLoad() {
  const pause = byId("pause-load");
  const rates = new Chart(byId("rate-chart"), SPAN, ["first"], rate);
  const latencies = new Chart(byId("latency-chart"), SPAN, ["first", "second"], seconds);
  let before = null;
  let isPaused = false;
  let isRefused = false;

  async function look() {
    if (isPaused || isRefused || document.hidden || byId("load").offsetParent === null) {
      before = null;
      return;
    }
    try {
      const samples = parse(await metrics());
      const now = {
        time: performance.now() / 1000,
        questions: total(samples, QUESTIONS),
        latency: buckets(samples, LATENCY, isAsking),
      };
      say(byId("load-problem"), null);
      // Counters that went down belong to a restarted server: this interval has no value.
      if (before !== null && now.questions >= before.questions) show(before, now);
      before = now;
      byId("load-line").textContent = standing(samples);
    } catch (problem) {
      before = null;
      // Without a token the server would refuse, and log, a request every two seconds.
      isRefused = problem.status === 401;
      say(byId("load-problem"), problem);
    }
  }

  function show(past, now) {
    const speed = (now.questions - past.questions) / (now.time - past.time);
    const times = [0.5, 0.99].map((share) => quantile(past.latency, now.latency, share));
    rates.add(now.time, [speed]);
    latencies.add(now.time, times);
    byId("rate-now").textContent = rate(speed);
    byId("latency-now").textContent = times[0] === null ? "–" : times.map(seconds).join(" · ");
  }

  pause.addEventListener("click", () => {
    isPaused = !isPaused;
    pause.setAttribute("aria-pressed", String(isPaused));
    look();
  });
  document.addEventListener("visibilitychange", look);
  setInterval(look, EVERY);
  look();

  return {
    /** Start again: the view is shown, or there is another token. */
    retry() {
      isRefused = false;
      look();
    },
  };
}

/** The server's documents, disk use and queue, in one line. */
function standing(samples) {
  const has = (name) => samples.some((sample) => sample.name === name);
  const parts = [];
  if (has("attar_store_documents")) parts.push(counted(total(samples, "attar_store_documents"), "document"));
  if (has("attar_store_file_bytes")) parts.push(`${bytes(total(samples, "attar_store_file_bytes"))} on disk`);
  if (has("attar_queue_length")) parts.push(`${count(total(samples, "attar_queue_length"))} waiting`);
  parts.push(`${counted(total(samples, QUESTIONS), "question")} answered so far`);
  return parts.join(" · ");
}
