// Deletions with undo: the request is sent after a delay, so that an undo loses nothing, even if texts are not
// kept.

import { byId, element } from "./elements.js";
import { counted } from "./figures.js";
import { removeDocuments } from "./server.js";

const DELAY = 10_000;

/** Start deletions: `leaving(names)` is called at the start of each, then `back` on undo, or `gone` once it is done. */
export function startDeletions({ leaving, back, gone, failed }) {
  // Documents that are deleted together, with their notice and its timer.
  const groups = new Set();

  function start(...names) {
    const group = { names, notice: null, timer: 0 };
    const undo = element("button", { type: "button", onclick: () => cancel(group) }, "Undo");
    const finishNow = { type: "button", class: "quiet", onclick: () => finish(group) };
    const now = element("button", finishNow, "Delete now");
    const isOne = names.length === 1;
    const what = element("strong", {}, isOne ? names[0] : counted(names.length, "document"));
    const line = element("p", {}, what, isOne ? " is being deleted." : " are being deleted.");
    group.notice = element("div", { class: "notice" }, line, undo, now);
    // The delay starts again when the pointer or the focus leaves the notice.
    group.notice.addEventListener("pointerenter", () => hold(group));
    group.notice.addEventListener("focusin", () => hold(group));
    group.notice.addEventListener("pointerleave", () => count(group));
    group.notice.addEventListener("focusout", () => count(group));
    groups.add(group);
    byId("notices").append(group.notice);
    count(group);
    leaving(names);
  }

  function hold(group) {
    clearTimeout(group.timer);
  }

  function count(group) {
    if (group.notice === null) return;
    hold(group);
    group.timer = setTimeout(() => finish(group), DELAY);
  }

  /** Take the notice away for good. Removing it fires focusout, which must find nothing to count. */
  function close(group) {
    hold(group);
    const { notice } = group;
    group.notice = null;
    notice?.remove();
  }

  function cancel(group) {
    close(group);
    if (groups.delete(group)) back(group.names);
  }

  async function finish(group) {
    // Kept until the server is done: a list loaded in the meantime would show the documents again.
    close(group);
    try {
      await removeDocuments(group.names);
    } catch (problem) {
      cancel(group);
      failed(problem);
      return;
    }
    if (groups.delete(group)) gone(group.names);
  }

  /** Keep a document that is added again. */
  function keep(name) {
    for (const group of [...groups]) {
      if (!group.names.includes(name)) continue;
      group.names = group.names.filter((other) => other !== name);
      if (!group.names.length) {
        close(group);
        groups.delete(group);
      }
      back([name]);
    }
  }

  // Leaving the page confirms all deletions.
  addEventListener("pagehide", () => {
    for (const group of [...groups]) {
      close(group);
      groups.delete(group);
      removeDocuments(group.names, true).catch(() => {});
    }
  });

  return { start, keep };
}
