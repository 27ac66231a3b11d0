// Formatting numbers for people.

const UNITS = ["B", "KB", "MB", "GB", "TB"];

/** A number with three significant digits: 0.412, 4.12, 41.2, 412. */
function threeDigits(number) {
  return number >= 100 ? number.toFixed(0) : number.toPrecision(3).replace(/\.?0+$/, "");
}

/** 812 → "812 B", 10240 → "10.2 KB". */
export function bytes(number) {
  let unit = 0;
  while (number >= 999.5 && unit < UNITS.length - 1) {
    number /= 1000;
    unit += 1;
  }
  return `${unit ? threeDigits(number) : number} ${UNITS[unit]}`;
}

/** 0.00042 → "420 µs", 0.0042 → "4.2 ms", 1.25 → "1.25 s". */
export function seconds(number) {
  if (number === 0) return "0 s";
  if (number < 999.5e-6) return `${threeDigits(number * 1e6)} µs`;
  if (number < 0.9995) return `${threeDigits(number * 1e3)} ms`;
  return `${threeDigits(number)} s`;
}

/** 1234567 → "1,234,567". */
export function count(number) {
  return number.toLocaleString("en-GB");
}

/** About how many words so many tokens are: of English, four for three words. "about 1,200 words". */
export function words(tokens) {
  const about = tokens * 0.75;
  const unit = 10 ** Math.max(0, Math.floor(Math.log10(Math.max(about, 1))) - 1);
  return `about ${counted(Math.max(1, Math.round(about / unit) * unit), "word")}`;
}

/** A date as people write it: "2026-05-03" and "2026-05-03T14:05:00+00:00" → "3 May 2026". */
export function written(date) {
  const [day] = /^\d{4}-\d\d-\d\d(?=T|$)/.exec(date) ?? [date];
  const moment = new Date(`${day}T00:00:00Z`);
  if (Number.isNaN(moment.getTime())) return date;
  return moment.toLocaleDateString("en-GB", { day: "numeric", month: "long", year: "numeric", timeZone: "UTC" });
}

/** One word, two words. */
export function counted(number, word) {
  return `${count(number)} ${word}${number === 1 ? "" : "s"}`;
}

/** 0.624 → "62 %"; no answer is certain, and none that is shown impossible. */
export function wholePercent(share) {
  const hundredths = Math.round(share * 100);
  if (hundredths >= 100) return "> 99 %";
  return hundredths < 1 ? "< 1 %" : `${hundredths} %`;
}

// Ages below this many seconds are shown in this unit, which has this many seconds.
const AGES = [
  [3600, "min", 60],
  [86400, "h", 3600],
  [86400 * 60, "d", 86400],
  [86400 * 730, "months", 86400 * 30],
  [Infinity, "years", 86400 * 365],
];

/** The age of a date in one unit: "3 min ago". */
export function age(moment, now = Date.now()) {
  const passed = Math.max(0, (now - new Date(moment).getTime()) / 1000);
  if (passed < 60) return "just now";
  const [, unit, length] = AGES.find(([below]) => passed < below);
  return `${count(Math.floor(passed / length))} ${unit} ago`;
}
