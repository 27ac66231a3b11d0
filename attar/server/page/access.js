// The token that a server may want: asked for when it does, kept in this tab.

import { byId, say } from "./elements.js";
import { Problem, keepToken, token } from "./server.js";

/** The token's dialog. `given()` hears that there is another token to try. */
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
  document.addEventListener("tokenwanted", () =>
    open(new Problem(token() ? "The server does not know this token." : "The server wants a token.")),
  );
}
