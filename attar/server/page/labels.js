// The folder and the tags that are given to what is added.

import { tagsIn } from "./choosing.js";
import { byId } from "./elements.js";

/** The folder, with a slash at its end or "", and the tags. */
export function labels() {
  const folder = byId("add-folder").value.trim().replace(/^\/+|\/+$/g, "");
  return { folder: folder ? `${folder}/` : "", tags: tagsIn(byId("add-tags").value) };
}
