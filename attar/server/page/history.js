// The questions that were asked in this browser, the latest first.

const KEY = "attar.questions";
const MOST = 12;

/** Kept in localStorage; where the browser blocks it, as long as the page. */
export class QuestionHistory {
  #questions = kept();

  get questions() {
    return this.#questions;
  }

  /** Remember a question, and where it was asked: as the address has it. */
  add({ question, document = "", chosen = "" }) {
    const asked = { question, document, chosen };
    const isOther = (each) => JSON.stringify(each) !== JSON.stringify(asked);
    this.#questions = [asked, ...this.#questions.filter(isOther)].slice(0, MOST);
    this.#keep();
  }

  clear() {
    this.#questions = [];
    this.#keep();
  }

  #keep() {
    try {
      if (this.#questions.length) localStorage.setItem(KEY, JSON.stringify(this.#questions));
      else localStorage.removeItem(KEY);
    } catch {
      /* the questions are not remembered */
    }
  }
}

/** What another version of the page, or another program, may have left is ignored. */
function kept() {
  try {
    const found = JSON.parse(localStorage.getItem(KEY)) ?? [];
    const isQuestion = (each) => [each?.question, each?.document, each?.chosen].every((value) => typeof value === "string");
    return Array.isArray(found) ? found.filter(isQuestion) : [];
  } catch {
    return [];
  }
}
