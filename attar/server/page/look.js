// How many sentences are read again with a question: a setting that is kept in the browser.

import { byId } from "./elements.js";

const KEY = "attar.look";

/** Start the setting; it is offered once the server says that its reader can. */
export function startLook() {
  const select = byId("look");

  function show({ look = 0 }) {
    byId("look-setting").hidden = look === 0;
    const other = kept();
    select.value = [...select.options].some(({ value }) => value === other) ? other : "";
  }

  select.addEventListener("change", () => {
    try {
      localStorage.setItem(KEY, select.value);
    } catch {
      /* the choice lasts as long as the page */
    }
  });

  /** The number that is chosen; null: the server's own. */
  const value = () => (byId("look-setting").hidden || select.value === "" ? null : Number(select.value));

  return { show, value };
}

function kept() {
  try {
    return localStorage.getItem(KEY) ?? "";
  } catch {
    return "";
  }
}
