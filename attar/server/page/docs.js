// The page of the HTTP API: every route of openapi.json, with a form that sends a request to this server.

import { byId, element, say } from "./elements.js";
import { keepToken, token } from "./server.js";

// Requests that need no thought to send: the others have an example to change first.
const EXAMPLES = {
  Ask: { question: "When is the next meeting?" },
  Search: { query: "meeting" },
  PutDocument: { text: "Vance married Lucy Dane in Ashby. Two hundred guests came." },
  AppendText: { text: "The band played until two." },
  Merge: { new: "both", documents: ["one", "two"] },
  Remove: { documents: ["one", "two"] },
};

start();

async function start() {
  byId("token").value = token();
  byId("docs-token").addEventListener("submit", (event) => event.preventDefault());
  byId("token").addEventListener("input", () => keepToken(byId("token").value.trim()));
  try {
    const response = await fetch(new URL("openapi.json", document.baseURI));
    const { paths } = await response.json();
    const operations = Object.entries(paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]) => drawn(method.toUpperCase(), path, operation)),
    );
    byId("operations").replaceChildren(...operations);
  } catch {
    say(byId("docs-problem"), { message: "The server does not answer. Is attar serve still running?" });
  }
}

function drawn(method, path, operation) {
  const title = element("summary", {}, element("code", {}, method), element("code", {}, path));
  title.append(element("span", { class: "aside" }, operation.summary));
  const body = operation.requestBody?.content ?? {};
  const fields = (operation.parameters ?? []).map((parameter) => fieldOf(operation.operationId, parameter));
  const content = contentOf(operation.operationId, body);
  const reply = element("pre", { tabindex: 0, "aria-live": "polite", hidden: true });
  const button = element("button", { type: "submit" }, "Send");
  const form = element("form", {}, ...fields.flatMap(({ parts }) => parts), ...content.parts, element("div", { class: "row" }, button), reply);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    reply.hidden = false;
    reply.textContent = "…";
    reply.textContent = await send(method, path, fields, content.read());
    button.disabled = false;
  });
  return element("details", { class: "operation", id: operation.operationId }, title, form);
}

/** The label and input of a parameter. */
function fieldOf(operation, { name, in: place, description, required, schema }) {
  const id = `${operation}-${name}`;
  const input = schema.enum
    ? element("select", { id }, ...schema.enum.map((value) => element("option", {}, value)))
    : element("input", { id, required, autocomplete: "off", spellcheck: "false", placeholder: schema.default });
  const label = element("label", { for: id }, `${name}: `, element("span", { class: "aside" }, description));
  return { name, place, input, parts: [label, input] };
}

/** The label and input of a body, and what reads it: JSON, or a file. */
function contentOf(operation, content) {
  const id = `${operation}-body`;
  if ("multipart/form-data" in content) {
    const input = element("input", { id, type: "file", multiple: true, required: true });
    const read = () => {
      const form = new FormData();
      for (const file of input.files) form.append("file", file);
      return { body: form };
    };
    return { parts: [element("label", { for: id }, "Files"), input], read };
  }
  const reference = content["application/json"]?.schema.$ref;
  if (!reference) return { parts: [], read: () => ({}) };
  const example = JSON.stringify(EXAMPLES[reference.split("/").at(-1)] ?? {}, null, 2);
  const input = element("textarea", { id, rows: 5, spellcheck: "false" }, example);
  const read = () => ({ body: input.value, headers: { "Content-Type": "application/json" } });
  return { parts: [element("label", { for: id }, "Body"), input], read };
}

/** Send a request; its status, the time it took and its reply as text. */
async function send(method, path, fields, { body, headers = {} }) {
  const query = new URLSearchParams();
  let filled = path.slice(1);
  for (const { name, place, input } of fields) {
    if (place === "path") filled = filled.replace(`{${name}}`, encodeURIComponent(input.value));
    else if (input.value) query.set(name, input.value);
  }
  const url = new URL(filled + (query.size ? `?${query}` : ""), document.baseURI);
  if (token()) headers.Authorization = `Bearer ${token()}`;
  const started = performance.now();
  try {
    const response = await fetch(url, { method, headers, body });
    const text = await response.text();
    const took = `${Math.round(performance.now() - started)} ms`;
    return `${method} ${url.pathname}${url.search}\n${response.status} ${response.statusText} · ${took}\n\n${pretty(text)}`;
  } catch {
    return "The server does not answer.";
  }
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
