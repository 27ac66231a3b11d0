// Deletions with undo: the request is sent after a delay, so that an undo loses nothing, even if texts are not
// kept.

import { byId, element } from "./elements.js";
import { removeDocument } from "./server.js";

const DELAY = 10_000;

/** Start deletions: `leaving` is called at the start of each, then `back` on undo, or `gone` once it is done. */
export function startDeletions({ leaving, back, gone, failed }) {
  const waiting = new Map();

  function start(name) {
    const undo = element("button", { type: "button", onclick: () => cancel(name) }, "Undo");
    const finishNow = { type: "button", class: "quiet", onclick: () => finish(name) };
    const now = element("button", finishNow, "Delete now");
    const line = element("p", {}, element("strong", {}, name), " is being deleted.");
    const notice = element("div", { class: "notice" }, line, undo, now);
    // The delay starts again when the pointer or the focus leaves the notice.
    notice.addEventListener("pointerenter", () => hold(name));
    notice.addEventListener("focusin", () => hold(name));
    notice.addEventListener("pointerleave", () => count(name));
    notice.addEventListener("focusout", () => count(name));
    waiting.set(name, { notice, timer: 0 });
    byId("notices").append(notice);
    count(name);
    leaving(name);
  }

  function hold(name) {
    clearTimeout(waiting.get(name)?.timer);
  }

  function count(name) {
    if (!waiting.get(name)?.notice) return;
    hold(name);
    waiting.get(name).timer = setTimeout(() => finish(name), DELAY);
  }

  /** Take the notice away for good. Removing it fires focusout, which must find nothing to count. */
  function close(name) {
    hold(name);
    const { notice } = waiting.get(name) ?? {};
    waiting.set(name, {});
    notice?.remove();
  }

  function forget(name) {
    close(name);
    return waiting.delete(name);
  }

  function cancel(name) {
    if (waiting.has(name) && forget(name)) back(name);
  }

  async function finish(name) {
    // Keep it hidden until the server is done: a list loaded in the meantime would show it again.
    close(name);
    try {
      await removeDocument(name);
    } catch (problem) {
      // Another client has removed it already.
      if (problem.status !== 404) {
        waiting.delete(name);
        back(name);
        failed(problem);
        return;
      }
    }
    waiting.delete(name);
    gone(name);
  }

  // Leaving the page confirms all deletions.
  addEventListener("pagehide", () => {
    for (const name of [...waiting.keys()]) {
      forget(name);
      removeDocument(name, true).catch(() => {});
    }
  });

  return { start, cancel, has: (name) => waiting.has(name) };
}
