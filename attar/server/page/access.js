// The dialog for the bearer token, which opens when the server asks for one.

import { byId, say } from "./elements.js";
import { Problem, keepToken, token } from "./server.js";

/** Start the dialog; `given()` is called when a token was entered. */
export function startAccess({ given }) {
  const [dialog, field, problem] = [byId("token-dialog"), byId("token"), byId("token-problem")];

  function open(line) {
    if (dialog.open) return;
    say(problem, line);
    field.value = token();
    dialog.showModal();
    field.select();
  }

  byId("open-token").addEventListener("click", () => open(null));
  byId("token-cancel").addEventListener("click", () => dialog.close());
  byId("token-form").addEventListener("submit", () => {
    keepToken(field.value.trim());
    given();
  });
  document.addEventListener("tokenrequired", () =>
    open(new Problem(token() ? "The server does not accept this token." : "The server requires a token.")),
  );
}
