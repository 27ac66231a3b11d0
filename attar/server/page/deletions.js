// Deleting, with a while to think again: the server hears of it when the while is over, so that an undo loses
// nothing, whether or not the library keeps texts.

import { byId, element } from "./elements.js";
import { removeDocument } from "./server.js";

const WHILE = 10_000;

/** Deletions that wait: `leaving` hears of each, then `back`, or `gone` once the server has done it. */
export function startDeletions({ leaving, back, gone, failed }) {
  const waiting = new Map();

  function start(name) {
    const undo = element("button", { type: "button", onclick: () => cancel(name) }, "Undo");
    const finishNow = { type: "button", class: "quiet", onclick: () => finish(name) };
    const now = element("button", finishNow, "Delete now");
    const line = element("p", {}, element("strong", {}, name), " is being deleted.");
    const notice = element("div", { class: "notice" }, line, undo, now);
    // Nobody should have to hurry: the while begins again when the pointer or the focus has left.
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
    if (!waiting.has(name)) return;
    hold(name);
    waiting.get(name).timer = setTimeout(() => finish(name), WHILE);
  }

  function forget(name) {
    hold(name);
    waiting.get(name)?.notice.remove();
    return waiting.delete(name);
  }

  function cancel(name) {
    if (forget(name)) back(name);
  }

  async function finish(name) {
    // Hidden still while the server works, lest a list that comes meanwhile shows it again.
    hold(name);
    waiting.get(name)?.notice.remove();
    try {
      await removeDocument(name);
    } catch (problem) {
      // Somebody else was quicker: it is gone all the same.
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

  // Whoever leaves has decided.
  addEventListener("pagehide", () => {
    for (const name of [...waiting.keys()]) {
      forget(name);
      removeDocument(name, true).catch(() => {});
    }
  });

  return { start, cancel, has: (name) => waiting.has(name) };
}
